"""What workers fetch and write, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.io.records import REJECT_SCHEMA
from sash.runtime.job import Job
from sash.runtime.script import read_script
from sash.spark import frame
from sash.spark.output import fetch_rows
from sash.spark.sorting import kept_rejects
from sash.store.codec import encode_table

SCRIPT = """
CREATE STREAM a (k INT, ts TIMESTAMP) TIMESTAMP BY ts AHEAD 1 HOUR FROM 'a' FORMAT csv;
CREATE QUERY q AS SELECT k FROM a WINDOW 1 MINUTE INTO 'out' FORMAT parquet;
"""
NOON_US, NEVER_US = 1_767_268_800_000_000, 253_402_214_400_000_000
KEPT = (3, '{"k": 2, "ts": "9999-12-31 00:00:00"}', NEVER_US, NOON_US)
TOO_FAR = (0, NEVER_US, NOON_US, 1)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("a/1.csv").write_text("k,ts\n1,2026-01-01 12:00:00\n2,9999-12-31 00:00:00\n")
    Path("script.sql").write_text(SCRIPT)
    (run,) = read_script(Path("script.sql")).runs()
    return run


def fetch(run: Any, **facts: Any) -> list[dict]:
    path = str(Path("a/1.csv").absolute())
    late, rejects = fetch_rows(Job.alone(run), "a", {"path": path, "late": [], "too_far": [], "kept": []} | facts)
    assert not late.num_rows
    return rejects.to_pylist()


def test_a_held_row_is_rejected_alike_from_its_file_and_from_what_was_kept(run: Any) -> None:
    (from_file,) = fetch(run, too_far=[TOO_FAR])
    Path("a/1.csv").unlink()
    (from_kept,) = fetch(run, kept=[KEPT])
    assert from_file == from_kept
    assert (from_kept["line"], from_kept["text"]) == KEPT[:2]


def test_a_held_row_of_which_nothing_was_kept_is_counted_also_if_its_file_is_archived(run: Any) -> None:
    Path("a/1.csv").unlink()
    rejects = fetch(run, too_far=[(*TOO_FAR[:3], 1001)])
    assert len(rejects) == 1001
    assert rejects[0]["reason"].endswith("and of what came next; the file is gone, and its text is not known")


def test_rejects_of_frames_are_written_beside_their_late_rows_once_however_often_a_task_runs(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "TaskContext", Context)
    rejects = kept_rejects(run.plan.streams["a"], {"path": "a", "kept": [KEPT]})
    messages = [(0, "rejects", "a", encode_table(rejects)), (0, "rejects", "a", encode_table(rejects))]
    columns = [list(column) for column in zip(*messages, strict=True)]
    batch = pa.record_batch(columns, names=["grp", "kind", "stream", "payload"])
    for _ in range(2):
        assert list(frame._unpack({"a": f"{tmp_path}/late"})(iter([batch]))) == []
    (part,) = (tmp_path / "late.rejects").glob("*/*.parquet")
    found = pq.ParquetFile(part).read()
    assert (found.schema, found.num_rows) == (REJECT_SCHEMA, 2)


class Context:
    """As a task of Spark sees it."""

    @staticmethod
    def get() -> Context:
        return Context()

    def partitionId(self) -> int:
        return 4

    def getLocalProperty(self, name: str) -> str:
        return "7"
