"""The left-deep pipeline of binary window joins (W-join §3.1, Fig. 4 and 5): NLW-join and HW-join.

Node k joins the m_tuples of streams 0..k with stream k + 1. An arriving tuple goes through the opposite buffer of its
node. Each match climbs at once: it is put into the left buffer of the next node and goes through the right one there,
before the node below goes on. The scans under way are a stack, one node above the other, which outlives a call: the
kernel can stop anywhere for want of room and go on later.
"""

# pyright: reportArgumentType=false
# An item at a place that is itself an item is an array to pyright, and a number to numba.
from __future__ import annotations

from sash.kernels.arrays import Bools, Int64s
from sash.kernels.jit import borrowing_kernel, inlined_borrowing
from sash.papers.wjoin.pipeline_shape import Arrivals, PipelineShape, ScansUnderWay
from sash.papers.wjoin.wjoin_buffers import (
    CHECKED,
    COMPARED,
    INSERTED,
    LEFT,
    NONE,
    OUTPUT,
    REMOVED,
    RIGHT,
    Buckets,
    Slots,
    append,
    bucket_of,
    remove,
    sweep,
    take_slot,
    touch,
    update_rarely_probed,
)

DONE, NO_OUTPUT_ROOM, NO_SLOT, CROWDED, CLIMBS = 0, 1, 2, 3, 4
"""Why a scan or a run stops: it is done, there is no room, buffers need more buckets, a match goes to the next node."""
NEXT, DEPTH, LOWEST, SINCE_UPDATE = 0, 1, 2, 3
"""Places of the state: the next arrival, how many scans are under way, the node of the lowest one, and how many tuples
have come since all buffers were updated."""
PROBE, BUCKET, PREVIOUS, CURSOR = 0, 1, 2, 3
"""Columns of the stack of scans: what probes, the bucket, the slot before the next one to look at, and that one."""
MOST_PER_BUCKET = 2


@borrowing_kernel
def run(
    arrivals: Arrivals,
    pipeline: PipelineShape,
    slots: Slots,
    buckets: Buckets,
    scans: ScansUnderWay,
    out: Int64s,
    is_muted: bool,
    counters: Int64s,
) -> tuple[int, int]:
    """Goes on with the arrivals. Returns why it stopped, and how many combinations there are in `out`.

    Muted, it builds the buffers of all nodes but finds no combinations.
    """
    (_, stack, state), n_streams, n_out = scans, len(pipeline.reach), 0
    while True:
        # 1. An arrival is taken when all scans of the one before are over, and only if it finds room.
        depth = state[DEPTH]
        if depth == 0:
            if state[NEXT] == len(arrivals.ts):
                return DONE, n_out
            if slots.free[0] == NONE:
                return NO_SLOT, n_out
            if pipeline.is_hashed and _is_crowded(buckets, pipeline.node_keys):
                return CROWDED, n_out
            _begin(arrivals, pipeline, slots, buckets, scans, counters)
            continue
        node = state[LOWEST] + depth - 1
        if is_muted and node == n_streams - 2:
            state[DEPTH] -= 1
            continue
        # 2. m_tuples probe right buffers, as all tuples of the first stream do; any other comes from the right.
        buffer = 2 * node + RIGHT
        if depth == 1 and arrivals.streams[state[NEXT] - 1] == node + 1:
            buffer = 2 * node + LEFT
        # 3. The scan on top goes on: depth first, so that no more scans are under way than there are nodes.
        status, n_out = _scan(buffer, stack[depth - 1], pipeline, slots, buckets, out, n_out, counters)
        if status == DONE:
            state[DEPTH] -= 1
        elif status == CLIMBS:
            _climb(buffer, stack, depth, arrivals.ts[state[NEXT] - 1], pipeline, slots, buckets, counters)
            state[DEPTH] += 1
        else:
            return status, n_out


@borrowing_kernel
def _is_crowded(buckets: Buckets, node_keys: Bools) -> bool:
    for buffer in range(len(buckets.held)):
        n_buckets = buckets.starts[buffer + 1] - buckets.starts[buffer]
        if buckets.held[buffer] > MOST_PER_BUCKET * n_buckets and node_keys[buffer >> 1].any():
            return True
    return False


