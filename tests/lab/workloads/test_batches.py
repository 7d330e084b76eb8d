"""However rows are cut, each comes once, in order, in the batch that is complete when its last row has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from sash.errors import PlanError
from sash.lab.workloads.arrow_columns import read_times, times_column
from sash.lab.workloads.batches import Batch, BatchCut, batches
from sash.lab.workloads.sensors import Sensors
from sash.lab.workloads.workload import WorkloadStream

SECOND = 1_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class Written:
    """Streams whose times are written down, each in chunks."""

    chunks: Mapping[str, list[list[int]]]
    start_us: int = 0
    duration_us: int = 100

    @property
    def streams(self) -> list[WorkloadStream]:
        return [WorkloadStream(name, SCHEMA) for name in self.chunks]

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {}

    @property
    def question(self) -> str:
        return ""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        for times in self.chunks[stream]:
            yield pa.table([pa.array(times, pa.int64()), times_column(np.array(times, np.int64))], schema=SCHEMA)


def shown(cut: list[Batch]) -> list[tuple[str, list[int], int]]:
    return [(batch.stream, read_times(batch.rows["ts"]).tolist(), batch.due_us) for batch in cut]


def test_by_rows_a_batch_is_due_with_its_last_row():
    workload = Written({"a": [[1, 2], [3, 9], [10]], "b": [[2, 3, 4, 5]]})
    assert shown(list(batches(workload, BatchCut(rows=3)))) == [
        ("a", [1, 2, 3], 3),
        ("b", [2, 3, 4], 4),
        ("b", [5], 5),
        ("a", [9, 10], 10),
    ]


def test_by_time_a_batch_is_due_when_its_stretch_is_over():
    workload = Written({"a": [[1, 2], [9, 10], [35]], "b": [[20]]})
    assert shown(list(batches(workload, BatchCut(every_us=10)))) == [
        ("a", [1, 2, 9], 10),
        ("a", [10], 20),
        ("b", [20], 30),
        ("a", [35], 40),
    ]


def test_a_late_row_comes_with_the_rows_before_it():
    """It has not arrived before them, whatever its time says."""
    workload = Written({"a": [[1, 12, 3], [4, 25]]})
    assert shown(list(batches(workload, BatchCut(every_us=10)))) == [
        ("a", [1], 10),
        ("a", [12, 3, 4], 20),
        ("a", [25], 30),
    ]
    assert [due for *_, due in shown(list(batches(workload, BatchCut(rows=3))))] == [12, 25]


def test_times_can_be_moved():
    moved = shown(list(batches(Written({"a": [[1, 2], [15]]}), BatchCut(every_us=10), start_us=1000)))
    assert moved == [("a", [1001, 1002], 1010), ("a", [1015], 1020)]


@pytest.mark.parametrize(
    "cut",
    [BatchCut(rows=1), BatchCut(rows=97), BatchCut(every_us=1), BatchCut(every_us=SECOND // 3), BatchCut(rows=10**9)],
)
def test_how_rows_are_cut_never_changes_them(cut):
    workload = Sensors(rate=50, duration_us=5 * SECOND)
    taken = list(batches(workload, cut))
    assert [batch.due_us for batch in taken] == sorted(batch.due_us for batch in taken)
    for stream in workload.streams:
        rows = pa.concat_tables([batch.rows for batch in taken if batch.stream == stream.name])
        assert rows.equals(pa.concat_tables(workload.generate(stream.name)))


def test_streams_without_rows_have_no_batches():
    assert list(batches(Written({"a": [[]], "b": []}), BatchCut(rows=3))) == []


@pytest.mark.parametrize("options", [{}, {"rows": 1, "every_us": 1}, {"rows": 0}, {"every_us": 0}])
def test_mistakes_have_reasons(options):
    with pytest.raises(PlanError, match=r"but must be|say one of them"):
        BatchCut(**options)
