"""What a join of many streams keeps in memory and on disk under a limit, and what it reads and writes, per second.

    memory   half of the limit: the heads of all windows and their tables. When it is used up, half of the largest head
             becomes a segment; so the heads that take turns stand to each other as the powers of the n-th root of 2
    a bite   the rows of each input probe the segments of the others, one input after the other, as combinations grow:
             by key as in a join of two; by time, where there is no key, all of them with what conditions read

As `cost/spill_cost.py`, which this stands on, it takes keys to be equally frequent, and rows to come evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from sash.cost.spill_cost import (
    KEYS_PER_SLOT,
    MEAN_ROOM,
    MemoryShares,
    SideSegments,
    SpillEstimate,
    bite_rows,
    file_bytes,
    pages_of,
    read_of,
    segments_of,
)
from sash.index.probe_order import Fanouts
from sash.store.block_window import CUTS
from sash.store.memory_budget import GROWTH, ROW_BYTES
from sash.store.spill_files import SpillSettings

LABEL_BYTES, OTHER_KEY_BYTES, ROW_NUMBER_BYTES = 8, 16, 8
"""Of a row in a segment for each key but the first: the key; and if it is probed, its hash with the time, and which row
it is."""


class ManyInput(NamedTuple):
    """An input of a join of many."""

    rate: float
    span_s: float
    """How long its tuples are held."""
    row_bytes: float
    n_keys: int
    n_probed: int
    """Of its keys, those by which it may be probed."""

    @property
    def n_rows(self) -> float:
        return self.rate * self.span_s


class ManyProbe(NamedTuple):
    """An input that is looked into, by so many combinations, each of which meets so many of its tuples there."""

    target: int
    n_looking: float
    fanout: float


class ManyLoad(NamedTuple):
    """What a join of many has to do. `fanouts` are those of its spec, and `orders` how inputs are probed."""

    inputs: Sequence[ManyInput]
    fanouts: Fanouts
    orders: Sequence[Sequence[int]]
    step_s: float

    def probes_of(self, arriving: int) -> list[ManyProbe]:
        """What a tuple of an input leads to, in the order of probes."""
        bound, n_looking, found = [arriving], 1.0, list[ManyProbe]()
        for target in self.orders[arriving]:
            fanout = min(self.fanouts[source][target] or 0.0 for source in bound)
            found.append(ManyProbe(target, n_looking, fanout))
            bound.append(target)
            n_looking *= fanout
        return found

    @property
    def n_joined(self) -> float:
        """Combinations that a tuple completes, in the mean."""
        last = [self.probes_of(number)[-1] for number in range(len(self.inputs))]
        n_found = sum(each.rate * probe.n_looking * probe.fanout for each, probe in zip(self.inputs, last))
        return n_found / sum(each.rate for each in self.inputs)


def estimate_multiway_spill(load: ManyLoad, shares: MemoryShares) -> SpillEstimate:
    """Once windows are full."""
    inputs, rates = load.inputs, [each.rate for each in load.inputs]
    n_bite = bite_rows(rates, [each.row_bytes for each in inputs], load.n_joined, load.step_s, shares)
    arriving = [n_bite * rate / sum(rates) for rate in rates]
    held = [_held_bytes(each, len(inputs)) for each in inputs]
    windows = [each.n_rows * size for each, size in zip(inputs, held)]
    coming = sum(GROWTH * n_rows * (each.row_bytes + ROW_BYTES) for n_rows, each in zip(arriving, inputs))
    if (1 + 1 / CUTS) * sum(windows) + coming <= shares.state_bytes:
        return SpillEstimate(sum(windows), sum(windows))
    full = _full_head(windows, max(shares.state_bytes - coming, shares.state_bytes / 8))
    n_turns = min(2, sum(each > full for each in windows))
    heads = [min(each, 3 / 4 * full) for each in windows]
    segments = [
        segments_of(each.n_rows, head / size, n_new, each.row_bytes, n_turns)
        if whole > head + n_new * size
        else SideSegments(1.0, 0.0, each.row_bytes)
        for each, head, size, n_new, whole in zip(inputs, heads, held, arriving, windows)
    ]
    return _estimate(load, shares, heads, segments, arriving)


def _estimate(
    load: ManyLoad,
    shares: MemoryShares,
    heads: Sequence[float],
    segments: Sequence[SideSegments],
    arriving: Sequence[float],
) -> SpillEstimate:
    inputs, settings = load.inputs, SpillSettings.within(int(shares.disk_bytes))
    n_bites = sum(each.rate for each in inputs) / sum(arriving)
    files = [_keyed_bytes(one, each, settings) for one, each in zip(segments, inputs)]
    on_disk = sum(each.n_segments * size for each, size in zip(segments, files))
    written = sum(each.rate * size / one.n_rows for each, size, one in zip(inputs, files, segments) if one.n_segments)
    in_memory = sum(heads) + sum(n_new * _held_bytes(each, len(inputs)) for n_new, each in zip(arriving, inputs))
    reads = [
        read_of(max(1.0, n_rows / fanout), fanout / n_rows, n_new * n_looking, segments[target], settings)
        for number, n_new in enumerate(arriving)
        for target, n_looking, fanout in load.probes_of(number)
        if fanout > 0 and (n_rows := max(fanout, inputs[target].n_rows)) > 0
    ]
    bytes_read, n_accesses, n_keys = (n_bites * sum(each) for each in zip((0.0, 0.0, 0.0), *reads))
    n_segments = sum(each.n_segments for each in segments)
    return SpillEstimate(in_memory + on_disk, in_memory, on_disk, n_segments, bytes_read, written, n_accesses, n_keys)


def _held_bytes(input: ManyInput, n_inputs: int) -> float:
    """Of a row in memory: its columns, times, keys with links, whether it is dead, and a slot of each key's table."""
    beside = 25 + 16 * max(1, input.n_keys)
    slot = 1.5 * 8 * (1 + n_inputs) / KEYS_PER_SLOT
    return MEAN_ROOM * (input.row_bytes + beside) + input.n_keys * slot


def _full_head(windows: Sequence[float], room: float) -> float:
    """What the largest head has when half of it is sealed; windows that are smaller stay."""
    n_large, left = len(windows), room
    for number, window in enumerate(sorted(windows)):
        n_large = len(windows) - number
        full = left / sum(2 ** (-turn / n_large) for turn in range(n_large))
        if window > full:
            return full
        left -= window
    return inf


def _keyed_bytes(segment: SideSegments, input: ManyInput, settings: SpillSettings) -> float:
    page, widths = settings.page_bytes, (OTHER_KEY_BYTES, ROW_NUMBER_BYTES)
    order = page * sum(pages_of(segment.n_rows, width, page) for width in widths)
    labels = page * pages_of(segment.n_rows, LABEL_BYTES, page) * max(0, input.n_keys - 1)
    return file_bytes(segment, settings) + labels + max(0, input.n_probed - 1) * order
