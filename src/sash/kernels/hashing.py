"""64-bit hashes of column values. They decide buckets and partition groups, so they never change between releases."""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.arrays import Bytes, Int64s, Offsets, UInt64s
from sash.kernels.jit import inlined_kernel, kernel

NULL_HASH = np.uint64(0x9E3779B97F4A7C15)


@inlined_kernel
def mix64(value: int | np.integer[Any]) -> np.uint64:
    """SplitMix64's finaliser: a bijection on 64 bits that spreads every input bit over the whole word."""
    z = np.uint64(value)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def unmix_all(hashes: UInt64s) -> Int64s:
    """The words that `mix64` makes these of."""
    words = np.empty(hashes.shape[0], np.int64)
    for i in range(hashes.shape[0]):
        z = hashes[i]
        z = (z ^ (z >> np.uint64(31)) ^ (z >> np.uint64(62))) * np.uint64(0x319642B2D24D8EC3)
        z = (z ^ (z >> np.uint64(27)) ^ (z >> np.uint64(54))) * np.uint64(0x96DE1B173F119089)
        words[i] = np.int64(z ^ (z >> np.uint64(30)) ^ (z >> np.uint64(60)))
    return words


@kernel
def hash_words(words: UInt64s, seed: UInt64s) -> None:
    """Folds a column of 64-bit words into `seed`, in place."""
    for i in range(words.shape[0]):
        seed[i] = mix64(seed[i] * np.uint64(31) + mix64(words[i]))


@kernel
def hash_bytes(offsets: Offsets, data: Bytes, seed: UInt64s) -> None:
    """Folds a column of byte strings (Arrow offsets and data) into `seed`, in place; FNV-1a over the bytes."""
    for i in range(offsets.shape[0] - 1):
        h = np.uint64(0xCBF29CE484222325)
        for position in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[position])) * np.uint64(0x100000001B3)
        seed[i] = mix64(seed[i] * np.uint64(31) + mix64(h))
