"""What is too large to travel with tasks is in files, which workers map."""

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

from sash.errors import ResourceError, SourceError
from sash.spark import mapped_object
from sash.spark.mapped_object import MOST_BYTES, MappedObject, map_if_large, remove_other_objects
from sash.spark.portable import portable_stage

TABLE = pa.table({"k": np.arange(100_000), "name": [f"name {n}" for n in range(100_000)]})


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_object, "_kept", type(mapped_object._kept)())


def mapped(thing: Any, directory: Path) -> MappedObject:
    found = map_if_large(thing, directory)
    assert found is not None
    return found


def test_what_is_small_travels_with_tasks(tmp_path: Path) -> None:
    assert map_if_large({"table": TABLE.schema.empty_table(), "name": "small"}, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    stage = portable_stage(cast(StatefulProcessor, SimpleNamespace(name="small")))
    assert pickle.loads(cloudpickle.dumps(stage)).name == "small"


def test_columns_of_tables_are_mapped(tmp_path: Path) -> None:
    place = mapped({"r": TABLE}, tmp_path)
    assert len(cloudpickle.dumps(place)) < 1000
    assert MOST_BYTES < TABLE.nbytes < Path(place.path).stat().st_size
    before = pa.total_allocated_bytes()
    found = place.load()
    assert found == {"r": TABLE}
    assert pa.total_allocated_bytes() - before < TABLE.nbytes // 10


def test_equal_objects_are_one_file(tmp_path: Path) -> None:
    assert mapped({"r": TABLE}, tmp_path) == mapped({"r": TABLE}, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_whatever_is_in_it_is_as_it_was(tmp_path: Path) -> None:
    """Also if buffers are of no length, or of odd ones."""
    text = "x" * MOST_BYTES
    for content in (
        {"text": text},
        {"text": text, "table": TABLE.schema.empty_table()},
        {"a": TABLE, "b": TABLE.slice(7, 9), "c": np.arange(5, dtype=np.int8), "d": np.arange(3.0)},
    ):
        found = mapped(content, tmp_path).load()
        assert found.keys() == content.keys()
        for name, value in content.items():
            assert np.array_equal(found[name], value) if isinstance(value, np.ndarray) else found[name] == value


def test_a_worker_loads_a_stage_once(tmp_path: Path) -> None:
    place = mapped(SimpleNamespace(table=TABLE), tmp_path)
    sent = cloudpickle.dumps(portable_stage(cast(StatefulProcessor, place)))
    first = pickle.loads(sent)
    assert first.table == TABLE
    assert pickle.loads(sent) is first
    assert place.load() is not first


def test_a_worker_keeps_what_it_used_last(tmp_path: Path) -> None:
    text = "x" * MOST_BYTES
    places = [mapped({"number": number, "text": text}, tmp_path) for number in range(mapped_object.OBJECTS_KEPT + 1)]
    first = places[0].shared()
    for place in places[1:-1]:
        place.shared()
    assert places[0].shared() is first
    places[-1].shared()
    assert places[0].shared() is first
    assert places[1].digest not in mapped_object._kept


@pytest.mark.parametrize("what", ["damaged", "cut", "empty", "gone"])
def test_a_file_that_is_not_as_it_was_written_is_refused(what: str, tmp_path: Path) -> None:
    place = mapped({"table": TABLE}, tmp_path)
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
        place.load()


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ResourceError, match="disk"):
        map_if_large({"table": TABLE}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_earlier_runs_have_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "other.segments").touch()
    old, new = (mapped({"edition": edition, "table": TABLE}, tmp_path) for edition in (1, 2))
    remove_other_objects(tmp_path, [new])
    assert {path.name for path in tmp_path.iterdir()} == {Path(new.path).name, "other.segments"}
    assert old != new
