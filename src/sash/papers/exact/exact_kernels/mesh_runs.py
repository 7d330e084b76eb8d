"""The queue of MESHJOIN and its hash table (Exact, §6.2): stream tuples in, tuples of the relation past them.

queue    places in a ring, in order of arrival: w of the head, and so on to the tail
table    heads[hash(key)] → place → place → …        `held` counts the tuples of each bucket, which is what a tuple
                                                      of the relation is compared with
"""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Int64s
from sash.kernels.jit import kernel
from sash.papers.exact.exact_kernels.block_frames import (
    COMPARED,
    INSERTED,
    KEY,
    NEXT,
    NOW_US,
    PAIRED,
    PER_COMPARISON,
    PER_PAIR,
    PER_TUPLE,
    PREV,
    REMOVED,
    ROW,
    TS,
    FoundRoom,
    WorkLog,
    bucket_of_key,
    chain_of,
    charge,
    emit,
    scan,
)


class MeshQueue(NamedTuple):
    """Tuples by place, the table, and which places are taken: `bounds` are the first and, not with it, the last."""

    records: Int64s
    links: Int64s
    heads: Int64s
    held: Int64s
    bounds: Int64s


@kernel
def fill_head(records: Int64s, first: int, n_wanted: int, queue: MeshQueue, work: WorkLog) -> int:
    """Takes tuples as they arrive, at most so many, into the head of the queue; how many there were."""
    n_places = queue.records.shape[0]
    last = min(records.shape[0], first + n_wanted)
    for at in range(first, last):
        if records[at, TS] > work.clock[NOW_US]:
            work.clock[NOW_US] = records[at, TS]
        place = queue.bounds[1] % n_places
        queue.bounds[1] += 1
        queue.records[place] = records[at]
        chain = chain_of(records[at, KEY], queue.heads.shape[0])
        following = queue.heads[chain]
        queue.links[place, NEXT], queue.links[place, PREV] = following, -1
        if following >= 0:
            queue.links[following, PREV] = place
        queue.heads[chain] = place
        queue.held[bucket_of_key(records[at, KEY], queue.held.shape[0])] += 1
        work.counters[INSERTED] += 1
        charge(work, PER_TUPLE, 1)
    return last - first


@kernel
def expire_tail(n_tuples: int, queue: MeshQueue, work: WorkLog) -> None:
    """Purges the oldest tuples from the queue and from the table."""
    n_places = queue.records.shape[0]
    for _ in range(n_tuples):
        place = queue.bounds[0] % n_places
        queue.bounds[0] += 1
        following, before = queue.links[place, NEXT], queue.links[place, PREV]
        if following >= 0:
            queue.links[following, PREV] = before
        if before >= 0:
            queue.links[before, NEXT] = following
        else:
            queue.heads[chain_of(queue.records[place, KEY], queue.heads.shape[0])] = following
        queue.held[bucket_of_key(queue.records[place, KEY], queue.held.shape[0])] -= 1
        work.counters[REMOVED] += 1


@kernel
def probe_queue(
    segment: Int64s, n_rows: int, progress: Int64s, queue: MeshQueue, work: WorkLog, room: FoundRoom
) -> bool:
    """Every row of a segment of the relation meets its bucket; False if there is no room, and `progress` is its row."""
    block_rows = segment.shape[1]
    while progress[0] < n_rows:
        record = segment[progress[0] // block_rows, progress[0] % block_rows]
        first, n_met = queue.heads[chain_of(record[KEY], queue.heads.shape[0])], 0
        place = first
        while place >= 0:
            n_met += queue.records[place, KEY] == record[KEY]
            place = queue.links[place, NEXT]
        if room.n_found[0] + n_met > room.left.shape[0]:
            return False
        n_held = queue.held[bucket_of_key(record[KEY], queue.held.shape[0])]
        work.counters[COMPARED] += n_held
        work.counters[PAIRED] += n_met
        scan(work, n_held)
        charge(work, PER_COMPARISON, n_held)
        place = first
        while place >= 0:
            if queue.records[place, KEY] == record[KEY]:
                charge(work, PER_PAIR, 1)
                emit(room, 0, queue.records[place, ROW], record[ROW], work.clock[NOW_US])
            place = queue.links[place, NEXT]
        progress[0] += 1
    return True
