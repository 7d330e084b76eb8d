"""Blocks of rows in frames of memory, found by key, for joins that keep the rest of their windows on disk.

    frame 7    row  key  ts  end  seq        of block `blocks[7]`, of stream `sides[7]`; `n_rows[7]` are there
               …
    heads[side, hash(key)] -> slot -> slot -> …        a slot is a place in a frame; chains run both ways

A row that is linked is in memory for others: it is met by whoever arrives on the other stream. `held` counts these rows
by stream and bucket, which is what nested loops would compare with. So comparisons are counted as the papers make them,
while pairs are found by key. A scan goes over these rows once, for one tuple or for a block of them: what it goes over
is counted apart from what it compares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import inlined_kernel, kernel

ROW, KEY, TS, END, SEQ = 0, 1, 2, 3, 4
"""What a block holds of a row. `SEQ` says when it was processed, in the count of its stream or of all events."""
WIDTH = 5
NEXT, PREV = 0, 1
NOWHERE, RECENT, FREQUENT, INVALIDATION = 0, 1, 2, 3
"""Where in memory a block is."""
NOW_US, CPU_US = 0, 1
PER_COMPARISON, PER_TUPLE, PER_PAIR, PER_SCANNED = 0, 1, 2, 3
COMPARED, INSERTED, REMOVED, LATE, PAIRED, SCANNED, N_COUNTERS = 0, 1, 2, 3, 4, 5, 6


class Frames(NamedTuple):
    """The memory of both streams."""

    records: Int64s
    n_rows: Int64s
    blocks: Int64s
    sides: Int64s
    heads: Int64s
    links: Int64s
    held: Int64s


class BlockHeads(NamedTuple):
    """What stays in memory of every block, wherever its rows are; and how productive the recent buckets are."""

    sizes: Int64s
    buckets: Int64s
    places: Int64s
    productivity: Floats
    born: Int64s
    ranges: Int64s
    n_ranges: Int64s
    bucket_productivity: Floats


class WorkLog(NamedTuple):
    """The time now and the time spent computing, microseconds; what a unit of work costs; and the work."""

    clock: Floats
    prices: Floats
    counters: Int64s


class FoundRoom(NamedTuple):
    """Pairs of rows, when they were found, and how many there are."""

    left: Int64s
    right: Int64s
    at_us: Floats
    n_found: Int64s


@inlined_kernel
def chain_of(key: int | np.integer[Any], n_chains: int) -> np.int64:
    """Which chain a key is in; their number is a power of two."""
    return np.int64(mix64(key) & np.uint64(n_chains - 1))


@kernel
def bucket_of_key(key: int, n_buckets: int) -> int:
    """Which hash partition a key belongs to; it does not depend on the chain within memory."""
    return np.int64((mix64(key) >> np.uint64(32)) % np.uint64(n_buckets))


@kernel
def link_rows(frames: Frames, heads: BlockHeads, frame: int, first: int, last: int) -> None:
    """Rows of a frame are there for others from now on."""
    side, n_places = frames.sides[frame], frames.records.shape[1]
    for place in range(first, last):
        slot = frame * n_places + place
        chain = chain_of(frames.records[frame, place, KEY], frames.heads.shape[1])
        following = frames.heads[side, chain]
        frames.links[slot, NEXT], frames.links[slot, PREV] = following, -1
        if following >= 0:
            frames.links[following, PREV] = slot
        frames.heads[side, chain] = slot
    frames.held[side, heads.buckets[frames.blocks[frame]]] += last - first


@kernel
def unlink_rows(frames: Frames, heads: BlockHeads, frame: int, first: int, last: int) -> None:
    """Rows of a frame are gone for others."""
    side, n_places = frames.sides[frame], frames.records.shape[1]
    for place in range(first, last):
        slot = frame * n_places + place
        following, before = frames.links[slot, NEXT], frames.links[slot, PREV]
        if following >= 0:
            frames.links[following, PREV] = before
        if before >= 0:
            frames.links[before, NEXT] = following
        else:
            chain = chain_of(frames.records[frame, place, KEY], frames.heads.shape[1])
            frames.heads[side, chain] = following
    frames.held[side, heads.buckets[frames.blocks[frame]]] -= last - first


@kernel
def credit(heads: BlockHeads, side: int, block: int) -> None:
    """A row of a block has made a pair."""
    heads.productivity[block] += 1.0
    if heads.places[block] == RECENT:
        heads.bucket_productivity[side, heads.buckets[block]] += 1.0


@kernel
def charge(work: WorkLog, unit: int, number: int) -> None:
    """Takes the time of so many units of work."""
    spent = work.prices[unit] * number
    work.clock[NOW_US] += spent
    work.clock[CPU_US] += spent


@kernel
def scan(work: WorkLog, n_rows: int) -> None:
    """So many rows have been gone over, whatever they were compared with."""
    work.counters[SCANNED] += n_rows
    charge(work, PER_SCANNED, n_rows)


@kernel
def scan_bucket(frames: Frames, heads: BlockHeads, frame: int, work: WorkLog) -> None:
    """The rows of a frame have met the other stream's bucket in one scan."""
    scan(work, frames.held[1 - frames.sides[frame], heads.buckets[frames.blocks[frame]]])


@kernel
def emit(room: FoundRoom, side: int, own: int, other: int, at_us: float) -> None:
    """Notes a pair of a row of a side with one of the other side."""
    n_found = room.n_found[0]
    room.left[n_found] = own if side == 0 else other
    room.right[n_found] = other if side == 0 else own
    room.at_us[n_found] = at_us
    room.n_found[0] = n_found + 1


@kernel
def meet(frames: Frames, heads: BlockHeads, frame: int, place: int, work: WorkLog, room: FoundRoom) -> bool:
    """Joins a row of a frame, which is not linked yet, with all that is linked of the other stream.

    False, and nothing is done, if there is no room for the pairs.
    """
    records, n_places = frames.records, frames.records.shape[1]
    side, own = frames.sides[frame], frames.blocks[frame]
    key, ts, end = records[frame, place, KEY], records[frame, place, TS], records[frame, place, END]
    first, n_met = frames.heads[1 - side, chain_of(key, frames.heads.shape[1])], 0
    slot = first
    while slot >= 0:
        other = records[slot // n_places, slot % n_places]
        n_met += other[KEY] == key and max(ts, other[TS]) < min(end, other[END])
        slot = frames.links[slot, NEXT]
    if room.n_found[0] + n_met > room.left.shape[0]:
        return False
    n_compared = frames.held[1 - side, heads.buckets[own]]
    work.counters[COMPARED] += n_compared
    charge(work, PER_COMPARISON, n_compared)
    charge(work, PER_PAIR, n_met)
    work.counters[PAIRED] += n_met
    slot = first
    while n_met:
        other = records[slot // n_places, slot % n_places]
        if other[KEY] == key and max(ts, other[TS]) < min(end, other[END]):
            emit(room, side, records[frame, place, ROW], other[ROW], work.clock[NOW_US])
            credit(heads, side, own)
            credit(heads, 1 - side, frames.blocks[slot // n_places])
            n_met -= 1
        slot = frames.links[slot, NEXT]
    return True


@kernel
def meet_rows(frames: Frames, heads: BlockHeads, frame: int, first: int, work: WorkLog, room: FoundRoom) -> int:
    """Joins the rows of a frame from `first` on with the other stream's, in one scan; how far it came."""
    for place in range(first, frames.n_rows[frame]):
        if not meet(frames, heads, frame, place, work, room):
            return place
    scan_bucket(frames, heads, frame, work)
    return frames.n_rows[frame]
