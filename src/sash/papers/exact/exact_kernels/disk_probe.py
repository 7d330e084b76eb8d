"""A pass over blocks that were read from disk, each of which meets the rows that have not met it (Exact, Alg. 1 and 3).

    rows of i, as processed       a ………………………………………… b          fresh: none of them has been through a probe
    block p of the other one            [in memory)   [again)
    joined with p now             ++++++            ++        +     what came after p, and did not find it in memory

A row is in or out of a block's ranges, and the later row of a pair owns it: so a pair is found once. Whether a block is
frequent, was thrown out of the frequent ones in this pass, or is on its way to be invalidated, is not asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.jit import kernel
from sash.papers.exact.exact_kernels.block_frames import (
    COMPARED,
    END,
    KEY,
    NEXT,
    NOW_US,
    PAIRED,
    PER_COMPARISON,
    PER_PAIR,
    ROW,
    SEQ,
    TS,
    BlockHeads,
    FoundRoom,
    Frames,
    WorkLog,
    chain_of,
    charge,
    credit,
    emit,
    scan,
)

DONE, NO_ROOM, OFFERED = 0, 1, 2
MAX_RANGES = 4
BLOCK, PLACE, IS_COUNTED, BUCKET = 0, 1, 2, 3


class ReadBlocks(NamedTuple):
    """Blocks as they were read, their numbers, and how far a pass has come, which is moved on: to which row of which
    block, whether that block is counted, and of which bucket the fresh rows have been gone over last.
    """

    records: Int64s
    blocks: Int64s
    at: Int64s


class FreshRows(NamedTuple):
    """The rows that have not been through a probe: from which number to which, and by bucket which numbers.

    `seqs` of bucket p are those from `starts[p]` on, ascending; `n_before` counts the rows of all that stand before.
    """

    bounds: Int64s
    starts: Int64s
    seqs: Int64s
    n_before: Int64s


@kernel
def find_gaps(heads: BlockHeads, block: int, first: int, last: int, gaps: Int64s) -> int:
    """The numbers from `first` to `last` of rows that came after a block and were not processed while it was in memory:
    how many gaps, which are put into `gaps`.
    """
    start, n_gaps = max(first, heads.born[block]), 0
    for place in range(heads.n_ranges[block]):
        low, high = heads.ranges[block, place, 0], heads.ranges[block, place, 1]
        if start < min(low, last):
            gaps[n_gaps, 0], gaps[n_gaps, 1] = start, min(low, last)
            n_gaps += 1
        start = max(start, high)
    if start < last:
        gaps[n_gaps, 0], gaps[n_gaps, 1] = start, last
        n_gaps += 1
    return n_gaps


@kernel
def count_rows(fresh: FreshRows, bucket: int, gaps: Int64s, n_gaps: int) -> int:
    """How many fresh rows of a bucket are in gaps."""
    start, stop = fresh.starts[bucket], fresh.starts[bucket + 1]
    seqs, n_rows = fresh.seqs[start:stop], 0
    for gap in range(n_gaps):
        low, high = np.searchsorted(seqs, gaps[gap, 0]), np.searchsorted(seqs, gaps[gap, 1])
        n_rows += fresh.n_before[start + high] - fresh.n_before[start + low]
    return n_rows


@kernel
def is_in(gaps: Int64s, n_gaps: int, seq: int) -> bool:
    """Whether a number is in a gap."""
    is_found = False
    for gap in range(n_gaps):
        is_found |= gaps[gap, 0] <= seq < gaps[gap, 1]
    return is_found


@kernel
def probe(
    side: int,
    read: ReadBlocks,
    frames: Frames,
    heads: BlockHeads,
    fresh: FreshRows,
    offer: Floats,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Joins blocks of the other stream with the fresh rows of `side` that have not met them.

    DONE, or NO_ROOM for pairs, or OFFERED: the block at `read.at` has been joined, now, and is more productive than
    `offer`. To go on after it is the caller's to say.
    """
    gaps = np.empty((MAX_RANGES + 1, 2), np.int64)
    n_places = frames.records.shape[1]
    while read.at[BLOCK] < read.blocks.shape[0]:
        block = read.blocks[read.at[BLOCK]]
        n_gaps = find_gaps(heads, block, fresh.bounds[0], fresh.bounds[1], gaps)
        n_fresh = count_rows(fresh, heads.buckets[block], gaps, n_gaps) if n_gaps else 0
        if n_fresh and not read.at[IS_COUNTED]:
            work.counters[COMPARED] += n_fresh * heads.sizes[block]
            charge(work, PER_COMPARISON, n_fresh * heads.sizes[block])
            scan(work, heads.sizes[block] + (n_fresh if heads.buckets[block] != read.at[BUCKET] else 0))
            read.at[IS_COUNTED], read.at[BUCKET] = 1, heads.buckets[block]
        while n_fresh and read.at[PLACE] < heads.sizes[block]:
            record = read.records[read.at[BLOCK], read.at[PLACE]]
            key, ts, end = record[KEY], record[TS], record[END]
            first, n_met = frames.heads[side, chain_of(key, frames.heads.shape[1])], 0
            slot = first
            while slot >= 0:
                own = frames.records[slot // n_places, slot % n_places]
                if own[KEY] == key and max(ts, own[TS]) < min(end, own[END]):
                    n_met += is_in(gaps, n_gaps, own[SEQ])
                slot = frames.links[slot, NEXT]
            if room.n_found[0] + n_met > room.left.shape[0]:
                return NO_ROOM
            charge(work, PER_PAIR, n_met)
            work.counters[PAIRED] += n_met
            slot = first
            while n_met:
                own = frames.records[slot // n_places, slot % n_places]
                if own[KEY] == key and max(ts, own[TS]) < min(end, own[END]) and is_in(gaps, n_gaps, own[SEQ]):
                    emit(room, side, own[ROW], record[ROW], work.clock[NOW_US])
                    credit(heads, side, frames.blocks[slot // n_places])
                    credit(heads, 1 - side, block)
                    n_met -= 1
                slot = frames.links[slot, NEXT]
            read.at[PLACE] += 1
        if n_fresh and heads.productivity[block] > offer[0]:
            return OFFERED
        read.at[BLOCK] += 1
        read.at[PLACE], read.at[IS_COUNTED] = 0, 0
    return DONE
