"""The loop of PartitionedJoin (Exact, Alg. 8), tuple by tuple, until something has to be done with whole segments.

    lines 2–7      the input buffer is empty: a list that is long enough is probed, else it waits for the next arrival
    lines 8–26     a tuple is mapped, and joined or appended to its list
    lines 27–38    the wait buffer may be full; the granularity may change

A tuple is in the input buffer from its arrival until it is taken, so how full that is follows from the clock.
"""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.jit import kernel
from sash.papers.exact.exact_kernels.block_frames import (
    INSERTED,
    NOW_US,
    PER_TUPLE,
    REMOVED,
    TS,
    FoundRoom,
    WorkLog,
    charge,
)
from sash.papers.exact.exact_kernels.relation_frames import (
    SegmentFrames,
    WaitLists,
    add_block,
    append_tuple,
    longest_list,
    meet_segment,
    oldest_list,
)

TUPLE, BLOCK = 0, 1
"""The granularity: of what is in memory, a tuple is joined at once, or a block of them."""
TAKEN, ARRIVED, MODE, IS_UNCHECKED, PARTITION, IN_EPOCH, N_SWITCHES, N_CURSOR = 0, 1, 2, 3, 4, 5, 6, 7
DONE, NO_ROOM, OVERFLOW, CLEAN_UP, INVOKE, AGED, BLOCK_FULL, LOOK = 0, 1, 2, 3, 4, 5, 6, 7
"""Why the loop ends: nothing more to take; no room for pairs; no free block; the mode was changed to tuples; a list is
long enough to be probed; its first tuple has waited for too long; a block of tuples whose segment is in memory is full;
somebody wants to look at the clock.
"""


class FedTuples(NamedTuple):
    """Tuples in order of arrival, the partition of each, -1 for none, and how far the loop is."""

    records: Int64s
    segments: Int64s
    cursor: Int64s


class LoopRules(NamedTuple):
    """Thresholds in tuples; `max_wait_us` is negative if a tuple may wait for ever."""

    n_invoke: int
    h_mark: int
    l_mark: int
    is_eager: bool
    max_wait_us: float
    epoch: int
    alpha: float
    look_us: float
    """When somebody wants to look at the clock."""


@kernel
def run_partitioned(
    fed: FedTuples,
    lists: WaitLists,
    memory: SegmentFrames,
    frequencies: Floats,
    rules: LoopRules,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Takes tuples until something else is to be done, and says what."""
    cursor, n_fed = fed.cursor, fed.records.shape[0]
    while True:
        if work.clock[NOW_US] >= rules.look_us:
            return LOOK
        if cursor[IS_UNCHECKED]:
            if lists.n_free[0] == 0:
                return OVERFLOW
            cursor[IS_UNCHECKED] = 0
            if change_mode(fed, rules, work.clock[NOW_US]):
                return CLEAN_UP
        if rules.max_wait_us >= 0 and is_aged(lists, rules, cursor, work.clock[NOW_US]):
            return AGED
        if cursor[TAKEN] == n_fed:
            return DONE
        arrives = fed.records[cursor[TAKEN], TS]
        if arrives > work.clock[NOW_US]:
            longest = longest_list(lists)
            if longest >= 0 and lists.n_tuples[longest] >= rules.n_invoke:
                cursor[PARTITION] = longest
                return INVOKE
            work.clock[NOW_US] = wake_at(arrives, lists, rules)
            if work.clock[NOW_US] < arrives:
                continue
        reason = take_tuple(fed, lists, memory, frequencies, rules, work, room)
        if reason != DONE:
            return reason


@kernel
def take_tuple(
    fed: FedTuples,
    lists: WaitLists,
    memory: SegmentFrames,
    frequencies: Floats,
    rules: LoopRules,
    work: WorkLog,
    room: FoundRoom,
) -> int:
    """Lines 8–26, and the arrival frequencies."""
    cursor = fed.cursor
    segment, record = fed.segments[cursor[TAKEN]], fed.records[cursor[TAKEN]]
    is_joined = segment >= 0 and cursor[MODE] == TUPLE and memory.is_resident[segment]
    if is_joined and not meet_segment(record, segment, segment, True, memory, work, room):
        return NO_ROOM
    cursor[TAKEN] += 1
    cursor[IS_UNCHECKED] = 1
    work.counters[INSERTED] += 1
    charge(work, PER_TUPLE, 1)
    count_arrival(segment, cursor, frequencies, rules)
    if segment < 0:
        work.counters[REMOVED] += 1
    elif not is_joined:
        is_full = append_tuple(segment, record, lists)
        cursor[PARTITION] = segment
        if is_full and memory.is_resident[segment]:
            return BLOCK_FULL
        if is_full and lists.n_free[0]:
            add_block(segment, lists)
        if rules.is_eager and lists.n_tuples[segment] >= rules.n_invoke:
            return INVOKE
    return DONE


@kernel
def count_arrival(segment: int, cursor: Int64s, frequencies: Floats, rules: LoopRules) -> None:
    """One more for its partition; at the end of an epoch all frequencies decay."""
    if segment >= 0:
        frequencies[segment] += 1.0
    cursor[IN_EPOCH] += 1
    if cursor[IN_EPOCH] == rules.epoch:
        cursor[IN_EPOCH] = 0
        for each in range(frequencies.shape[0]):
            frequencies[each] *= rules.alpha


@kernel
def change_mode(fed: FedTuples, rules: LoopRules, now_us: float) -> bool:
    """Lines 33–38; whether it is tuples again, so that blocks that are not full have to be cleaned up."""
    cursor, n_fed = fed.cursor, fed.records.shape[0]
    while cursor[ARRIVED] < n_fed and fed.records[cursor[ARRIVED], TS] <= now_us:
        cursor[ARRIVED] += 1
    n_buffered = cursor[ARRIVED] - cursor[TAKEN]
    if cursor[MODE] == BLOCK and n_buffered < rules.l_mark:
        cursor[MODE] = TUPLE
        cursor[N_SWITCHES] += 1
        return True
    if cursor[MODE] == TUPLE and n_buffered > rules.h_mark:
        cursor[MODE] = BLOCK
        cursor[N_SWITCHES] += 1
    return False


@kernel
def is_aged(lists: WaitLists, rules: LoopRules, cursor: Int64s, now_us: float) -> bool:
    """Whether somebody has waited for as long as is allowed; if so, `PARTITION` says whose."""
    oldest = oldest_list(lists)
    if oldest < 0 or lists.records[lists.tails[oldest], 0, TS] + rules.max_wait_us > now_us:
        return False
    cursor[PARTITION] = oldest
    return True


@kernel
def wake_at(arrives: float, lists: WaitLists, rules: LoopRules) -> float:
    """When there is something to do again: at an arrival, or when somebody has waited for long enough."""
    if rules.max_wait_us >= 0:
        oldest = oldest_list(lists)
        if oldest >= 0:
            return min(float(arrives), lists.records[lists.tails[oldest], 0, TS] + rules.max_wait_us)
    return float(arrives)
