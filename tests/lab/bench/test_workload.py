"""The generator of join workloads: what a benchmark may rely on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.errors import PlanError
from sash.lab.workloads.join_streams import FILES_PER_BATCH, JoinWorkload, generate_stream, write_workload

SECOND = 1_000_000


def rows_of(workload: JoinWorkload, stream: str = "a") -> pa.Table:
    return pa.concat_tables(generate_stream(workload, stream))


def test_the_same_seed_gives_the_same_rows_and_streams_differ():
    workload = JoinWorkload(2000, SECOND, payload="wide", batch_rows=400)
    assert rows_of(workload).equals(rows_of(workload))
    assert not rows_of(workload).equals(rows_of(workload, "b"))
    other = JoinWorkload(2000, SECOND, payload="wide", batch_rows=400, seed=2)
    assert not rows_of(workload).equals(rows_of(other))


@pytest.mark.parametrize("rate", [3, 50_000, 999_983, 1_000_000])
def test_times_increase_strictly_and_keep_the_rate(rate):
    times = rows_of(JoinWorkload(20_000, SECOND, rate, batch_rows=4000))["ts"].cast(pa.int64()).to_numpy()
    assert np.diff(times).min() >= 1
    assert times[-1] - times[0] == pytest.approx(len(times) / rate * SECOND, rel=0.01)


def test_there_are_as_many_streams_as_asked_for():
    three = JoinWorkload(900, SECOND, batch_rows=60, n_streams=3)
    assert three.names == ("a", "b", "c")
    assert [stream.name for stream in three.streams] == list(three.names)
    assert three.n_rows == 300
    assert rows_of(three, "b")["k"].num_chunks == 30
    assert len({tuple(rows_of(three, name)["k"].to_pylist()) for name in three.names}) == 3
    assert three.batches == [60] * 15
    assert three.question.endswith("FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW 1000000 MICROSECONDS")


def test_there_are_as_many_keys_as_asked_for_or_as_rows_in_a_window():
    keys = rows_of(JoinWorkload(20_000, SECOND, n_keys=7))["k"].to_numpy()
    assert set(keys) == set(range(7))
    assert JoinWorkload(20_000, 3 * SECOND, rate=1000).keys == 3000
    assert JoinWorkload(20_000, 1, rate=1000).keys == 1


def test_without_skew_keys_are_even_and_with_it_they_follow_zipf():
    n_rows, n_keys = 50_000, 10
    even = np.bincount(rows_of(JoinWorkload(2 * n_rows, SECOND, n_keys=n_keys))["k"].to_numpy(), minlength=n_keys)
    assert even / n_rows == pytest.approx(np.full(n_keys, 1 / n_keys), rel=0.1)
    skewed = np.bincount(rows_of(JoinWorkload(2 * n_rows, SECOND, n_keys=n_keys, skew=1.0))["k"].to_numpy())
    law = 1 / np.arange(1, n_keys + 1)
    assert skewed / n_rows == pytest.approx(law / law.sum(), rel=0.1)


@pytest.mark.parametrize(
    ("payload", "names"), [("none", []), ("wide", ["s1", "s2", "d"]), ("7", ["s1"])], ids=["none", "wide", "width"]
)
def test_the_payload_is_as_wide_as_asked_for(payload, names):
    rows = rows_of(JoinWorkload(200, SECOND, payload=payload))
    assert rows.column_names == ["k", "v", "ts", *names]
    rows.validate(full=True)
    for name in names[:2]:
        texts = rows[name].to_pylist()
        assert {len(text) for text in texts} == {20 if payload == "wide" else 7}
        assert len(set(texts)) == len(texts)
    if "d" in names:
        assert rows.schema.field("d").type == pa.decimal128(18, 2)
        assert len(set(rows["d"].to_pylist())) > 1


def test_files_arrive_in_order_and_make_the_batches(tmp_path):
    workload = JoinWorkload(1010, SECOND, batch_rows=400)
    noted: list[int] = []
    write_workload(workload, tmp_path, noted.append)
    assert workload.batches == [400, 400, 210]
    assert noted[-1] == 1010
    for stream in workload.names:
        files = sorted((tmp_path / stream).iterdir())
        assert len(files) == workload.n_files
        assert files == sorted(files, key=lambda path: path.stat().st_mtime_ns)
        assert len({path.stat().st_mtime_ns for path in files}) == len(files)
        n_rows = [pq.read_metadata(path).num_rows for path in files]
        per_batch = [sum(n_rows[low : low + FILES_PER_BATCH]) for low in range(0, len(files), FILES_PER_BATCH)]
        assert [2 * n for n in per_batch] == workload.batches
        assert pq.read_table(tmp_path / stream)["v"].to_pylist() == list(range(505))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_tuples": 1},
        {"n_streams": 1},
        {"n_streams": 9},
        {"window_us": 0},
        {"rate": 1_000_001},
        {"n_keys": 0},
        {"skew": -1.0},
        {"batch_rows": 3},
        {"payload": "large"},
        {"payload": "0"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_workload_that_cannot_be_made_is_refused(wrong):
    with pytest.raises(PlanError, match="but must be"):
        JoinWorkload(**({"n_tuples": 100, "window_us": SECOND} | wrong))
