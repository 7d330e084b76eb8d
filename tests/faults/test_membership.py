"""Queries that share a join, and so a checkpoint: each output takes part from some batch on, and may be dropped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.faults.fake_spark import FakeSpark

from sash.errors import SourceError
from sash.plan.sharing.who_shares import decide_sharing
from sash.runtime.job import Job, new_identity
from sash.runtime.jobs import group_runs, started_below
from sash.runtime.script import bind_script
from sash.spark.surplus_removal import find_repairs, make

STREAMS = """CREATE STREAM a (v INT, k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM '{root}/in' FORMAT csv;
CREATE STREAM b (v INT, k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM '{root}/in' FORMAT csv;
"""
QUERY = """CREATE QUERY {name} AS SELECT A.v FROM a A, b B WHERE A.k = B.k WINDOW {seconds} SECONDS
  INTO '{root}/{name}' FORMAT parquet;
"""


class Shared:
    """Runs queries of one join, of which there may be others each time."""

    def __init__(self, root: Path):
        self.root = root
        (root / "in").mkdir()
        self._n_files = 0

    def shared(self, **seconds: int) -> Job:
        queries = [QUERY.format(name=name, seconds=each, root=self.root) for name, each in seconds.items()]
        script, joins = bind_script(STREAMS.format(root=self.root) + "".join(queries)), str(self.root / "joins")
        sharing = decide_sharing(script.plans, started=started_below(joins))
        (found,) = group_runs(script.runs(), sharing, joins).all
        return replace(found, members=tuple(replace(each, identity=new_identity()) for each in found.members))

    def run(self, n_files: int = 1, die_before_commit: bool = False, **seconds: int) -> None:
        for _ in range(n_files):
            (self.root / "in" / f"{self._n_files:03d}").write_text(str(self._n_files))
            self._n_files += 1
        FakeSpark(self.shared(**seconds), self.root / "in").run(1 if die_before_commit else None, die_before_commit)

    def answer(self, name: str) -> list[int]:
        return sorted(v for path in self.root.glob(f"{name}/*/*") for v in pq.read_table(path)["v"].to_pylist())

    def keep(self, name: str) -> None:
        shutil.copytree(self.root / name, self.root / "backups" / name)

    def restore(self, name: str) -> None:
        shutil.rmtree(self.root / name)
        shutil.copytree(self.root / "backups" / name, self.root / name)


def test_a_mark_is_never_written_over_that_of_another_run(tmp_path):
    """As when two runs begin at once on a file system that cannot be locked."""
    (tmp_path / "in").mkdir()
    ledgers = [
        bind_script(STREAMS.format(root=tmp_path) + QUERY.format(name="q", seconds=5, root=tmp_path))
        .runs()[0]
        .open_ledger()
        for _ in range(2)
    ]
    ledgers[0].publish(0, {})
    with pytest.raises(SourceError, match="q/_sash` is there already: another run has begun to write there"):
        ledgers[1].publish(0, {})
    ledgers[0].publish(1, {})
    assert list(ledgers[0].manifest.lines) == [0, 1]


@pytest.fixture
def shared(tmp_path, monkeypatch) -> Shared:
    monkeypatch.chdir(tmp_path)
    return Shared(tmp_path)


def test_queries_come_and_go(shared):
    shared.run(2, p=5, q=5)
    shared.run(2, p=5)
    shared.run(1, p=5, q=5, r=9)
    shared.run(1, p=5, r=9)
    shared.run(1, p=5, q=5)
    assert shared.answer("p") == [0, 1, 2, 3, 4, 5, 6]
    assert shared.answer("q") == [0, 1, 4, 6]
    assert shared.answer("r") == [4, 5]


def test_one_that_is_dropped_in_the_middle_of_a_batch_may_return(shared):
    """It had published the batch, which then ran again without it."""
    shared.run(1, p=5, q=5)
    shared.run(1, die_before_commit=True, p=5, q=5, r=9)
    shared.run(1, p=5)
    shared.run(1, p=5, q=5, r=9)
    assert shared.answer("p") == [0, 1, 2, 3]
    assert shared.answer("q") == [0, 1, 3]
    assert shared.answer("r") == [1, 3]


def test_an_older_output_of_one_that_returns_is_refused(shared):
    shared.run(1, p=5, q=5)
    shared.keep("q")
    shared.run(1, p=5, q=5)
    shared.run(1, p=5)
    shared.restore("q")
    with pytest.raises(SourceError, match="q lacks batch 1, which its checkpoint has answered"):
        shared.run(1, p=5, q=5)


def test_an_output_that_is_gone_is_refused(shared):
    shared.run(2, p=5, q=5)
    shutil.rmtree(shared.root / "q")
    with pytest.raises(SourceError, match="q lacks batches 0 to 1"):
        shared.run(1, p=5, q=5)
    shared.run(1, p=5)
    with pytest.raises(SourceError, match="q lacks batches 0 to 1"):
        shared.run(1, p=5, q=5)


def test_an_older_checkpoint_is_repaired_for_all(shared):
    shared.run(2, p=5, q=5)
    shared.keep("joins")
    shared.run(2, p=5, q=5)
    shared.restore("joins")
    with pytest.raises(SourceError, match="p has batches 2 to 3"):
        shared.run(0, p=5, q=5)
    (repair,) = find_repairs([shared.shared(p=5, q=5)])
    assert len(repair.summary) == 2
    make(repair)
    shared.run(1, p=5, q=5)
    assert shared.answer("p") == shared.answer("q") == [0, 1, 2, 3, 4]


def test_a_changed_query_does_not_go_on_in_its_directory(shared):
    shared.run(1, p=5, q=5)
    with pytest.raises(SourceError) as refused:
        shared.run(1, p=5, q=6)
    assert "`q` cannot write to q: that is where an earlier query of this name wrote" in str(refused.value)
    assert "WINDOW 5 SECONDS\n  now:" in str(refused.value)


def test_the_same_query_does_not_go_on_in_another_directory(shared):
    """Its answer would begin in the middle."""
    shared.run(2, p=5, q=5)
    shared.keep("q")
    (shared.root / "q").rename(shared.root / "old")
    with pytest.raises(SourceError, match="q lacks batches 0 to 1"):
        shared.run(1, p=5, q=5)
    (shared.root / "old").rename(shared.root / "q")
    shared.run(0, p=5, q=5)
    assert shared.answer("q") == [0, 1, 2]
