"""Law 8 on Spark: queries that share a join get, each in its own sink and exactly once, what they would get alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sash
from sash.embedded.run_to_end import run_files
from sash.errors import PlanError, ResourceError, SourceError
from sash.io.sink import FileSink, read_sink
from sash.runtime.job import Job, QueryRun
from sash.runtime.jobs import decide_script, group_runs
from sash.runtime.run_lock import hold_locks
from sash.runtime.script import bind_script
from sash.spark.spark_run import run_on_spark

START = datetime(2026, 1, 1)
QUERIES = {
    "joined": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS",
    "large": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k AND A.v > 3 WINDOW 12 SECONDS",
    "counted": "SELECT A.v % 3 AS m, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.v % 3 WINDOW 5 SECONDS",
    "all": "SELECT count(*) AS n, max(B.v) FROM a A, b B WHERE A.k = B.k AND B.v > 1 WINDOW 5 SECONDS EMIT CHANGES",
    "apart": "SELECT A.k, count(*) AS n FROM a A GROUP BY A.k WINDOW 5 SECONDS",
}


class Streams:
    """Streams `a` and `b` as directories of Parquet files, of which each call adds one, and sessions over them."""

    def __init__(self, root: Path, spark: SparkSession):
        self.root, self.spark = root, spark
        self.rows: dict[str, list[pa.Table]] = {"a": [], "b": []}
        for name in self.rows:
            (root / name).mkdir()

    def add(self, n_seconds: int = 5) -> None:
        """The next seconds of both streams."""
        for name, tables in self.rows.items():
            low = sum(table.num_rows for table in tables)
            seconds = range(low, low + n_seconds)
            step = 2 if name == "a" else 3
            table = pa.table(
                {
                    "k": [second % step for second in seconds],
                    "v": list(seconds),
                    "ts": pa.array([START + timedelta(seconds=second) for second in seconds], pa.timestamp("us")),
                }
            )
            hidden = self.root / name / f".{len(tables)}.parquet"
            pq.write_table(table, hidden)
            hidden.rename(self.root / name / f"{len(tables)}.parquet")
            tables.append(table)

    def session(self, *names: str, **into: Any) -> sash.Session:
        session = sash.Session()
        for name in self.rows:
            frame = self.spark.readStream.schema("k long, v long, ts timestamp_ntz").parquet(str(self.root / name))
            session.stream(name, frame, time="ts", slack="0 seconds")
        for name in names:
            session.query(name, QUERIES[name], into=into.get(name, self.root / "out" / name))
        return session

    def run(self, session: sash.Session) -> Any:
        return session.run(checkpoint=self.root / "checkpoint")

    def written(self, name: str) -> Counter[str]:
        """What a query has written, each row as often as it is there."""
        schema = self.plan_schema(name)
        return rows_of(read_sink(FileSink(str(self.root / "out" / name), "parquet"), schema))

    def plan_schema(self, name: str) -> pa.Schema:
        return self.alone(name, 1).schema

    def alone(self, name: str, n_files: int | None = None) -> pa.Table:
        """What the query gives alone over the files that are there."""
        streams = {
            each: sash.stream(pa.concat_tables(tables[:n_files]), time="ts", slack="0 seconds")
            for each, tables in self.rows.items()
        }
        return sash.sql(QUERIES[name], **streams)


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())


@pytest.fixture
def streams(tmp_path: Path, spark: SparkSession) -> Iterator[Streams]:
    yield Streams(tmp_path, spark)
    for query in spark.streams.active:
        query.stop()


@contextmanager
def running(streams: Streams, session: sash.Session) -> Iterator[Any]:
    handle = streams.run(session)
    try:
        yield handle
    finally:
        handle.stop()


def test_each_query_of_a_session_gets_what_it_would_get_alone(streams):
    streams.add()
    with running(streams, streams.session(*QUERIES)) as handle:
        for _ in range(2):
            handle.process_all_available()
            streams.add()
        handle.finish()
    assert handle.alone == {"apart": "it joins no two streams"}
    for name in QUERIES:
        assert streams.written(name) == rows_of(streams.alone(name)), name
        assert handle.tallies[name].n_changes == streams.alone(name).num_rows
    assert len(list((streams.root / "checkpoint").glob("*/sash.json"))) == 1


def test_queries_come_and_go_while_others_run_on(streams):
    streams.add()
    session = streams.session("joined", "counted")
    with running(streams, session) as handle:
        handle.process_all_available()
        session.query("all", QUERIES["all"], into=streams.root / "out" / "all")
        session.query("large", QUERIES["large"], into=streams.root / "out" / "large")
        streams.add()
        handle.process_all_available()
        assert session.partial_until_us("joined") is None
        assert session.partial_until_us("large") == microseconds(4 - 5 + 12) - 1, "it cannot know that nothing had left"
        before = streams.written("all")
        session.drop("counted")
        session.pause("all")
        streams.add(20)
        handle.process_all_available()
        assert streams.written("all") == before
        session.resume("all")
        wide = QUERIES["large"].replace("12 SECONDS", "20 SECONDS")
        session.query("wide", wide, into=streams.root / "out" / "wide")
        streams.add(1)
        handle.process_all_available()
        assert session.partial_until_us("wide") == microseconds(29 - 12 + 20) - 1
        assert session.partial_until_us("large") is None, "that was long ago"
        handle.finish()
    for name in ("joined", "large"):
        assert streams.written(name) == rows_of(streams.alone(name)), name
    counted = streams.written("counted")
    assert rows_of(streams.alone("counted", 1)) & counted
    assert counted <= rows_of(streams.alone("counted", 2))
    assert streams.written("all") > before


def microseconds(seconds: int) -> int:
    return round((START - datetime(1970, 1, 1)).total_seconds() + seconds) * 1_000_000


def test_a_function_gets_every_change_once_with_the_number_of_its_batch(streams):
    handed: list[tuple[int, pa.Table]] = []
    streams.add()
    session = streams.session(
        "joined", "counted", joined=lambda frame, number: handed.append((number, frame.toArrow()))
    )
    with running(streams, session) as handle:
        handle.process_all_available()
        streams.add()
        handle.finish()
    numbers = [number for number, _ in handed]
    assert numbers == sorted(set(numbers))
    tables = [table.cast(streams.plan_schema("joined")) for _, table in handed]
    assert rows_of(pa.concat_tables(tables)) == rows_of(streams.alone("joined"))
    assert streams.written("counted") == rows_of(streams.alone("counted"))


def test_a_function_that_fails_is_told_and_gets_its_batch_again(streams):
    streams.add()
    with (
        running(streams, streams.session("joined", "counted", joined=fail)) as handle,
        pytest.raises(ResourceError, match=r"`joined` hands its changes to failed in batch 0: ValueError: no room"),
    ):
        handle.process_all_available()
    handed: list[pa.Table] = []
    again = streams.session("joined", "counted", joined=lambda frame, number: handed.append(frame.toArrow()))
    with running(streams, again) as handle:
        handle.finish()
    tables = [table.cast(streams.plan_schema("joined")) for table in handed]
    assert rows_of(pa.concat_tables(tables)) == rows_of(streams.alone("joined"))
    assert streams.written("counted") == rows_of(streams.alone("counted"))


def fail(frame: Any, number: int) -> None:
    raise ValueError("no room")


def test_a_function_cannot_change_its_session(streams):
    streams.add()
    session = streams.session("counted")
    session.query("joined", QUERIES["joined"], into=lambda frame, number: session.drop("counted"))
    with running(streams, session) as handle, pytest.raises(PlanError, match="cannot change or stop its session"):
        handle.process_all_available()


def test_a_session_that_is_stopped_goes_on_with_other_queries(streams):
    streams.add()
    first = streams.session("joined", "counted")
    with running(streams, first) as handle:
        handle.process_all_available()
        with pytest.raises(PlanError, match="runs already"):
            streams.run(first)
    first.query("large", QUERIES["large"], into=streams.root / "out" / "large")
    assert not streams.spark.streams.active, "a query that is added to a stopped session waits"
    streams.add()
    with running(streams, first) as handle:
        handle.process_all_available()
    streams.add()
    with running(streams, streams.session("joined", "large")) as handle:
        handle.finish()
    for name in ("joined", "large"):
        assert streams.written(name) == rows_of(streams.alone(name)), name


def test_joins_over_the_same_streams_run_side_by_side(streams):
    streams.add()
    session = streams.session("joined", "counted")
    for name in ("one", "two"):
        text = QUERIES["joined"].replace("A.k = B.k", "A.v = B.v")
        session.query(name, text, into=streams.root / "out" / name)
    with running(streams, session) as handle:
        handle.finish()
        assert len(streams.spark.streams.active) == 2
    assert streams.written("joined") == rows_of(streams.alone("joined"))


def test_sinks_that_are_not_a_query_s_own(streams):
    out = streams.root / "out"
    (out / "old" / "batch=0").mkdir(parents=True)
    streams.add()
    session = streams.session("joined", "counted")
    with pytest.raises(PlanError, match=r"`large` cannot write to .*out/joined: `joined` writes to"):
        session.query("large", QUERIES["large"], into=out / "joined", format="csv")
    with running(streams, session) as handle:
        handle.process_all_available()
        for text in (QUERIES["large"], QUERIES["apart"]):
            with pytest.raises(SourceError, match=r"out/old is not an output of Sash: it holds `batch=0`"):
                session.query("large", text, into=out / "old")
        session.drop("counted")
        with pytest.raises(SourceError, match=r"`large` cannot write to .*out/counted: that is where `counted` writes"):
            session.query("large", QUERIES["large"], into=out / "counted")
        with pytest.raises(SourceError, match="out/counted: that is where an earlier query of this name wrote"):
            session.query("counted", QUERIES["large"], into=out / "counted")
        streams.add()
        handle.finish()
    assert streams.written("joined") == rows_of(streams.alone("joined"))
    again = streams.session("joined")
    again.query("large", QUERIES["large"], into=out / "counted")
    with pytest.raises(SourceError, match="that is where `counted` writes"):
        streams.run(again)
    assert not streams.spark.streams.active


def test_directories_that_overlap_are_refused_before_anything_runs(streams, monkeypatch):
    monkeypatch.chdir(streams.root)
    session = streams.session()
    session.query("large", QUERIES["large"])
    for into in ("sash-output/large", "sash-output", "sash-output/large/batch=0", "sash-output/large.checkpoint"):
        with pytest.raises(PlanError, match=r"`joined` cannot write to .*: `large` writes to sash-output/large;"):
            session.query("joined", QUERIES["joined"], into=into)
    for into in ("a", "b/0.parquet/out"):
        with pytest.raises(
            PlanError, match=rf"`joined` cannot write to {into}, as `{into[0]}` is read from {into[0]};"
        ):
            session.query("joined", QUERIES["joined"], into=into)
    for checkpoint in ("sash-output", "sash-output/large", "sash-output/large.late/x"):
        with pytest.raises(PlanError, match=r"`large` cannot write to sash-output/large, as the checkpoint of the"):
            session.run(checkpoint=checkpoint)
    with running(streams, session):
        with pytest.raises(PlanError, match=r"`joined` cannot write to checkpoint/x, as the checkpoint of the session"):
            session.query("joined", QUERIES["joined"], into="checkpoint/x")
        with pytest.raises(PlanError, match="`large` writes to sash-output/large"):
            session.query("joined", QUERIES["joined"], into="sash-output/large")


def test_outputs_are_locked_as_long_as_their_queries_run(streams):
    out = streams.root / "out"
    streams.add()
    first, second = streams.session("joined", "counted"), streams.session("joined")
    with running(streams, first) as handle:
        with pytest.raises(ResourceError, match="out/joined is written to by another run"):
            second.run(checkpoint=streams.root / "another")
        handle.process_all_available()
        first.drop("counted")
        with hold_locks([str(out / "counted"), str(out / "all")]):
            with pytest.raises(ResourceError, match="out/all is written to by another run"):
                first.query("all", QUERIES["all"], into=out / "all")
            handle.finish()
        with pytest.raises(SourceError, match="out/counted: that is where `counted` writes"):
            first.query("large", QUERIES["large"], into=out / "counted")
        with hold_locks([str(out / "counted")]):
            pass
    assert streams.written("joined") == rows_of(streams.alone("joined"))
    with hold_locks([str(out / "joined"), str(streams.root / "checkpoint"), str(streams.root / "another")]):
        pass


def test_a_checkpoint_that_was_made_another_s_is_refused(streams):
    streams.add()
    with running(streams, streams.session("joined", "counted")):
        pass
    (known,) = (streams.root / "checkpoint").glob("*/sash.json")
    known.write_text(json.dumps(json.loads(known.read_text()) | {"plan": "another"}))
    with pytest.raises(SourceError, match=r"sash\.json is damaged: it is not what was written"):
        streams.run(streams.session("joined", "counted", "apart"))
    assert not streams.spark.streams.active


def test_a_query_that_needs_more_stages_than_its_join_was_started_with_runs_alone(streams):
    twice = "SELECT s.n, count(*) AS m FROM ({}) s GROUP BY s.n".format(
        QUERIES["counted"].replace("A.v % 3 AS m", "A.v % 3 AS k")
    )
    streams.add()
    alone = {"twice": "it needs 3 stages, and its join was started with 1"}
    session, checkpoint = streams.session("joined"), streams.root / "checkpoint"
    with running(streams, session) as handle:
        handle.process_all_available()
        session.query("twice", twice, into=streams.root / "out" / "twice")
        assert handle.alone == alone
        assert f"twice runs alone: {alone['twice']}" in session.explain()
        with pytest.raises(PlanError, match="leave `checkpoint` and `stages` out: a session that runs has its own"):
            session.explain(checkpoint=checkpoint)
        streams.add()
        handle.finish()
    assert "once for 2 queries: joined and twice" in session.explain()
    assert "once for 2 queries: joined and twice" in session.explain(checkpoint=streams.root / "another", stages=2)
    assert f"twice runs alone: {alone['twice']}" in session.explain(checkpoint=checkpoint)
    assert "goes on from its checkpoint, with 1 stage" in session.explain(checkpoint=checkpoint)
    frames = {
        name: sash.stream(pa.concat_tables(tables), time="ts", slack="0 seconds")
        for name, tables in streams.rows.items()
    }
    expected = sash.sql(twice, **frames)
    assert rows_of(read_sink(FileSink(str(streams.root / "out" / "twice"), "parquet"), expected.schema)) == rows_of(
        expected
    )
    assert streams.written("joined") == rows_of(streams.alone("joined"))


SCRIPT = """
CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/a' FORMAT csv;
CREATE STREAM b (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/b' FORMAT csv;
CREATE QUERY "joined: n/w #0" AS SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS
  INTO '{root}/{out}/joined' FORMAT parquet;
CREATE QUERY "what's [counted]" AS SELECT A.id % 2 AS m, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.id % 2
  WINDOW 9 SECONDS INTO '{root}/{out}/counted' FORMAT parquet;
"""


@pytest.mark.parametrize("files_per_batch", [1, 100])
def test_a_script_writes_on_spark_what_it_writes_embedded(spark, folder, outputs, files_per_batch):
    """With late rows and rejects, which are in the outputs of every query as if it ran alone; and with odd names."""
    folder.write("a", ["1,x,1", "2,x,3", "nonsense", "4,x,8", "5,y,7", "6,x,2"])
    folder.write("b", ["1,x,2", "2,y,4", "3,x,9"])
    folder.write("a", ["7,x,14", "8,y,13"])
    folder.write("b", ["4,y,12", "5,x,10", "6,x,13"])
    folder.write("a", ["9,x,9", "10,x,12", "11,y,16"])
    alone = bind_script(SCRIPT.format(root=folder.root, out="alone")).runs()
    for each in alone:
        run_files(Job.alone(each), lambda name, tally: None)
    script, root = bind_script(SCRIPT.format(root=folder.root, out="shared")), str(folder.root / "checkpoint")
    runs = script.runs()
    found = group_runs(runs, decide_script(script.plans, root), root)
    assert [len(each.members) for each in found.all if each.plan.trunk] == [2]
    tallies = run_on_spark(found.all, spark, lambda name, tally: None, files_per_batch)
    for one, other in zip(runs, alone, strict=True):
        assert outputs(one) == outputs(other)
        assert [row[0] for row in outputs(one)[1]["a"]] == [6, 9]
        assert rejects(one) == rejects(other) != []
        assert (tallies[one.name].n_late, tallies[one.name].n_rejected) == (2, 1)


def rejects(run: QueryRun) -> list[str]:
    return sorted(
        line for path in Path(run.reject_sink.path).glob("*/*.json") for line in path.read_text().splitlines()
    )
