"""Rows as they are fed to the exact window joins: tuple by tuple (Exact, Alg. 2), or into blocks by bucket (Alg. 7)."""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Floats, Int8s, Int64s
from sash.kernels.jit import kernel
from sash.papers.exact.exact_kernels.block_frames import (
    END,
    INSERTED,
    KEY,
    NOW_US,
    PER_TUPLE,
    REMOVED,
    SEQ,
    TS,
    WIDTH,
    BlockHeads,
    FoundRoom,
    Frames,
    WorkLog,
    bucket_of_key,
    charge,
    link_rows,
    meet,
    scan_bucket,
    unlink_rows,
)

DONE, NO_ROOM, FULL, EMPTIED, IDLE, NO_FRAME = 0, 1, 2, 3, 4, 5
START, COUNT, PLACE = 0, 1, 2
AT, IS_SILENT, FED = 0, 1, 2


class FedRows(NamedTuple):
    """Rows in order of processing with their streams; `state`: how far one has come, and whether pairs are known."""

    records: Int64s
    sides: Int8s
    state: Int64s


class TupleSegments(NamedTuple):
    """The frames of the open blocks, how many rows have been processed, and the rings of frames to be invalidated."""

    open: Int64s
    seqs: Int64s
    ring: Int64s
    ring_at: Int64s


@kernel
def drop_expired(
    side: int, sure_us: int, frames: Frames, heads: BlockHeads, segments: TupleSegments, work: WorkLog
) -> bool:
    """Drops the oldest rows that have ended; whether a frame has become empty by that."""
    ring_at = segments.ring_at[side]
    if not ring_at[COUNT]:
        return False
    frame = segments.ring[side, ring_at[START]]
    while ring_at[PLACE] < frames.n_rows[frame] and frames.records[frame, ring_at[PLACE], END] <= sure_us:
        unlink_rows(frames, heads, frame, ring_at[PLACE], ring_at[PLACE] + 1)
        work.counters[REMOVED] += 1
        ring_at[PLACE] += 1
    return ring_at[PLACE] == frames.n_rows[frame]


@kernel
def run_tuples(
    fed: FedRows,
    frames: Frames,
    heads: BlockHeads,
    segments: TupleSegments,
    horizon: int,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Tuples one after the other: each is put into the open block of its stream, meets what is in memory of the other
    one, and lets expire what has ended for all that comes. A row that comes later ends its life at `horizon` or after.

    DONE, or NO_ROOM for pairs, or FULL: the block of the last tuple is, or EMPTIED: a frame to be invalidated is.
    """
    while fed.state[AT] < fed.sides.shape[0]:
        at = fed.state[AT]
        side, ts = fed.sides[at], fed.records[at, TS]
        frame = segments.open[side]
        place = frames.n_rows[frame]
        for column in range(WIDTH):
            frames.records[frame, place, column] = fed.records[at, column]
        frames.records[frame, place, SEQ] = segments.seqs[side]
        work.clock[NOW_US] = max(work.clock[NOW_US], float(ts))
        if not fed.state[IS_SILENT] and not meet(frames, heads, frame, place, work, room):
            return NO_ROOM
        if not fed.state[IS_SILENT]:
            scan_bucket(frames, heads, frame, work)
        charge(work, PER_TUPLE, 1)
        work.counters[INSERTED] += 1
        frames.n_rows[frame] = place + 1
        heads.sizes[frames.blocks[frame]] = place + 1
        link_rows(frames, heads, frame, place, place + 1)
        segments.seqs[side] += 1
        fed.state[AT] = at + 1
        is_emptied = False
        for each in range(2):
            is_emptied |= drop_expired(each, min(ts, horizon), frames, heads, segments, work)
        if place + 1 == frames.records.shape[1]:
            return FULL
        if is_emptied:
            return EMPTIED
    return DONE


@kernel
def fill_blocks(
    fed: FedRows, frames: Frames, heads: BlockHeads, open_frames: Int64s, due: Floats, work: WorkLog
) -> int:
    """Puts tuples into the open blocks of their buckets, where nobody meets them yet.

    DONE, or FULL: the block of the last tuple is, or NO_FRAME: the next one has no open block, or IDLE: nothing waits,
    and what is `due` then can be done before the next one comes.
    """
    while fed.state[AT] < fed.sides.shape[0]:
        at = fed.state[AT]
        side, ts = fed.sides[at], fed.records[at, TS]
        if max(work.clock[NOW_US], due[0]) < ts:
            return IDLE
        bucket = bucket_of_key(fed.records[at, KEY], open_frames.shape[1])
        frame = open_frames[side, bucket]
        if frame < 0:
            return NO_FRAME
        work.clock[NOW_US] = max(work.clock[NOW_US], float(ts))
        charge(work, PER_TUPLE, 1)
        work.counters[INSERTED] += 1
        place = frames.n_rows[frame]
        for column in range(WIDTH):
            frames.records[frame, place, column] = fed.records[at, column]
        frames.n_rows[frame] = place + 1
        heads.sizes[frames.blocks[frame]] = place + 1
        fed.state[AT] = at + 1
        if place + 1 == frames.records.shape[1]:
            return FULL
    return DONE
