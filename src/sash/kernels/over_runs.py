"""The loop of OVER: rows come and go in partitions, and what that may change is listed, as it was and as it is.

    owner      a partition, whose rows are a treap, in order of their byte strings (`kernels/treaps.py`)
    run        what happens to one partition at one instant
    listing    rows of a partition from one place on to another, in order; two for each run, before it and after it

    before     a b b d e f            c comes, and one b goes. With a reach of 1, b b to d may change: so may a and e,
    after      a b c d e f            which see their neighbours. Rows further away are not looked at.

Equal rows are told apart by their `copies`: 0, 1 …
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Int8s, Int64s
from sash.kernels.jit import kernel
from sash.kernels.rank_classes import compare_keys
from sash.kernels.treaps import LEFT, MULTIPLICITY, RIGHT, ROOT, SIZE, VALUE, Treaps, insert, multiplicity, rank, remove
from sash.kernels.treaps import size as size_of

FIRST, PLACE, SHOWN, SHOWN_END = 0, 1, 2, 3
BOUNDS_WIDTH = 4
_FIRST_DEPTH = 64
LEAST, MOST = -(2**63), 2**63 - 1


class OverEvents(NamedTuple):
    """What happens, in order of time and then partition; run r has the events `starts[r]..starts[r + 1]`."""

    starts: Int64s
    rows: Int64s
    signs: Int8s


class PlacedRows(NamedTuple):
    """All rows by number: their partitions, how often each is there, and where its class ends in its string."""

    owners: Int64s
    counts: Int64s
    key_lengths: Int64s


class Listings(NamedTuple):
    """Room for listings. Of each, `bounds` has where it begins, the place of its first row in the partition, and which
    places may have changed.
    """

    bounds: Int64s
    rows: Int64s
    copies: Int64s
    begins_class: Bools
    """Whether the row before it in the listing is ordered before it; the first row of a listing begins one."""


@kernel
def follow(
    first: int, events: OverEvents, reach: int, placed: PlacedRows, treaps: Treaps, out: Listings
) -> tuple[int, int]:
    """Lets rows come and go, from a run on; returns the next run and how many rows are listed so far.

    A row that comes or goes changes what is said of rows at most `reach` places away, or of all if that is negative.
    Stops before a run whose listings do not fit.
    """
    roots, nodes, _, words = treaps
    starts, rows, signs = events
    n_out = 0
    for run in range(first, starts.shape[0] - 1):
        owner = placed.owners[rows[starts[run]]]
        n_before = size_of(owner, roots, nodes)
        # 1. Between which places of those before the run something comes or goes.
        low, high, n_more = n_before, 0, 0
        for event in range(starts[run], starts[run + 1]):
            place = rank(owner, rows[event], roots, nodes, words)
            low = min(low, place)
            high = max(high, place + multiplicity(owner, rows[event], roots, nodes, words))
            n_more += signs[event]
        start, shown, shown_end, end = 0, 0, n_before, n_before
        if reach >= 0:
            start, shown = max(low - 2 * reach, 0), max(low - reach, 0)
            shown_end, end = min(high + reach, n_before), min(high + 2 * reach, n_before)
        if n_out + 2 * (end - start) + max(n_more, 0) > out.rows.shape[0]:
            return run, n_out
        # 2. What is there, before and after; behind `high` all is as it was, but moved.
        listing = 2 * (run - first)
        for after in range(2):
            moved = n_more if after else 0
            if after:
                for event in range(starts[run], starts[run + 1]):
                    _move(owner, rows[event], signs[event], placed.counts, treaps)
            bounds = out.bounds[listing + after]
            bounds[FIRST], bounds[PLACE], bounds[SHOWN], bounds[SHOWN_END] = n_out, start, shown, shown_end + moved
            n_out = _list(owner, start, end + moved, placed.key_lengths, treaps, n_out, out)
    return starts.shape[0] - 1, n_out


@kernel
def place_rows(rows: Int64s, signs: Int8s, placed: PlacedRows, treaps: Treaps) -> None:
    """Lets rows come and go, and lists none."""
    for event in range(rows.shape[0]):
        _move(placed.owners[rows[event]], rows[event], signs[event], placed.counts, treaps)


@kernel
def _move(owner: int, row: int, sign: int, counts: Int64s, treaps: Treaps) -> None:
    roots, nodes, pool, words = treaps
    counts[row] += sign
    if sign > 0:
        insert(owner, row, roots, nodes, pool, words)
    else:
        remove(owner, row, roots, nodes, pool, words)


@kernel
def _list(owner: int, start: int, end: int, key_lengths: Int64s, treaps: Treaps, n_out: int, out: Listings) -> int:
    """Writes the rows of a partition from one place on to before another; returns how many are written then."""
    if end <= start:
        return n_out
    nodes, n_first, n_left = treaps.nodes, n_out, end - start
    stack, depth, node, n_skipped = np.empty(_FIRST_DEPTH, np.int64), 0, treaps.roots[owner, ROOT], start
    # 1. Down to the first row; what comes behind it waits on the stack.
    while True:
        n_before = nodes[nodes[node, LEFT], SIZE]
        if n_skipped >= n_before + nodes[node, MULTIPLICITY]:
            n_skipped -= n_before + nodes[node, MULTIPLICITY]
            node = nodes[node, RIGHT]
            continue
        stack = _with_room(stack, depth)
        stack[depth], depth = node, depth + 1
        if n_skipped >= n_before:
            n_skipped -= n_before
            break
        node = nodes[node, LEFT]
    # 2. From one row to the next.
    while n_left:
        depth -= 1
        node = stack[depth]
        row = nodes[node, VALUE]
        for copy in range(n_skipped, min(nodes[node, MULTIPLICITY], n_skipped + n_left)):
            begins = n_out == n_first
            if not begins and out.rows[n_out - 1] != row:
                begins = compare_keys(out.rows[n_out - 1], row, key_lengths, treaps) != 0
            out.rows[n_out], out.copies[n_out], out.begins_class[n_out] = row, copy, begins
            n_out, n_left = n_out + 1, n_left - 1
        n_skipped, node = 0, nodes[node, RIGHT]
        while node:
            stack = _with_room(stack, depth)
            stack[depth], depth, node = node, depth + 1, nodes[node, LEFT]
    return n_out


@kernel
def _with_room(stack: Int64s, depth: int) -> Int64s:
    if depth < stack.shape[0]:
        return stack
    larger = np.empty(2 * depth, np.int64)
    larger[:depth] = stack
    return larger


@kernel
def find_range(starts: Int64s, keys: Int64s, is_null: Bools, offset: int, is_end: bool, out: Int64s) -> None:
    """Where frames begin, or end, whose rows have keys by at least, or at most, `offset` more than a row's own.

    Of each listing `starts[i]..starts[i + 1]` keys come upwards. A row without a key has those without one.
    """
    for listing in range(starts.shape[0] - 1):
        start, end = starts[listing], starts[listing + 1]
        # 1. Rows without a key lie together, at either end.
        low, high = start, end
        while low < high and is_null[low]:
            low += 1
        while high > low and is_null[high - 1]:
            high -= 1
        for row in range(start, low):
            out[row] = low if is_end else start
        for row in range(high, end):
            out[row] = end if is_end else high
        # 2. Bounds move on with the keys.
        at = low
        for row in range(low, high):
            while at < high and _comes_before(keys[at], keys[row], offset, is_end):
                at += 1
            out[row] = at


@kernel
def _comes_before(other: int, key: int, offset: int, is_end: bool) -> bool:
    """Whether a key is less than another one and an offset, or equal to it where a frame ends; sums have no limit."""
    if offset > 0 and key > MOST - offset:
        return True
    if offset < 0 and key < LEAST - offset:
        return False
    return other <= key + offset if is_end else other < key + offset
