"""The stages of RPWJ over rows (Exact, ch. 4): tuples as they come, memory with disk, and disk with disk.

`SEQ` of a row is its arrival (ATS), `dts` of a block its departure from memory. Both, and the times of tasks, are
numbers of events in one count: no two are equal, so that "while it was in memory" is never in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.jit import kernel
from sash.papers.exact.exact_kernels.block_frames import (
    END,
    INSERTED,
    KEY,
    NEXT,
    NOW_US,
    PAIRED,
    PER_PAIR,
    PER_TUPLE,
    ROW,
    SEQ,
    TS,
    WIDTH,
    BlockHeads,
    FoundRoom,
    Frames,
    WorkLog,
    bucket_of_key,
    chain_of,
    charge,
    emit,
    link_rows,
    meet,
    scan_bucket,
)
from sash.papers.exact.exact_kernels.disk_probe import BLOCK, PLACE, ReadBlocks
from sash.papers.exact.exact_kernels.exact_runs import AT, FED, IS_SILENT, FedRows

DONE, NO_ROOM, FULL, IDLE, NO_FRAME, PERIODIC, SWITCH = 0, 1, 2, 3, 4, 5, 6
REACTIVE_US, PERIODIC_US, HIGH_MARK, LOW_MARK = 0, 1, 2, 3
EVENTS, LEVEL, IS_STEP = 0, 1, 2


class Partitions(NamedTuple):
    """By stream and partition: the open frame, recent arrivals, expected results of tasks, rows on disk.

    `state`: how many events there were, whether tuples are processed in blocks, and whether all rows are pending.
    """

    open: Int64s
    arrivals: Floats
    expected: Floats
    disk_rows: Int64s
    state: Int64s


class DiskTimes(NamedTuple):
    """When the blocks of two clusters left memory, when tasks met the memory of each, and what the last dd has seen."""

    outer: Int64s
    inner: Int64s
    outer_tasks: Int64s
    inner_tasks: Int64s
    last: Int64s


class KeyChains(NamedTuple):
    """The rows of a cluster by key: the first place of each chain, and the next one of each place."""

    first: Int64s
    following: Int64s


class ClusterBlocks(NamedTuple):
    """Sizes of blocks, and when the last row of each arrived."""

    sizes: Int64s
    last_ats: Int64s


@kernel
def count_pending(fed: FedRows, partitions: Partitions, now_us: float) -> int:
    """How many rows wait: those that have come by now, or all in a step."""
    n_rows = fed.sides.shape[0]
    if partitions.state[IS_STEP]:
        return n_rows - fed.state[AT]
    while fed.state[FED] < n_rows and fed.records[fed.state[FED], TS] <= now_us:
        fed.state[FED] += 1
    return fed.state[FED] - fed.state[AT]


@kernel
def run_memory_stage(
    fed: FedRows,
    frames: Frames,
    heads: BlockHeads,
    partitions: Partitions,
    limits: Floats,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Tuples one after the other, each into the open block of its partition; at level 0 it is joined at once.

    DONE, NO_ROOM for pairs, FULL: the block of the last tuple is, NO_FRAME: the next one has no open block, SWITCH: so
    many are pending that the level should change; or it is time for the PERIODIC stage, or, as it is IDLE, for a task.
    """
    while fed.state[AT] < fed.sides.shape[0]:
        at = fed.state[AT]
        side, ts = fed.sides[at], fed.records[at, TS]
        begin_us = max(work.clock[NOW_US], float(ts))
        task_us = max(work.clock[NOW_US], limits[REACTIVE_US])
        if task_us < min(float(ts), limits[PERIODIC_US]):
            return IDLE
        if begin_us >= limits[PERIODIC_US]:
            return PERIODIC
        n_pending = count_pending(fed, partitions, begin_us)
        is_coarse = partitions.state[LEVEL] == 1
        if (is_coarse and n_pending < limits[LOW_MARK]) or (not is_coarse and n_pending > limits[HIGH_MARK]):
            return SWITCH
        bucket = bucket_of_key(fed.records[at, KEY], partitions.open.shape[1])
        frame = partitions.open[side, bucket]
        if frame < 0:
            return NO_FRAME
        place = frames.n_rows[frame]
        for column in range(WIDTH):
            frames.records[frame, place, column] = fed.records[at, column]
        work.clock[NOW_US] = begin_us
        if not is_coarse:
            frames.records[frame, place, SEQ] = partitions.state[EVENTS] + 1
            if not fed.state[IS_SILENT] and not meet(frames, heads, frame, place, work, room):
                return NO_ROOM
            if not fed.state[IS_SILENT]:
                scan_bucket(frames, heads, frame, work)
            partitions.state[EVENTS] += 1
            partitions.expected[side, bucket] += partitions.disk_rows[1 - side, bucket]
            link_rows(frames, heads, frame, place, place + 1)
        charge(work, PER_TUPLE, 1)
        work.counters[INSERTED] += 1
        partitions.arrivals[side, bucket] += 1.0
        frames.n_rows[frame] = place + 1
        heads.sizes[frames.blocks[frame]] = place + 1
        fed.state[AT] = at + 1
        if place + 1 == frames.records.shape[1]:
            return FULL
    return DONE


