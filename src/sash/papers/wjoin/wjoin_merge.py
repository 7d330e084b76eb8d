"""The merge window join (W-join §3.2, Fig. 6), with a window for each stream as in its local variant (§5.1, Fig. 10).

The window of a stream says how far tuples of other streams may lie behind and ahead of one of its own. Each stream has
a queue in order of time: first the tuples that have been admitted, its buffer, then those still to come.

Mode 1 looks at the first tuple of each queue, its head, and drops heads that lie too far back, until all heads are in
the windows of one another: the starting N_tuple. Their windows end the period: it lasts as long as the first of them.
Mode 2 admits the tuples of the period, each of which it joins with all tuples in the buffers of the other streams,
without a look at their times. Once the next tuple of every stream is beyond the period, the head whose window ends it
will not join anything any more; it is dropped, and Mode 1 goes on.

Why nothing is missed: of the members of a combination, take the first that is dropped. Mode 1 drops it only if it is
too far behind a head, and so behind the member of that head's stream, which is not older. Mode 2 drops it only after
all tuples in its window have been admitted, the other members with them.

A stream whose queue is empty does not block: its next tuple is not older than `clock`, so Mode 1 and 2 take it to be
there as far as that is enough to drop others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.jit import borrowing_kernel, inlined_borrowing
from sash.papers.wjoin.wjoin_buffers import CHECKED, COMPARED, INSERTED, OUTPUT, REMOVED

DONE, NO_OUTPUT_ROOM = 0, 1
STARTING, ADMITTING, JOINING = 0, 1, 2
"""Mode 1, Mode 2, and a nested loop of Mode 2 that is under way."""
MODE, NEW, LEVEL = 0, 1, 2
"""Places of the state: the mode, the stream of the tuple that is being joined, and how deep the nested loop is."""
NONE = -1
LONG_AGO = np.int64(-(1 << 62))


class Queues(NamedTuple):
    """The tuples of each stream, a line for each: from `heads` to `admitted` its buffer, up to `ends` its next ones."""

    rows: Int64s
    ts: Int64s
    keys: Int64s
    heads: Int64s
    admitted: Int64s
    ends: Int64s


class Merge(NamedTuple):
    """What does not change while a join runs."""

    ahead: Int64s
    """How far tuples of other streams may lie ahead of one of each stream, at most."""
    behind: Int64s
    partners: Int64s
    """[new, stream, key]: the stream to compare a key with, when tuples of `stream` are tried in the nested loop of a
    tuple of `new`; NONE if there is nothing to compare."""
    refined: Int64s
    """The bounds that combinations have to keep in the end, if windows are wider; else no lines."""


@borrowing_kernel
def run(
    queues: Queues,
    merge: Merge,
    clock: int,
    state: Int64s,
    cursors: Int64s,
    out: Int64s,
    is_muted: bool,
    counters: Int64s,
) -> tuple[int, int]:
    """Goes on as far as the queues allow. Returns why it stopped, and how many combinations there are in `out`.

    Muted, it drops and admits, but joins nothing.
    """
    n_out = 0
    while True:
        if state[MODE] == STARTING:
            if not _find_start(queues, merge, clock, counters):
                return DONE, n_out
            state[MODE] = ADMITTING
        elif state[MODE] == ADMITTING:
            end, ending = _end_of_period(queues, merge)
            stream = _next_stream(queues, end)
            if stream != NONE:
                _admit(stream, queues, state, cursors, is_muted, counters)
            elif _is_beyond(end, queues, clock):
                counters[CHECKED] += len(queues.heads)
                _drop_head(ending, queues, counters)
                state[MODE] = STARTING
            else:
                return DONE, n_out
        else:
            n_out = _join(queues, merge, state, cursors, out, n_out, counters)
            if state[MODE] == JOINING:
                return NO_OUTPUT_ROOM, n_out


@borrowing_kernel
def _find_start(queues: Queues, merge: Merge, clock: int, counters: Int64s) -> bool:
    """Mode 1: whether there is a starting N_tuple. It goes around the streams until all heads in a row are within the
    windows of one another; a head that is too far ahead begins a new period.

    A new period does not forget how far back a head may lie: streams go forward, so that holds for good. Where streams
    have windows of their own, two heads could otherwise begin new periods in turn, and no head would be dropped.
    """
    n_streams = len(queues.heads)
    stream, n_included, is_known = 0, 0, True
    low = latest = LONG_AGO
    high = earliest = -LONG_AGO
    while n_included < n_streams:
        # 1. A stream without tuples stands at the clock: its next one is not earlier.
        is_there = queues.heads[stream] < queues.ends[stream]
        ts = queues.ts[stream, queues.heads[stream]] if is_there else clock
        counters[CHECKED] += 1
        behind, ahead = merge.behind[stream], merge.ahead[stream]
        if ts < low or ts + ahead < latest:  # never at the clock: no tuple is later
            _drop_head(stream, queues, counters)
            continue
        # 2. Too far ahead of those before it: they are looked at again, in a period that begins with this head.
        if ts > high or ts - behind > earliest:
            n_included, is_known = 0, True
            high, earliest = ts + ahead, ts
        # 3. Within the windows of all heads so far, and these in its own.
        low, latest = max(low, ts - behind), max(latest, ts)
        high, earliest = min(high, ts + ahead), min(earliest, ts)
        n_included += 1
        is_known = is_known and is_there
        stream = (stream + 1) % n_streams
    return is_known


@borrowing_kernel
def _drop_head(stream: int, queues: Queues, counters: Int64s) -> None:
    if queues.admitted[stream] > queues.heads[stream]:
        counters[REMOVED] += 1
    queues.heads[stream] += 1
    queues.admitted[stream] = max(queues.admitted[stream], queues.heads[stream])


@borrowing_kernel
def _end_of_period(queues: Queues, merge: Merge) -> tuple[int, int]:
    """When the period of the heads ends, and the stream whose head ends it."""
    end, ending = queues.ts[0, queues.heads[0]] + merge.ahead[0], 0
    for stream in range(1, len(queues.heads)):
        own_end = queues.ts[stream, queues.heads[stream]] + merge.ahead[stream]
        if own_end < end:
            end, ending = own_end, stream
    return end, ending


@borrowing_kernel
def _next_stream(queues: Queues, end: int) -> int:
    """The stream with the earliest tuple to be admitted, or NONE."""
    best, best_ts = NONE, end
    for stream in range(len(queues.heads)):
        at = queues.admitted[stream]
        if at < queues.ends[stream]:
            ts = queues.ts[stream, at]
            if ts < best_ts or (ts == best_ts and best == NONE):
                best, best_ts = stream, ts
    return best


@borrowing_kernel
def _is_beyond(end: int, queues: Queues, clock: int) -> bool:
    """Whether the next tuple of every stream lies beyond the period, once none that is there can be admitted."""
    for stream in range(len(queues.heads)):
        if queues.admitted[stream] == queues.ends[stream] and clock <= end:
            return False
    return True


@borrowing_kernel
def _admit(stream: int, queues: Queues, state: Int64s, cursors: Int64s, is_muted: bool, counters: Int64s) -> None:
    """Puts the next tuple into its buffer, and starts its nested loop if each other buffer has a tuple."""
    counters[CHECKED] += 1
    counters[INSERTED] += 1
    queues.admitted[stream] += 1
    if is_muted:
        return
    for other in range(len(queues.heads)):
        if queues.heads[other] == queues.admitted[other]:
            return
    state[MODE], state[NEW], state[LEVEL] = JOINING, stream, 1
    first = _stream_at(1, stream)
    cursors[first] = queues.heads[first]
    cursors[stream] = queues.admitted[stream]


@inlined_borrowing
def _stream_at(level: int, new: int) -> int:
    """The nested loop goes through the other streams in their order."""
    return level - 1 if level <= new else level


@borrowing_kernel
def _join(
    queues: Queues, merge: Merge, state: Int64s, cursors: Int64s, out: Int64s, n_out: int, counters: Int64s
) -> int:
    """Goes on with a nested loop. `cursors` are one past the tuple chosen from each stream. It ends in ADMITTING."""
    new, level, last = state[NEW], state[LEVEL], len(queues.heads) - 1
    while level > 0:
        # 1. A buffer that has been gone through: back to the one before it.
        stream = _stream_at(level, new)
        at = cursors[stream]
        if at == queues.admitted[stream]:
            level -= 1
            continue
        # 2. Room first, so that a tuple is compared once, however often the kernel stops.
        if n_out == out.shape[1]:
            state[LEVEL] = level
            return n_out
        cursors[stream] = at + 1
        counters[COMPARED] += 1
        if not _agrees(stream, at, merge.partners, new, queues.keys, cursors):
            continue
        if level < last:
            level += 1
            following = _stream_at(level, new)
            cursors[following] = queues.heads[following]
        elif _is_refined(queues.ts, cursors, merge.refined, counters):
            for member in range(last + 1):
                out[member, n_out] = queues.rows[member, cursors[member] - 1]
            counters[OUTPUT] += 1
            n_out += 1
    state[MODE] = ADMITTING
    return n_out


@inlined_borrowing
def _agrees(stream: int, at: int, partners: Int64s, new: int, keys: Int64s, cursors: Int64s) -> bool:
    for key in range(keys.shape[2]):
        partner = partners[new, stream, key]
        if partner != NONE and keys[stream, at, key] != keys[partner, cursors[partner] - 1, key]:
            return False
    return True


@borrowing_kernel
def _is_refined(ts: Int64s, cursors: Int64s, refined: Int64s, counters: Int64s) -> bool:
    """The refine step (§5.1): one comparison for each pair of an N_tuple."""
    n_streams = len(refined)
    counters[COMPARED] += n_streams * (n_streams - 1) // 2
    for i in range(n_streams):
        for j in range(n_streams):
            if ts[j, cursors[j] - 1] - ts[i, cursors[i] - 1] > refined[i, j]:
                return False
    return True