@borrowing_kernel
def _begin(
    arrivals: Arrivals, pipeline: PipelineShape, slots: Slots, buckets: Buckets, scans: ScansUnderWay, counters: Int64s
) -> None:
    """Takes the next arrival: updates the vectors of time-stamps, inserts it, and starts its scan."""
    # 1. The horizons first: what is out by this time-stamp is not kept for it.
    newest, stack, state = scans
    at = state[NEXT]
    stream, ts = arrivals.streams[at], arrivals.ts[at]
    newest[stream] = ts
    _move_horizons(pipeline.reach, newest, buckets.horizons)
    _update(stream, ts, pipeline, slots, buckets, state, counters)
    # 2. The first stream is the left side of the lowest node, and has a period as m_tuples have.
    slot = take_slot(slots)
    slots.rows[slot, stream] = arrivals.rows[at]
    slots.ts[slot, stream] = ts
    for key in range(slots.keys.shape[1]):
        slots.keys[slot, key] = arrivals.keys[at, key]
    node, side = max(0, stream - 1), LEFT if stream == 0 else RIGHT
    if side == LEFT:
        _set_period(slot, node, pipeline.reach, slots)
    else:
        slots.low[slot] = slots.high[slot] = ts
    append(slot, 2 * node + side, ts, pipeline.node_keys, slots, buckets)
    counters[INSERTED] += 1
    # 3. From here on the scan is under way: what it needs is on the stack when the kernel stops.
    state[NEXT] += 1
    state[LOWEST] = node
    state[DEPTH] = 1
    _start_scan(2 * node + 1 - side, slot, ts, stack[0], pipeline, slots, buckets)


@borrowing_kernel
def _move_horizons(reach: Int64s, newest: Int64s, horizons: Int64s) -> None:
    """IsOut for each buffer: what ends before its horizon is further away than the window from the newest tuple of
    every stream on the other side. A single stream is not enough: another may lag behind (Fig. 3).
    """
    for right in range(1, len(newest)):
        horizons[2 * (right - 1) + LEFT] = newest[right]
        horizon = newest[0] - reach[right, 0]
        for member in range(1, right):
            horizon = min(horizon, newest[member] - reach[right, member])
        horizons[2 * (right - 1) + RIGHT] = horizon


@borrowing_kernel
def _update(
    stream: int, clock: int, pipeline: PipelineShape, slots: Slots, buckets: Buckets, state: Int64s, counters: Int64s
) -> None:
    """Removes what is out, apart from scans: from buckets that are rarely probed, or from all at long intervals."""
    if pipeline.update_every:
        state[SINCE_UPDATE] += 1
        if state[SINCE_UPDATE] >= pipeline.update_every:
            state[SINCE_UPDATE] = 0
            for buffer in range(len(buckets.horizons)):
                for bucket in range(buckets.starts[buffer], buckets.starts[buffer + 1]):
                    sweep(bucket, buffer, buckets.horizons[buffer], slots, buckets, counters)
    elif pipeline.is_hashed:
        for right in range(max(stream, 1), len(pipeline.reach)):
            buffer = 2 * (right - 1) + (LEFT if right == stream else RIGHT)
            update_rarely_probed(buffer, clock, pipeline.spans, slots, buckets, counters)


@borrowing_kernel
def _set_period(slot: int, node: int, reach: Int64s, slots: Slots) -> None:
    """GetPeriod: where tuples of the node's right stream must lie, for each member of an m_tuple."""
    right = node + 1
    low, high = slots.ts[slot, 0] - reach[right, 0], slots.ts[slot, 0] + reach[0, right]
    for member in range(1, right):
        low = max(low, slots.ts[slot, member] - reach[right, member])
        high = min(high, slots.ts[slot, member] + reach[member, right])
    slots.low[slot], slots.high[slot] = low, high


@borrowing_kernel
def _start_scan(
    buffer: int, probe: int, clock: int, scan: Int64s, pipeline: PipelineShape, slots: Slots, buckets: Buckets
) -> None:
    bucket = bucket_of(buffer, slots.keys, probe, pipeline.node_keys, buckets)
    touch(bucket, buffer, clock, buckets)
    scan[PROBE], scan[BUCKET] = probe, bucket
    scan[PREVIOUS], scan[CURSOR] = NONE, buckets.first[bucket]


