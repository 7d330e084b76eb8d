"""The loop of top-k: rows come and go in partitions, and of each partition the first ones are shown.

    owner     a partition, whose rows are a treap, in order of their byte strings (`kernels/treaps.py`)
    class     rows that agree in what they are ordered by: the first `key_lengths[row]` bytes of their strings are equal
    shown     the places from `cut.first` until before HIGH, which is where the last row ends that may be shown:

              ROW_NUMBER    at `cut.last`
              RANK          behind the class of the row before `cut.last`
              DENSE_RANK    behind as many classes

What an event changes lies at the ends of what is shown, so that it costs a few walks down the tree, and as many as rows
come and go in the answer.

Of a large partition the tree holds the first rows only, up to the row BOUND - 1, or where classes count the last one of
its class; N_REST rows that come later lie in no order. They are looked at again when too few are left in the tree, and
then so many are taken that each of them has been paid for by a row that left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int8s, Int64s
from sash.kernels.jit import kernel
from sash.kernels.rank_classes import ROW_NUMBER, RankBounds, class_end, find_high, is_behind
from sash.kernels.treaps import (
    Treaps,
    greatest,
    insert,
    kth,
    multiplicity,
    rank,
    remove,
    size,
)

HIGH, BOUND, N_REST = 0, 1, 2
PARTITION_WIDTH = 3
LEAST_ORDERED, ORDERED_SHARE = 1024, 32
"""At least so many rows of a partition are in order, and at least one of so many."""
N_SAMPLED = 256


class RankEvents(NamedTuple):
    """What happens, in order of time and then partition; `runs` numbers what happens at once."""

    runs: Int64s
    rows: Int64s
    signs: Int8s


class RankedRows(NamedTuple):
    """All rows by number: their partitions, how often each is there, and where its class ends in its string."""

    owners: Int64s
    counts: Int64s
    key_lengths: Int64s
    partitions: Int64s


class RankChanges(NamedTuple):
    """Room for changes of what is shown: in which run, of which row."""

    run: Int64s
    row: Int64s
    sign: Int8s


@kernel
def follow(
    first: int, events: RankEvents, cut: RankBounds, ranked: RankedRows, treaps: Treaps, out: RankChanges
) -> tuple[int, int]:
    """Lets rows come and go, from an event on; returns the next event and how many changes there are so far.

    Stops before an event whose changes do not fit. Within a run, changes may take each other back.
    """
    runs, rows, signs = events
    n_out = 0
    for event in range(first, rows.shape[0]):
        n_before = n_out
        n_out = _move(rows[event], np.int64(signs[event]), cut, ranked, treaps, n_out, out)
        if n_out < 0:
            return event, n_before
        out.run[n_before:n_out] = runs[event]
    return rows.shape[0], n_out


@kernel
def _move(
    row: int, sign: int, cut: RankBounds, ranked: RankedRows, treaps: Treaps, n_out: int, out: RankChanges
) -> int:
    """A row comes or goes. Returns how many changes there are then; -1 if they do not fit, and nothing has happened."""
    roots, nodes, pool, words = treaps
    owner = ranked.owners[row]
    partition = ranked.partitions[owner]
    # 1. What comes behind all that is in order shows nowhere.
    if partition[BOUND] and is_behind(row, partition[BOUND] - 1, cut, ranked.key_lengths, treaps):
        partition[N_REST] += sign
        ranked.counts[row] += sign
        _unbind(owner, partition, treaps)
        return n_out
    # 2. Where what was shown has moved to; what comes in between is a hole in it.
    low, high, hole, n_gone = cut.first, max(partition[HIGH], cut.first), -1, 0
    place = rank(owner, row, roots, nodes, words)
    if sign > 0:
        place += multiplicity(owner, row, roots, nodes, words)
        insert(owner, row, roots, nodes, pool, words)
        hole = place if low < place < high else -1
        n_gone = 0
    else:
        remove(owner, row, roots, nodes, pool, words)
        n_gone = 1 if low <= place < high else 0
    was_low = low + sign if place < low or (sign > 0 and place == low) else low
    was_high = max(high + sign if place < high else high, was_low)
    ranked.counts[row] += sign
    if sign < 0:
        _refill(owner, cut, ranked, treaps)
    is_high = max(find_high(owner, cut, ranked.key_lengths, treaps)[0], low)
    # 3. Below, behind and within: what is shown now and was not, and the other way round.
    n_more = max(min(was_low, is_high) - low, 0) + max(is_high - max(was_high, low), 0) + (low <= hole < is_high)
    n_less = max(min(low, was_high) - was_low, 0) + max(was_high - max(is_high, was_low), 0) + n_gone
    if n_out + n_more + n_less > out.row.shape[0]:
        ranked.counts[row] -= sign
        if sign > 0:
            remove(owner, row, roots, nodes, pool, words)
        else:
            insert(owner, row, roots, nodes, pool, words)
        return -1
    n_out = _show(owner, low, min(was_low, is_high), 1, hole, treaps, n_out, out)
    n_out = _show(owner, max(was_high, low), is_high, 1, hole, treaps, n_out, out)
    n_out = _show(owner, was_low, min(low, was_high), -1, hole, treaps, n_out, out)
    n_out = _show(owner, max(is_high, was_low), was_high, -1, hole, treaps, n_out, out)
    if n_gone or low <= hole < is_high:
        out.row[n_out], out.sign[n_out] = row, sign
        n_out += 1
    partition[HIGH] = is_high
    if sign > 0:
        _shorten(owner, cut, ranked, treaps)
    else:
        _unbind(owner, partition, treaps)
    return n_out


@kernel
def _show(owner: int, start: int, end: int, sign: int, hole: int, treaps: Treaps, n_out: int, out: RankChanges) -> int:
    """Writes the rows in some places as changes, less the one that has come just now."""
    for place in range(start, end):
        if place != hole:
            out.row[n_out], out.sign[n_out] = kth(owner, place, treaps.roots, treaps.nodes), sign
            n_out += 1
    return n_out


@kernel
def _n_wanted(n_rows: int, cut: RankBounds) -> int:
    """How many rows of a partition should be in order."""
    return max(4 * cut.last, LEAST_ORDERED, n_rows // ORDERED_SHARE)


@kernel
def _shorten(owner: int, cut: RankBounds, ranked: RankedRows, treaps: Treaps) -> None:
    """Once twice as many rows are in order as should be, lets the later ones go."""
    roots, nodes, pool, words = treaps
    partition, n_ordered = ranked.partitions[owner], size(owner, roots, nodes)
    n_wanted = max(_n_wanted(n_ordered + partition[N_REST], cut), partition[HIGH])
    if n_ordered <= 2 * n_wanted:
        return
    bound = kth(owner, n_wanted - 1, roots, nodes)
    if cut.function == ROW_NUMBER:
        end = rank(owner, bound, roots, nodes, words) + multiplicity(owner, bound, roots, nodes, words)
    else:
        end = class_end(owner, bound, ranked.key_lengths, treaps)
    if end == n_ordered:
        return
    partition[BOUND] = bound + 1
    partition[N_REST] += n_ordered - end
    while n_ordered > end:
        remove(owner, greatest(owner, roots, nodes), roots, nodes, pool, words)
        n_ordered -= 1


@kernel
def _refill(owner: int, cut: RankBounds, ranked: RankedRows, treaps: Treaps) -> None:
    """Takes rows that lie in no order until so many are in order that the others make no difference."""
    partition = ranked.partitions[owner]
    while partition[N_REST] and not find_high(owner, cut, ranked.key_lengths, treaps)[1]:
        waiting = _find_waiting(owner, cut, ranked, treaps)
        n_ordered = size(owner, treaps.roots, treaps.nodes)
        n_wanted = _n_wanted(n_ordered + partition[N_REST], cut) - n_ordered
        if waiting.shape[0] <= n_wanted:
            partition[BOUND] = 0
        else:
            partition[BOUND] = _choose_bound(waiting, n_wanted, cut, ranked, treaps) + 1
        for row in waiting:
            if not partition[BOUND] or not is_behind(row, partition[BOUND] - 1, cut, ranked.key_lengths, treaps):
                for _ in range(ranked.counts[row]):
                    insert(owner, row, treaps.roots, treaps.nodes, treaps.pool, treaps.words)
                partition[N_REST] -= ranked.counts[row]


@kernel
def _find_waiting(owner: int, cut: RankBounds, ranked: RankedRows, treaps: Treaps) -> Int64s:
    """The rows of a partition that lie in no order."""
    waiting = np.empty(ranked.partitions[owner, N_REST], np.int64)
    bound, n_found = ranked.partitions[owner, BOUND] - 1, 0
    for row in range(ranked.owners.shape[0]):
        is_there = ranked.owners[row] == owner and ranked.counts[row] > 0
        if is_there and is_behind(row, bound, cut, ranked.key_lengths, treaps):
            waiting[n_found] = row
            n_found += 1
    return waiting[:n_found]


@kernel
def _choose_bound(waiting: Int64s, n_wanted: int, cut: RankBounds, ranked: RankedRows, treaps: Treaps) -> int:
    """A row behind about as many others as are wanted, by a sample of them."""
    n_sampled = min(N_SAMPLED, waiting.shape[0])
    sample = np.empty(n_sampled, np.int64)
    for i in range(n_sampled):
        row = waiting[i * waiting.shape[0] // n_sampled]
        at = i
        while at > 0 and is_behind(sample[at - 1], row, cut, ranked.key_lengths, treaps):
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = row
    return sample[min(n_sampled * n_wanted // waiting.shape[0], n_sampled - 1)]


@kernel
def _unbind(owner: int, partition: Int64s, treaps: Treaps) -> None:
    """A partition of which all rows are in order has no bound."""
    if partition[N_REST] == 0:
        partition[BOUND] = 0
