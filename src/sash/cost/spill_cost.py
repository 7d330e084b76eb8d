"""What a join under a limit keeps in memory and on disk, and what it reads and writes, per second of stream.

    memory   |···· half of the limit: rows of both heads, their index, and what the next bite brings ····|
    full     half of the larger head becomes a segment, so a head is three quarters full in the mean
    a bite   its rows look into every segment of the other side, before they come in as many at a time as find room:
             keys      16 bytes a row: all pages if it has many rows, else those that filter and fences leave
             payload   batches of those rows that have found a partner, without their lives and signs

If both windows outgrow memory, heads end up nearly equal: with room for C, each is full at 4/7 C and holds 3/7 C in the
mean, and a segment has 2/7 C. A window that is less than half of C stays, and the other one has the rest.

Keys are taken to be equally frequent, and rows to come evenly. Nothing is written while both windows fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sash.cost.disk_prices import DiskPrices
from sash.cost.join_cost import JoinLoad
from sash.index.hash_index import FIRST_SLOTS
from sash.kernels.hash_join import SLOT_WIDTH
from sash.store.block_window import CUTS
from sash.store.memory_budget import GROWTH, LEAST_ROWS, PASSING_BYTES, ROW_BYTES, SHARE_OF_STATE
from sash.store.segment_probe import MANY
from sash.store.segment_writer import BATCH_BYTES, FIRST_BATCH_ROWS
from sash.store.spill_files import SpillSettings

STATE_BYTES = 41
"""Of a row in a head beside its columns: its key, times and link, and whether it is dead."""
SLOT_BYTES = 8 * SLOT_WIDTH
KEYS_PER_SLOT = 5 / 8
KEY_BYTES, ORIGIN_BYTES = 16, 8
"""Of a row in a segment: the hash of its key and its time; and which row it was."""
TOLD_BYTES = 17
"""Of a row's columns, those that are not in its segment's payload: its life and its sign."""
IPC_BYTES = 640
"""About so much a batch of payload takes beside its rows."""
FALSE_SHARE = 0.01
"""So many keys pass a filter that does not have them."""
MEAN_ROOM = (1 + GROWTH) / 2
"""Room of a vector, for each item that it holds, in the mean."""
KEY_NS = 8.0
"""To check, and to compare, a key that was read."""
MOST_BITES = 64
"""So many bites of a step say how many the others take."""


class MemoryShares(NamedTuple):
    """Bytes for what a join keeps, for a bite with what it puts out, and for what is known and read of files."""

    state_bytes: float
    step_bytes: float
    disk_bytes: float


@dataclass(frozen=True, slots=True)
class SpillEstimate:
    """Bytes that are kept, and what goes between memory and disk in a second of stream."""

    kept_bytes: float
    """In memory and on disk, or all in memory if it fits."""
    memory_bytes: float
    disk_bytes: float = 0.0
    n_segments: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    n_accesses: float = 0.0
    n_keys: float = 0.0
    """Rows whose keys are read."""

    @property
    def fits(self) -> bool:
        return not self.disk_bytes

    def disk_s(self, prices: DiskPrices) -> float:
        """How long the disk takes."""
        return prices.seconds(self.bytes_written, self.bytes_read, self.n_accesses)

    @property
    def cpu_s(self) -> float:
        """What looking for rows on disk costs beside reading them."""
        return self.n_keys * KEY_NS / 1e9


class SideSegments(NamedTuple):
    """Those of one side: how many rows each has, and how many of them there are."""

    n_rows: float
    n_segments: float
    row_bytes: float


def estimate_spill(
    load: JoinLoad, row_bytes: tuple[float, float], step_s: float, shares: MemoryShares, looks_at_once: bool = True
) -> SpillEstimate:
    """Of a join of rows with so many bytes of columns, once windows are full; steps bring `step_s` seconds at once.
    `looks_at_once`: whether as many look into segments as may be in memory, rather than as many as find room.
    """
    n_pairs = sum(load.rates[side] * load.window_tuples(1 - side) for side in (0, 1)) * load.match_rate
    n_bite = bite_rows(load.rates, row_bytes, n_pairs / sum(load.rates), step_s, shares)
    n_looking = max(n_bite, looking_rows(load.rates, row_bytes, step_s, shares)) if looks_at_once else n_bite
    arriving = [n_bite * rate / sum(load.rates) for rate in load.rates]
    held = [MEAN_ROOM * (each + STATE_BYTES) for each in row_bytes]
    windows = [load.window_tuples(side) * held[side] for side in (0, 1)]
    coming = sum(GROWTH * n_rows * (each + ROW_BYTES) for n_rows, each in zip(arriving, row_bytes))
    index = _index_bytes(load, sum(load.window_tuples(side) for side in (0, 1)))
    kept = sum(windows) + index
    if (1 + 1 / CUTS) * sum(windows) + index + coming <= shares.state_bytes:
        return SpillEstimate(kept, kept)
    room = max(shares.state_bytes - coming, shares.state_bytes / 8)
    index = min(_index_bytes(load, room / max(held)), room / 2)
    heads = _head_bytes((windows[0], windows[1]), room - index)
    # Sides that both outgrow memory take turns, so that what was sealed less than a bite ago has two of them.
    n_turns = 2 if min(windows) > heads[0] and min(windows) > heads[1] else 1
    segments = [
        segments_of(
            load.window_tuples(side), heads[side] / held[side], arriving[side], row_bytes[side] - TOLD_BYTES, n_turns
        )
        for side in (0, 1)
    ]
    heads = [min(each + n_rows * size, whole) for each, n_rows, size, whole in zip(heads, arriving, held, windows)]
    settings = SpillSettings.within(int(shares.disk_bytes))
    n_bites = sum(load.rates) / n_looking
    looking = [n_looking * rate / sum(load.rates) for rate in load.rates]
    reads = [read_of(load.n_distinct, load.match_rate, looking[1 - side], segments[side], settings) for side in (0, 1)]
    files = [file_bytes(each, settings) for each in segments]
    on_disk = sum(each.n_segments * size for each, size in zip(segments, files))
    written = sum(rate * size / each.n_rows for rate, each, size in zip(load.rates, segments, files) if each.n_segments)
    in_memory = sum(heads) + index
    bytes_read, n_accesses, n_keys = (n_bites * sum(each) for each in zip(*reads))
    n_segments = sum(each.n_segments for each in segments)
    return SpillEstimate(in_memory + on_disk, in_memory, on_disk, n_segments, bytes_read, written, n_accesses, n_keys)


def bite_rows(
    rates: Sequence[float], row_bytes: Sequence[float], n_joined: float, step_s: float, shares: MemoryShares
) -> float:
    """How many rows are worked on at once, in the mean: a step, or as much of it as there is memory for, and less from
    then on if what is joined, so many for each row, is too much. See `store/bites.py`.
    """
    n_step, mean_bytes = max(1.0, sum(rates) * step_s), _mean_bytes(rates, row_bytes)
    as_input = shares.step_bytes / mean_bytes
    as_state = SHARE_OF_STATE * shares.state_bytes / (GROWTH * (mean_bytes + ROW_BYTES))
    n_most = n_rows = max(LEAST_ROWS, min(as_input, as_state))
    n_done, n_bites = 0.0, 0
    while n_done < n_step and n_bites < MOST_BITES:
        n_done, n_bites = n_done + min(n_rows, n_step - n_done), n_bites + 1
        bytes_out = n_rows * n_joined * sum(row_bytes)
        if bytes_out > shares.step_bytes:
            n_rows = max(LEAST_ROWS, n_rows / 2)
        elif 4 * bytes_out < shares.step_bytes:
            n_rows = min(n_most, 2 * n_rows)
    return n_done / n_bites


def looking_rows(rates: Sequence[float], row_bytes: Sequence[float], step_s: float, shares: MemoryShares) -> float:
    """How many rows look into segments at once before they come in: a step, or as much of it as may be in memory."""
    return max(1.0, min(sum(rates) * step_s, shares.step_bytes / (_mean_bytes(rates, row_bytes) + PASSING_BYTES)))


def _mean_bytes(rates: Sequence[float], row_bytes: Sequence[float]) -> float:
    return sum(rate * each for rate, each in zip(rates, row_bytes)) / sum(rates)


def _index_bytes(load: JoinLoad, n_rows: float) -> float:
    """Of a table with a place for every key, whose size is a power of two."""
    n_keys = min(load.n_distinct, n_rows)
    return SLOT_BYTES * 2 ** math.ceil(math.log2(max(FIRST_SLOTS, 1.25 * n_keys / KEYS_PER_SLOT)))


def _head_bytes(windows: tuple[float, float], room: float) -> tuple[float, float]:
    """What both heads hold in the mean."""
    small = 0 if windows[0] <= windows[1] else 1
    if windows[small] > room / 2:
        return 3 / 7 * room, 3 / 7 * room
    rest = 3 / 4 * (room - windows[small])
    return (windows[0], rest) if small == 0 else (rest, windows[1])


def segments_of(n_window: float, n_head: float, n_arriving: float, row_bytes: float, n_turns: int) -> SideSegments:
    """A segment has half of what a full head has, or a bite, whose rows stay together; the oldest is half dead."""
    n_rows = max(1.0, 2 / 3 * n_head, n_turns * n_arriving)
    n_disk = max(0.0, n_window - n_head - n_arriving)
    return SideSegments(n_rows, n_disk / n_rows + 1 / 2 if n_disk else 0.0, row_bytes)


def file_bytes(segment: SideSegments, settings: SpillSettings) -> float:
    """Of a segment with one key."""
    page = settings.page_bytes
    parts = [pages_of(segment.n_rows, KEY_BYTES, page), pages_of(segment.n_rows, ORIGIN_BYTES, page)]
    payload = segment.n_rows * segment.row_bytes + _n_batches(segment) * IPC_BYTES if segment.row_bytes else 0
    return page * (sum(parts) + math.ceil(payload / page))


def read_of(
    n_distinct: float, match_rate: float, n_probing: float, other: SideSegments, settings: SpillSettings
) -> tuple[float, float, float]:
    """Of so many rows that look into all segments of the other side: bytes, accesses, and keys that are read."""
    if not other.n_segments:
        return 0.0, 0.0, 0.0
    page = settings.page_bytes
    n_pages = pages_of(other.n_rows, KEY_BYTES, page)
    passing = n_probing * min(1.0, _share_met(1 / n_distinct, other.n_rows) + FALSE_SHARE)
    wanted = n_pages if n_probing > MANY * n_pages else n_pages * _share_met(1 / n_pages, passing)
    keys, key_accesses = _coalesced(n_pages, wanted, settings.gap_pages)
    if not other.row_bytes:
        return other.n_segments * keys * page, other.n_segments * key_accesses, other.n_segments * other.n_rows
    n_batches = _n_batches(other)
    batch_pages = (other.n_rows * other.row_bytes / n_batches + IPC_BYTES) / page
    matched = other.n_rows * _share_met(match_rate, n_probing)
    wanted = n_batches * _share_met(1 / n_batches, matched)
    batches, payload_accesses = _coalesced(n_batches, wanted, int(settings.gap_pages / batch_pages))
    n_accesses = key_accesses + keys / settings.most_pages + payload_accesses
    pages = keys + batches * batch_pages + payload_accesses
    n_keys = keys * (page // KEY_BYTES)
    return other.n_segments * pages * page, other.n_segments * n_accesses, other.n_segments * min(n_keys, other.n_rows)


def _share_met(chance: float, n_times: float) -> float:
    """How likely something happens at least once in so many times."""
    return 1.0 if chance >= 1 else -math.expm1(n_times * math.log1p(-chance))


def _coalesced(n_all: float, n_wanted: float, n_gap: int) -> tuple[float, float]:
    """How many of all are read if so many are wanted, anywhere, and gaps of up to `n_gap` are read too; and in how many
    accesses.
    """
    if not n_wanted:
        return 0.0, 0.0
    dense = min(1.0, n_wanted / n_all)
    n_between = max(0.0, n_wanted - 1)
    filled = sum(length * dense * (1 - dense) ** length for length in range(1, n_gap + 1))
    n_far = n_between * (1 - dense) ** (n_gap + 1)
    return min(n_all, n_wanted + n_between * filled), min(1.0, n_wanted) + n_far


def pages_of(n_rows: float, row_bytes: int, page_bytes: int) -> int:
    return math.ceil(n_rows / (page_bytes // row_bytes))


def _n_batches(segment: SideSegments) -> float:
    """The first batches are short, until it is known how many rows make a long one."""
    n_done, n_rows, n_batches = 0.0, float(FIRST_BATCH_ROWS), 0.0
    n_long = max(1.0, BATCH_BYTES / segment.row_bytes)
    while n_done < segment.n_rows and n_rows < n_long:
        n_done, n_rows, n_batches = n_done + n_rows, 4 * n_rows, n_batches + 1
    return max(1.0, n_batches + max(0.0, segment.n_rows - n_done) / n_long)
