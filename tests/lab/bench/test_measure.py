"""What follows from the measures of single batches, and what a checkpoint's files are counted as."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from sash.lab.bench.cpu_time import CpuMarks, cpu_seconds_since, tree_cpu_seconds
from sash.lab.bench.measure import (
    BatchMeasure,
    Measured,
    checkpoint_bytes,
    read_progress,
    store_bytes,
    throughput,
    throughput_by_cpu,
)


@pytest.mark.parametrize(("n_batches", "n_steady"), [(1, 1), (2, 1), (3, 2), (10, 5)])
def test_steady_state_is_the_second_half(n_batches, n_steady):
    batches = [BatchMeasure(10, 1.0) for _ in range(n_batches)]
    assert list(Measured(batches, 1, 1).steady) == batches[-n_steady:]


def test_figures_follow_from_the_batches():
    batches = [BatchMeasure(100, 8.0, 1000, 1, 10, 20), BatchMeasure(100, 2.0, 50, 2, 11, 21)]
    facts = Measured(batches, 12.5, 13.0, 7).facts()
    assert facts["tuples_per_second"] == 16
    assert facts["steady_tuples_per_second"] == 50
    assert (facts["first_batch_seconds"], facts["checkpoint_bytes_per_batch"]) == (8, 50)
    assert (facts["state_rows"], facts["state_bytes"], facts["store_bytes"]) == (2, 11, 21)
    assert throughput(batches) == 20


def test_files_of_a_checkpoint_belong_to_the_batch_that_wrote_them(tmp_path):
    for name, size in {
        "metadata": 1,
        "offsets/0": 10,
        "offsets/.0.crc": 1,
        "offsets/1": 10,
        "commits/0": 5,
        "sources/0/0": 3,
        "sources/1/9.compact": 30,
        "state/0/0/1.changelog": 100,
        "state/0/1/left-keyToNumValues/1.changelog": 200,
        "state/0/1/left-keyToNumValues/.2.changelog.crc": 2,
        "state/0/1/2_abc-def.changelog": 400,
        "state/0/1/2.zip": 5000,
        "state/0/1/SSTs/1.sst": 6000,
        "state/0/_metadata/metadata": 4,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    by_batch, background = checkpoint_bytes(tmp_path)
    assert by_batch == {0: 10 + 1 + 5 + 3 + 100 + 200, 1: 10 + 2 + 400, 9: 30}
    assert background == 1 + 5000 + 6000 + 4


@dataclass
class Event:
    """As Spark's, of which only `json` is looked at."""

    told: dict

    @property
    def json(self) -> str:
        return json.dumps(self.told)


def test_an_idle_query_has_run_no_batch():
    ran = {"batchId": 0, "durationMs": {"addBatch": 5, "triggerExecution": 7}}
    idle = {"batchId": 1, "durationMs": {"latestOffset": 1, "triggerExecution": 1}}
    assert read_progress([Event(ran), Event(idle)]) == {0: ran}


def test_the_store_is_memory_and_files():
    operators = [
        {"memoryUsedBytes": 5, "customMetrics": {"rocksdbSstFileSize": 6}},
        {"memoryUsedBytes": 7, "customMetrics": {}},
    ]
    assert store_bytes({"stateOperators": operators}) == 18


def test_cpu_seconds_are_those_of_all_processes():
    before = tree_cpu_seconds()
    if before is None:
        pytest.skip("this system does not tell")
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert (cpu_seconds_since(before) or 0) >= 0.15
    assert cpu_seconds_since(None) is None


def test_batches_that_end_between_two_looks_share_a_mark():
    marks = CpuMarks()
    marks.mark(2)
    marks.mark(1)
    assert marks.seconds_of(2) is None
    assert marks.seconds_of(1) in (0, None)


def test_throughput_by_cpu_needs_the_seconds_of_every_batch():
    batches = [BatchMeasure(10, 9.0, cpu_seconds=2.0), BatchMeasure(30, 9.0, cpu_seconds=3.0)]
    assert throughput_by_cpu(batches) == 8
    assert throughput_by_cpu([*batches, BatchMeasure(10, 9.0)]) is None


def test_processes_that_end_do_not_take_back_what_they_spent(monkeypatch):
    told = iter([10.0, 14.0, 11.0, 12.0])
    monkeypatch.setattr("sash.lab.bench.cpu_time.tree_cpu_seconds", lambda: next(told))
    marks = CpuMarks()
    marks.mark(1)
    marks.mark(2)
    assert (marks.seconds_of(0), marks.seconds_of(1)) == (4, 0)
    assert marks.seconds() == 5
