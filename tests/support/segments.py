"""Segments of a few rows, on pages so short that everything crosses a boundary, and lives to probe them with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sash.kernels.segment_join import EarlyEnds
from sash.store.allowance import Allowance
from sash.store.batch import BEGINNING, NEVER
from sash.store.segment import WindowSegment
from sash.store.segment_writer import SealedRows, write_segment
from sash.store.spill_files import SpillFiles, SpillSettings

SHORT_PAGES = st.builds(
    SpillSettings,
    page_bytes=st.sampled_from([24, 32, 64, 200]),
    frame_bytes=st.sampled_from([24, 100, 1000]),
    gap_bytes=st.sampled_from([0, 70, 10_000]),
)


class Lives(NamedTuple):
    """Keys, and from when to when."""

    keys: np.ndarray
    ts: np.ndarray
    ends: np.ndarray

    @property
    def each(self) -> list[tuple[int, int, int]]:
        return list(zip(*(column.tolist() for column in self)))


@st.composite
def lives(draw: st.DrawFn, min_size: int = 0, max_size: int = 40) -> Lives:
    """Few keys, some of them at the ends of what a key can be; lives that are equally long, or not."""
    keys = st.sampled_from([0, 1, 2, 3, -1, 2**63 - 1, -(2**63)]) | st.integers(4, 60)
    length = st.just(draw(st.integers(1, 20))) if draw(st.booleans()) else st.integers(1, 20) | st.just(NEVER)
    ts = st.integers(-30, 30) | st.just(BEGINNING)
    drawn = draw(st.lists(st.tuples(keys, ts, length), min_size=min_size, max_size=max_size))
    columns = np.array([(key, ts, min(ts + life, NEVER)) for key, ts, life in drawn], np.int64).reshape(-1, 3)
    return Lives(*(column.copy() for column in columns.T))


@contextmanager
def spilling(settings: SpillSettings, allowance: Allowance | None = None) -> Iterator[SpillFiles]:
    """Files in a directory that goes afterwards."""
    with TemporaryDirectory() as directory:
        files = SpillFiles(Path(directory), settings, allowance)
        yield files
        files.close()


def seal(
    files: SpillFiles,
    rows: Lives,
    payload: pa.Table | None = None,
    first: int = 0,
    ids: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    batch_bytes: int = 100,
) -> WindowSegment:
    """A segment of rows that had the numbers from `first` on."""
    payload = pa.table({"number": np.arange(first, first + len(rows.keys))}) if payload is None else payload
    numbers = np.arange(first, first + len(rows.keys))
    sealed = SealedRows(numbers, rows.keys, rows.ts, rows.ends, ids, labels)

    def take(asked: np.ndarray, names: list[str] | None) -> pa.Table:
        return payload.select(names or payload.column_names).take(pa.array(asked - first))

    return write_segment(files, sealed, take, None, batch_bytes)


def as_logged(segment: WindowSegment) -> np.ndarray:
    """The numbers that all rows had, in the order in which they are sealed."""
    return segment.origins(np.arange(segment.first, segment.last))


def early_ends(rows: dict[int, int]) -> EarlyEnds:
    numbers = sorted(rows)
    return EarlyEnds(np.array(numbers, np.int64), np.array([rows[each] for each in numbers], np.int64))
