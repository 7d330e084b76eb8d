"""What a trace under a limit keeps in memory and on disk, and what it reads and writes, per second of stream.

    memory   |···· rows of the head, numbers of their keys, the queue of those that expire ····|
    full     half of the head becomes a file in order of expiry, so a head is three quarters full in the mean
    disk     a row that expires is written once, and read once: from then on as much is read as written

Nothing is written while all fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sash.cost.spill_cost import IPC_BYTES, MEAN_ROOM, SpillEstimate
from sash.store.block_window import CUTS
from sash.store.memory_budget import TRACE_BYTES
from sash.store.segment_writer import BATCH_BYTES

SEALED_BYTES = 16
"""Of a row in a file beside its columns: the number of its key, and which row it was."""


class TraceLoad(NamedTuple):
    """Rows that come per second, how many are kept, and the bytes of the columns of each."""

    rate: float
    n_rows: float
    row_bytes: float


def trace_bytes(loads: Sequence[TraceLoad]) -> float:
    """What traces keep that nothing limits."""
    return sum(each.n_rows * MEAN_ROOM * (each.row_bytes + TRACE_BYTES) for each in loads)


def estimate_trace_spill(loads: Sequence[TraceLoad], room: float, is_read: bool) -> SpillEstimate:
    """Of traces that have so much room together, once windows are full; `is_read`: whether rows expire by the clock."""
    kept = trace_bytes(loads)
    if (1 + 1 / CUTS) * kept <= room:
        return SpillEstimate(kept, kept)
    head = min(3 / 4 * room, kept)
    share = 1 - head / kept
    file_bytes = [(each.row_bytes + SEALED_BYTES) * (1 + IPC_BYTES / BATCH_BYTES) for each in loads]
    on_disk = sum(share * each.n_rows * size for each, size in zip(loads, file_bytes))
    n_segments = (kept - head) / (room / 2) + 1 / 2
    written = sum(each.rate * size for each, size in zip(loads, file_bytes))
    read = written if is_read else 0.0
    return SpillEstimate(head + on_disk, head, on_disk, n_segments, read, written, (read + written) / BATCH_BYTES)
