"""Stages with large tables are in files, which every worker reads once."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor

from sash.errors import SourceError
from sash.spark import stage_file
from sash.spark.portable import MOST_BYTES, portable_stage
from sash.spark.stage_file import StagePlace, load_stage, pickled, remove_other_stages, write_stage

TABLE = pa.table({"k": np.arange(100_000), "name": [f"name {n}" for n in range(100_000)]})


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_file, "_loaded", stage_file._loaded.copy())
    stage_file._loaded.clear()


def stage_with(**facts: Any) -> StatefulProcessor:
    return cast(StatefulProcessor, SimpleNamespace(**facts))


def written(directory: Path, stage: Any) -> StagePlace:
    head, buffers = pickled(stage)
    return write_stage(directory, [head, *buffers])


def read(place: StagePlace) -> Any:
    return load_stage(place.path, place.digest, place.lengths)


def test_a_small_stage_travels_with_tasks(tmp_path: Path) -> None:
    processor, place = portable_stage(stage_with(name="small"), tmp_path)
    assert (place, list(tmp_path.iterdir())) == (None, [])
    assert pickle.loads(cloudpickle.dumps(processor)).name == "small"


def test_a_large_stage_is_in_a_file_that_workers_map(tmp_path: Path) -> None:
    processor, place = portable_stage(stage_with(name="large", table=TABLE), tmp_path)
    assert place is not None
    sent = cloudpickle.dumps(processor)
    assert len(sent) < 5000 < MOST_BYTES < Path(place.path).stat().st_size
    before = pa.total_allocated_bytes()
    found = pickle.loads(sent)
    assert found.table == TABLE
    assert pa.total_allocated_bytes() - before < TABLE.nbytes // 10
    assert pickle.loads(sent) is found


def test_whatever_is_in_a_stage_is_as_it_was(tmp_path: Path) -> None:
    """Also if there is nothing to map, and if buffers are of no length."""
    empty = TABLE.schema.empty_table()
    for content in ({}, {"table": empty}, {"a": TABLE, "b": TABLE.slice(7, 9), "c": np.arange(5)}):
        found = read(written(tmp_path, content))
        assert found.keys() == content.keys()
        for name, value in content.items():
            assert np.array_equal(found[name], value) if isinstance(value, np.ndarray) else found[name] == value


def test_a_worker_keeps_the_stages_that_it_used_last(tmp_path: Path) -> None:
    places = [written(tmp_path, {"number": number}) for number in range(stage_file.STAGES_IN_MEMORY + 1)]
    first = read(places[0])
    for place in places[1:-1]:
        read(place)
    assert read(places[0]) is first
    read(places[-1])
    assert read(places[0]) is first
    assert places[1].digest not in stage_file._loaded


@pytest.mark.parametrize("what", ["damaged", "cut", "empty", "gone"])
def test_a_file_that_is_not_as_it_was_written_is_refused(what: str, tmp_path: Path) -> None:
    place = written(tmp_path, {"table": TABLE})
    path = Path(place.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    match what:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(path.read_bytes()[:-1])
        case _:
            path.write_bytes(data)
    message = "is not as it was written in" if what in ("damaged", "cut") else "cannot be read from"
    with pytest.raises(SourceError, match=f"what a query runs {message} `{path}`"):
        read(place)


def test_what_earlier_runs_have_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "other.segments").touch()
    old, new = written(tmp_path, {"edition": 1}), written(tmp_path, {"edition": 2})
    remove_other_stages(tmp_path, [new])
    assert {path.name for path in tmp_path.iterdir()} == {Path(new.path).name, "other.segments"}
    assert old != new
