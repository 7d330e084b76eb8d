"""Which value stands for a partition group where Spark shuffles, so that every partition gets equally many groups.

Spark sends a row with the integer x in its grouping column to the partition pmod(murmur3(x), n_partitions). The numbers
0, 1, 2 … would fall unevenly: of four groups three may share a partition while another has none.
"""

from __future__ import annotations

from itertools import count

SEED = 42
"""The one that Spark's HashPartitioning starts from."""
_MASK = 0xFFFFFFFF


def group_labels(n_groups: int, n_partitions: int) -> list[int]:
    """A label for each group. A multiple of the partitions is spread evenly, another number as evenly as it can be."""
    room = [-(-n_groups // n_partitions)] * n_partitions
    labels: list[int] = []
    for label in count():
        if len(labels) == n_groups:
            return labels
        partition = spark_partition(label, n_partitions)
        if room[partition]:
            room[partition] -= 1
            labels.append(label)
    raise AssertionError


def spark_partition(label: int, n_partitions: int) -> int:
    """The shuffle partition that Spark sends an integer to."""
    return _signed(murmur3(label)) % n_partitions


def murmur3(value: int) -> int:
    """MurmurHash3 (x86, 32 bit) of a 4-byte integer with Spark's seed, without its sign."""
    mixed = _rotate((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    hashed = (_rotate(SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