@kernel
def join_memory(
    side: int,
    read: ReadBlocks,
    dts: Int64s,
    last_task: int,
    frames: Frames,
    heads: BlockHeads,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Joins the memory of a stream's partition with blocks of the other one's disk, less what has met before (§4.4).

    `last_task` is when the last such task was run. DONE, or NO_ROOM for pairs.
    """
    n_places = frames.records.shape[1]
    while read.at[BLOCK] < read.blocks.shape[0]:
        block, gone = read.blocks[read.at[BLOCK]], dts[read.at[BLOCK]]
        while read.at[PLACE] < heads.sizes[block]:
            record = read.records[read.at[BLOCK], read.at[PLACE]]
            key, ts, end = record[KEY], record[TS], record[END]
            start, slot = room.n_found[0], frames.heads[side, chain_of(key, frames.heads.shape[1])]
            while slot >= 0:
                own = frames.records[slot // n_places, slot % n_places]
                ats = own[SEQ]
                is_pair = own[KEY] == key and max(ts, own[TS]) < min(end, own[END])
                if is_pair and gone < ats and not (last_task > ats and gone < last_task):
                    if room.n_found[0] == room.left.shape[0]:
                        room.n_found[0] = start
                        return NO_ROOM
                    emit(room, side, own[ROW], record[ROW], work.clock[NOW_US])
                slot = frames.links[slot, NEXT]
            work.counters[PAIRED] += room.n_found[0] - start
            charge(work, PER_PAIR, room.n_found[0] - start)
            read.at[PLACE] += 1
        read.at[BLOCK] += 1
        read.at[PLACE] = 0
    return DONE


@kernel
def chain_cluster(records: Int64s, blocks: Int64s, heads: BlockHeads, chains: KeyChains) -> None:
    """Chains the rows of a cluster by key."""
    chains.first[:] = -1
    for block in range(records.shape[0]):
        for place in range(heads.sizes[blocks[block]]):
            chain = chain_of(records[block, place, KEY], chains.first.shape[0])
            slot = block * records.shape[1] + place
            chains.following[slot] = chains.first[chain]
            chains.first[chain] = slot


@kernel
def has_task(tasks: Int64s, after: int, before: int) -> bool:
    """Whether a task was run after one event and before another; `tasks` ascend."""
    place = np.searchsorted(tasks, after, side="right")
    return place < tasks.shape[0] and tasks[place] < before


@kernel
def have_met(ats: int, dts: int, other_ats: int, other_dts: int, times: DiskTimes) -> bool:
    """Whether two rows on disk, the first of the outer stream, have been joined: in memory, by a task of either one's
    memory while the other was on disk, or by the last task of both disks (§4.4).
    """
    if dts <= times.last[0] and other_dts <= times.last[1]:
        return True
    if ats <= other_dts and other_ats <= dts:
        return True
    if has_task(times.outer_tasks, max(ats, other_dts), dts):
        return True
    return has_task(times.inner_tasks, max(other_ats, dts), other_dts)


@kernel
def count_new(outer: ClusterBlocks, inner: ClusterBlocks, times: DiskTimes) -> tuple[int, int]:
    """How many pairs of rows two clusters have to compare: those of blocks that have not met as a whole; and how many
    rows these blocks have.
    """
    n_new, n_scanned = 0, 0
    is_scanned = np.zeros(inner.sizes.shape[0], np.bool_)
    for one in range(outer.sizes.shape[0]):
        before = n_new
        for other in range(inner.sizes.shape[0]):
            ats, other_ats = outer.last_ats[one], inner.last_ats[other]
            if not have_met(ats, times.outer[one], other_ats, times.inner[other], times):
                n_new += outer.sizes[one] * inner.sizes[other]
                is_scanned[other] = True
        n_scanned += outer.sizes[one] if n_new > before else 0
    for other in range(inner.sizes.shape[0]):
        n_scanned += inner.sizes[other] if is_scanned[other] else 0
    return n_new, n_scanned


@kernel
def join_disks(
    outer: ReadBlocks,
    chains: KeyChains,
    inner: ReadBlocks,
    times: DiskTimes,
    heads: BlockHeads,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Joins a cluster of the left disk, which is chained, with one of the right, less what has met before.

    DONE, or NO_ROOM for pairs.
    """
    n_places = outer.records.shape[1]
    while inner.at[BLOCK] < inner.blocks.shape[0]:
        other_dts = times.inner[inner.at[BLOCK]]
        while inner.at[PLACE] < heads.sizes[inner.blocks[inner.at[BLOCK]]]:
            record = inner.records[inner.at[BLOCK], inner.at[PLACE]]
            key, ts, end = record[KEY], record[TS], record[END]
            start, slot = room.n_found[0], chains.first[chain_of(key, chains.first.shape[0])]
            while slot >= 0:
                own, dts = outer.records[slot // n_places, slot % n_places], times.outer[slot // n_places]
                is_pair = own[KEY] == key and max(ts, own[TS]) < min(end, own[END])
                if is_pair and not have_met(own[SEQ], dts, record[SEQ], other_dts, times):
                    if room.n_found[0] == room.left.shape[0]:
                        room.n_found[0] = start
                        return NO_ROOM
                    emit(room, 0, own[ROW], record[ROW], work.clock[NOW_US])
                slot = chains.following[slot]
            work.counters[PAIRED] += room.n_found[0] - start
            charge(work, PER_PAIR, room.n_found[0] - start)
            inner.at[PLACE] += 1
        inner.at[BLOCK] += 1
        inner.at[PLACE] = 0
    return DONE