@borrowing_kernel
def _scan(
    buffer: int,
    scan: Int64s,
    pipeline: PipelineShape,
    slots: Slots,
    buckets: Buckets,
    out: Int64s,
    n_out: int,
    counters: Int64s,
) -> tuple[int, int]:
    """Goes on with a scan, up to the next match that climbs: it is the slot in PREVIOUS then.

    Before a tuple is looked at there must be room for what may come of it.
    """
    node, horizon = buffer >> 1, buckets.horizons[buffer]
    probe, bucket, previous, cursor = scan[PROBE], scan[BUCKET], scan[PREVIOUS], scan[CURSOR]
    is_last, is_eager = node == len(pipeline.reach) - 2, pipeline.update_every == 0
    low, high = slots.low[probe], slots.high[probe]
    status = DONE
    while cursor != NONE:
        # 1. Room first: whatever is looked at counts, and must not be looked at twice.
        if is_last and n_out == out.shape[1]:
            status = NO_OUTPUT_ROOM
            break
        if not is_last and slots.free[0] == NONE:
            status = NO_SLOT
            break
        # 2. A scan is the time to remove what is out.
        if is_eager:
            counters[CHECKED] += 1
            if slots.high[cursor] < horizon:
                counters[REMOVED] += 1
                cursor = remove(cursor, previous, bucket, buffer, slots, buckets)
                continue
        # 3. The cursor moves on before anybody climbs: the scan goes on behind the match.
        counters[COMPARED] += 1
        previous, cursor = cursor, slots.following[cursor]
        if slots.low[previous] > high or slots.high[previous] < low:
            continue
        if not _has_equal_keys(probe, previous, pipeline.node_keys[node], slots.keys):
            continue
        if not is_last:
            status = CLIMBS
            break
        n_out = _emit(buffer, probe, previous, pipeline, slots, out, n_out, counters)
    scan[PREVIOUS], scan[CURSOR] = previous, cursor
    return status, n_out


@inlined_borrowing
def _has_equal_keys(slot: int, other: int, node_keys: Bools, keys: Int64s) -> bool:
    for key in range(len(node_keys)):  # noqa: SIM110
        if node_keys[key] and keys[slot, key] != keys[other, key]:
            return False
    return True


@borrowing_kernel
def _emit(
    buffer: int,
    probe: int,
    match: int,
    pipeline: PipelineShape,
    slots: Slots,
    out: Int64s,
    n_out: int,
    counters: Int64s,
) -> int:
    """Puts out a combination, unless it does not pass the refine step (§5.1): one comparison for each pair."""
    left, right = (match, probe) if buffer & 1 == LEFT else (probe, match)
    last = len(pipeline.reach) - 1
    # 1. Wider bounds have let it through; now each pair of members counts.
    if len(pipeline.refined):
        counters[COMPARED] += last * (last + 1) // 2
        for i in range(last + 1):
            for j in range(last + 1):
                since = slots.ts[left if i < last else right, i]
                if slots.ts[left if j < last else right, j] - since > pipeline.refined[i, j]:
                    return n_out
    # 2. The right side has the last member alone.
    for member in range(last):
        out[member, n_out] = slots.rows[left, member]
    out[last, n_out] = slots.rows[right, last]
    counters[OUTPUT] += 1
    return n_out + 1


@borrowing_kernel
def _climb(
    buffer: int,
    stack: Int64s,
    depth: int,
    clock: int,
    pipeline: PipelineShape,
    slots: Slots,
    buckets: Buckets,
    counters: Int64s,
) -> None:
    """A match goes to the next node: into its left buffer, and through its right one."""
    probe, match = stack[depth - 1, PROBE], stack[depth - 1, PREVIOUS]
    left, right = (match, probe) if buffer & 1 == LEFT else (probe, match)
    last = (buffer >> 1) + 1
    slot = take_slot(slots)
    for member in range(last):
        slots.rows[slot, member], slots.ts[slot, member] = slots.rows[left, member], slots.ts[left, member]
    slots.rows[slot, last], slots.ts[slot, last] = slots.rows[right, last], slots.ts[right, last]
    for key in range(slots.keys.shape[1]):
        slots.keys[slot, key] = slots.keys[right if pipeline.has_key[last, key] else left, key]
    _set_period(slot, last, pipeline.reach, slots)
    append(slot, 2 * last + LEFT, clock, pipeline.node_keys, slots, buckets)
    counters[INSERTED] += 1
    _start_scan(2 * last + RIGHT, slot, clock, stack[depth], pipeline, slots, buckets)
