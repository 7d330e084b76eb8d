"""Classes of rows that agree in what they are ordered by, and where those end that a rank shows.

The first `key_lengths[row]` bytes of the strings of a class are equal; rows are in treaps, in order of their strings.
"""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Int64s
from sash.kernels.jit import kernel
from sash.kernels.treaps import (
    LEFT,
    MULTIPLICITY,
    RIGHT,
    ROOT,
    SIZE,
    VALUE,
    Treaps,
    compare,
    kth,
    size,
)

ROW_NUMBER, RANK, DENSE_RANK = 0, 1, 2


class RankBounds(NamedTuple):
    """Which rows are shown."""

    function: int
    first: int
    last: int


@kernel
def find_high(owner: int, cut: RankBounds, key_lengths: Int64s, treaps: Treaps) -> tuple[int, bool]:
    """Where the last row ends that may be shown, and whether rows that come later make no difference to it."""
    n_rows = size(owner, treaps.roots, treaps.nodes)
    if n_rows < cut.last:
        return n_rows, False
    if cut.function == ROW_NUMBER:
        return cut.last, True
    if cut.function == RANK:
        return class_end(owner, kth(owner, cut.last - 1, treaps.roots, treaps.nodes), key_lengths, treaps), True
    high, n_classes = 0, 0
    while n_classes < cut.last and high < n_rows:
        high = class_end(owner, kth(owner, high, treaps.roots, treaps.nodes), key_lengths, treaps)
        n_classes += 1
    return high, n_classes == cut.last


@kernel
def class_end(owner: int, row: int, key_lengths: Int64s, treaps: Treaps) -> int:
    """How many rows of a partition come no later than those of a row's class."""
    nodes = treaps.nodes
    n_rows, node = 0, treaps.roots[owner, ROOT]
    while node:
        if compare_keys(nodes[node, VALUE], row, key_lengths, treaps) <= 0:
            n_rows += nodes[nodes[node, LEFT], SIZE] + nodes[node, MULTIPLICITY]
            node = nodes[node, RIGHT]
        else:
            node = nodes[node, LEFT]
    return n_rows


@kernel
def compare_keys(a: int, b: int, key_lengths: Int64s, treaps: Treaps) -> int:
    """Below 0, 0 or above 0 as the class of one row comes before that of another, is the same, or comes after it."""
    offsets, data = treaps.words
    for i in range(min(key_lengths[a], key_lengths[b])):
        byte_a, byte_b = data[offsets[a] + i], data[offsets[b] + i]
        if byte_a != byte_b:
            return -1 if byte_a < byte_b else 1
    # No string of a class is the beginning of another's.
    return 0


@kernel
def is_behind(row: int, bound: int, cut: RankBounds, key_lengths: Int64s, treaps: Treaps) -> bool:
    """Whether a row comes later than another, and, where classes count, than all of its class."""
    if cut.function == ROW_NUMBER:
        return compare(row, bound, treaps.words) > 0
    return compare_keys(row, bound, key_lengths, treaps) > 0
