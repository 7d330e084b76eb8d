"""Keys in order of a hash: dealt out by its highest bits to piles of about four, which are then sorted one by one.

Hashes are spread evenly, so piles are short, but for those of keys that come often.
"""

from __future__ import annotations

import numpy as np

from sash.kernels.arrays import Int64s, UInt64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import borrowing_kernel, kernel

PILE = 4
HIGH_PILE = 32
"""From so many on, a pile is sorted by merging: it may be any part of all rows."""
MOST_BITS = 20
"""More piles than this do not fit into the caches."""


@kernel
def order_by_hash(keys: Int64s) -> tuple[Int64s, UInt64s]:
    """The places of keys in order of `mix64`, those of one key as they come; and the hashes in this order."""
    n_keys, n_bits = keys.shape[0], 1
    while n_bits < MOST_BITS and (PILE << n_bits) < n_keys:
        n_bits += 1
    shift = np.uint64(64 - n_bits)
    # 1. Where each pile begins.
    starts = np.zeros((1 << n_bits) + 1, np.int64)
    for i in range(n_keys):
        starts[np.int64(mix64(keys[i]) >> shift) + 1] += 1
    for pile in range(1 << n_bits):
        starts[pile + 1] += starts[pile]
    # 2. All are dealt out; afterwards `starts` says where piles end.
    order, hashes = np.empty(n_keys, np.int64), np.empty(n_keys, np.uint64)
    for i in range(n_keys):
        hash = mix64(keys[i])
        pile = np.int64(hash >> shift)
        order[starts[pile]], hashes[starts[pile]] = i, hash
        starts[pile] += 1
    # 3. Each pile is sorted.
    first = 0
    for pile in range(1 << n_bits):
        last = starts[pile]
        if last - first < HIGH_PILE:
            _insert(order, hashes, first, last)
        else:
            within = np.argsort(hashes[first:last], kind="mergesort")
            order[first:last], hashes[first:last] = order[first:last][within], hashes[first:last][within]
        first = last
    return order, hashes


@borrowing_kernel
def _insert(order: Int64s, hashes: UInt64s, first: int, last: int) -> None:
    """Sorts by insertion: what is equal stays as it is."""
    for k in range(first + 1, last):
        hash, place, at = hashes[k], order[k], k
        while at > first and hashes[at - 1] > hash:
            hashes[at], order[at] = hashes[at - 1], order[at - 1]
            at -= 1
        hashes[at], order[at] = hash, place
