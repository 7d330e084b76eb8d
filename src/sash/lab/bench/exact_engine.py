"""EWJ, RPWJ and AH-EWJ of Exact for `sash bench memory`: by themselves, on files, in as much memory as the others have.

In a query their disk is a model and the rows are in its windows, so that neither time nor memory would say anything.
Here a block is all there is of its rows, in memory or in a file. As in a query, all pairs of a step are found by its
end, and comparisons are counted as the papers make them while pairs are found by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.lab.workloads.join_streams import JoinWorkload
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_index import DiskJoin
from sash.papers.exact.exact_kernels.block_frames import END, KEY, ROW, TS, WIDTH
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, RpwjSettings
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.work_clock import FoundPairs
from sash.store.batch import int64_column
from sash.store.block_disk import DiskCounts, Extent, Span

RECORD_BYTES = 8 * WIDTH
FRAME_ROW_BYTES = RECORD_BYTES + 48
"""What a row takes in memory: its record, two links, and up to two heads of chains on either side."""
BLOCK_ROWS = {"ewj": 32, "rpwj": 16, "ahewj": 16}
"""As in the thesis, unless memory is small."""
LEAST_BLOCKS = 400
"""So many blocks are in memory, at least: each of 60 buckets has open ones of both streams."""


class FileDisk:
    """Keeps every extent in a file of its own. What it takes is measured, so nothing is counted."""

    counts = DiskCounts()

    def __init__(self, directory: Path):
        directory.mkdir(parents=True)
        self._directory = directory
        self._next_number = 0
        self._shapes: dict[int, tuple[int, ...]] = {}

    def append(self, blocks: np.ndarray) -> Extent:
        """Writes blocks."""
        extent = Extent(self._next_number, len(blocks))
        self._next_number += 1
        self._shapes[extent.number] = blocks.shape[1:]
        blocks.tofile(self._path(extent))
        return extent

    def read(self, extent: Extent, spans: Sequence[Span]) -> list[np.ndarray]:
        """The blocks of each span."""
        shape = self._shapes[extent.number]
        per_block = int(np.prod(shape))
        parts = [
            np.fromfile(self._path(extent), np.int64, (last - first) * per_block, offset=8 * first * per_block)
            for first, last in spans
        ]
        return [part.reshape(-1, *shape) for part in parts]

    def free(self, extent: Extent) -> None:
        """Removes a file."""
        self._path(extent).unlink()
        del self._shapes[extent.number]

    def _path(self, extent: Extent) -> Path:
        return self._directory / str(extent.number)


class ExactEngine:
    """One of the joins, fed step by step."""

    def __init__(self, method: str, workload: JoinWorkload, limit_bytes: int, directory: Path):
        self._workload = workload
        self._join = _make_join(method, workload.window_us, limit_bytes, directory)
        self._n_rows = 0

    def fill(self, step: Mapping[str, pa.Table]) -> None:
        """Takes rows whose pairs nobody asks for."""
        for _ in self._feed(step, is_silent=True):
            raise AssertionError("pairs are found that nobody asked for")

    def push(self, step: Mapping[str, pa.Table]) -> pa.Table:
        """The pairs that the rows of a step complete."""
        parts = list(self._feed(step, is_silent=False))
        left, right = (np.concatenate([np.empty(0, np.int64), *(part[side] for part in parts)]) for side in (0, 1))
        return pa.table({"a_v": left, "b_v": right})

    def finish(self) -> pa.Table:
        """Nothing is left: all was found at the end of its step."""
        return pa.table({name: pa.array([], pa.int64()) for name in ("a_v", "b_v")})

    def _feed(self, step: Mapping[str, pa.Table], is_silent: bool) -> Iterator[FoundPairs]:
        """`v` numbers the rows of a stream. Those of the next step are later than all of this one."""
        tables = [step[name] for name in self._workload.names]
        self._n_rows += tables[0].num_rows
        records = np.zeros((sum(table.num_rows for table in tables), WIDTH), np.int64)
        for column, name in ((ROW, "v"), (KEY, "k"), (TS, "ts")):
            records[:, column] = np.concatenate([int64_column(table, name) for table in tables])
        records[:, END] = records[:, TS] + self._workload.window_us
        sides = np.repeat(np.array([0, 1], np.int8), [table.num_rows for table in tables])
        order = np.lexsort((sides, records[:, TS]))
        horizon = self._workload.start_us + self._n_rows * 1_000_000 // self._workload.rate
        return chain(self._join.feed(records[order], sides[order], horizon, is_silent), self._join.settle())


def _make_join(method: str, window_us: int, limit_bytes: int, directory: Path) -> DiskJoin:
    """Half of the limit is for blocks, a sixteenth is read at once; times are the thesis's shares of a window."""
    n_rows = limit_bytes // 2 // FRAME_ROW_BYTES
    block_rows = max(1, min(BLOCK_ROWS[method], n_rows // LEAST_BLOCKS))
    memory, at_once = n_rows // block_rows, max(1, limit_bytes // 16 // (block_rows * RECORD_BYTES))
    block = {"block_rows": block_rows, "block_bytes": block_rows * RECORD_BYTES}
    times = {"slide_us": max(1, window_us // 10), "epoch_us": max(1, window_us // 10), "gap_us": window_us // 40}
    if method == "rpwj":
        settings = RpwjSettings(**block, **times, memory=memory, m_read=at_once)
        return ProgressiveWindowJoin(settings, FileDisk(directory / "disk"))
    disks = [FileDisk(directory / name) for name in ("left", "right")]
    if method == "ewj":
        return ExactWindowJoin(EwjSettings(**block, memory=memory // 2, basic_window=at_once), disks)
    settings = AhEwjSettings(**block, **times, memory=memory, basic_window=at_once, train=3 * at_once)
    return AdaptiveWindowJoin(settings, disks)
