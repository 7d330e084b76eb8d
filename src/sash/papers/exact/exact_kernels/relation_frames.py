"""Segments of a relation in frames of memory, stream tuples that wait for others, and how the two meet.

    segment 3    frames[3] = 7, 0, 12        the frame of each of its blocks; rows are in order of their keys
    R-buffer     frames[n_part] = …          a segment that was just read, as if it were one more
    list 3       tails[3] → … → heads[3]     blocks of the wait buffer, the oldest first; the head takes what comes

Comparisons are counted as nested loops over a segment make them, and a scan of it is shared by a block of tuples, while
pairs are found by key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Int64s
from sash.kernels.jit import kernel
from sash.papers.exact.exact_kernels.block_frames import (
    COMPARED,
    KEY,
    NOW_US,
    PAIRED,
    PER_COMPARISON,
    PER_PAIR,
    REMOVED,
    ROW,
    TS,
    FoundRoom,
    WorkLog,
    bucket_of_key,
    charge,
    emit,
    scan,
)

RELATION_WIDTH = 2
"""What a block of a relation holds of a row: its number and its key. Of a stream's tuple there is the time, too."""
STREAM_WIDTH = 3
NOWHERE_YET = -1


class SegmentFrames(NamedTuple):
    """The join memory and the R-buffer; `is_resident` says of which segments there is a copy in the join memory."""

    records: Int64s
    frames: Int64s
    n_rows: Int64s
    is_resident: Bools


class WaitLists(NamedTuple):
    """The wait buffer: a pool of blocks, and the list of each partition. `free` is a stack of `n_free` blocks."""

    records: Int64s
    n_rows: Int64s
    following: Int64s
    heads: Int64s
    tails: Int64s
    n_tuples: Int64s
    free: Int64s
    n_free: Int64s


@kernel
def map_by_hash(keys: Int64s, n_part: int, segments: Int64s) -> None:
    """The hash partition of each key."""
    for at in range(keys.shape[0]):
        segments[at] = bucket_of_key(keys[at], n_part)


@kernel
def find_first(memory: SegmentFrames, where: int, n_rows: int, key: int) -> int:
    """The first row of a segment whose key is not below this one."""
    block_rows = memory.records.shape[1]
    low, high = 0, n_rows
    while low < high:
        middle = (low + high) // 2
        if memory.records[memory.frames[where, middle // block_rows], middle % block_rows, KEY] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def meet_segment(
    tuple_: Int64s,
    segment: int,
    where: int,
    is_alone: bool,
    memory: SegmentFrames,
    work: WorkLog,
    room: FoundRoom,
) -> bool:
    """Joins a stream's tuple with a segment that is in memory at `where`; `is_alone`: in a scan of its own.

    False, and nothing is done, if there is no room for the pairs.
    """
    block_rows, n_rows = memory.records.shape[1], memory.n_rows[segment]
    key = tuple_[KEY]
    first = find_first(memory, where, n_rows, key)
    last = find_first(memory, where, n_rows, key + 1) if key < np.iinfo(np.int64).max else n_rows
    if room.n_found[0] + last - first > room.left.shape[0]:
        return False
    work.counters[COMPARED] += n_rows
    work.counters[PAIRED] += last - first
    work.counters[REMOVED] += 1
    if is_alone:
        scan(work, n_rows)
    charge(work, PER_COMPARISON, n_rows)
    for at in range(first, last):
        charge(work, PER_PAIR, 1)
        row = memory.records[memory.frames[where, at // block_rows], at % block_rows, ROW]
        emit(room, 0, tuple_[ROW], row, work.clock[NOW_US])
    return True


@kernel
def join_list(
    partition: int,
    where: int,
    lists: WaitLists,
    memory: SegmentFrames,
    progress: Int64s,
    work: WorkLog,
    room: FoundRoom,
) -> bool:
    """Joins all tuples that wait for a partition; False if there is no room, and `progress` says how far it is.

    `progress` is a block and the next place in it; a place of -1 is before the scan that a block's tuples share.
    """
    block, place = progress[0], progress[1]
    while block >= 0:
        if place < 0:
            scan(work, memory.n_rows[partition])
            place = 0
        while place < lists.n_rows[block]:
            if not meet_segment(lists.records[block, place], partition, where, False, memory, work, room):
                progress[0], progress[1] = block, place
                return False
            place += 1
        block, place = lists.following[block], NOWHERE_YET
    return True


@kernel
def release_list(partition: int, lists: WaitLists) -> None:
    """Gives all blocks of a partition back."""
    block = lists.tails[partition]
    while block >= 0:
        lists.free[lists.n_free[0]] = block
        lists.n_free[0] += 1
        block = lists.following[block]
    lists.heads[partition] = lists.tails[partition] = -1
    lists.n_tuples[partition] = 0


@kernel
def add_block(partition: int, lists: WaitLists) -> None:
    """A free block is the head of a list; there must be one."""
    lists.n_free[0] -= 1
    block = lists.free[lists.n_free[0]]
    lists.n_rows[block], lists.following[block] = 0, -1
    if lists.heads[partition] >= 0:
        lists.following[lists.heads[partition]] = block
    else:
        lists.tails[partition] = block
    lists.heads[partition] = block


@kernel
def append_tuple(partition: int, tuple_: Int64s, lists: WaitLists) -> bool:
    """A tuple waits in the head of its list, which is a free block if there is none or it is full; is it full now?"""
    n_places, head = lists.records.shape[1], lists.heads[partition]
    if head < 0 or lists.n_rows[head] == n_places:
        add_block(partition, lists)
        head = lists.heads[partition]
    lists.records[head, lists.n_rows[head]] = tuple_
    lists.n_rows[head] += 1
    lists.n_tuples[partition] += 1
    return lists.n_rows[head] == n_places


@kernel
def longest_list(lists: WaitLists) -> int:
    """The partition for which most tuples wait, the lowest of several; -1 if nobody waits."""
    longest, n_most = -1, 0
    for partition in range(lists.n_tuples.shape[0]):
        if lists.n_tuples[partition] > n_most:
            longest, n_most = partition, lists.n_tuples[partition]
    return longest


@kernel
def oldest_list(lists: WaitLists) -> int:
    """The partition whose first tuple arrived first, the lowest of several; -1 if nobody waits."""
    oldest, time = -1, np.int64(0)
    for partition in range(lists.n_tuples.shape[0]):
        if lists.n_tuples[partition]:
            arrived = lists.records[lists.tails[partition], 0, TS]
            if oldest < 0 or arrived < time:
                oldest, time = partition, arrived
    return oldest
