"""Runs of scripts whose tables change while they run: every row meets the version that its batch has recorded."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psycopg
import pyarrow as pa
import pytest

from sash.embedded.run_to_end import run_files
from sash.errors import PlanError, SashError, SourceError
from sash.io.delta import DeltaSource
from sash.io.manifest import MARK
from sash.io.postgres_history import set_up_history
from sash.io.postgres_versions import HistorySource
from sash.io.sink import read_sink
from sash.io.table_version import VERSION, TableVersion
from sash.io.tables import declared_table
from sash.operators.changing_relation import ChangingRelation
from sash.plan.explain.tree import explain_plan
from sash.plan.physical import Plan
from sash.plan.query_plan import LOOKUP_METHODS
from sash.runtime.arrival_tables import ArrivalTables
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script
from sash.runtime.table_versions import version_of
from support.commands import run_command
from support.postgres_server import Server

N_BATCHES = 5
SCRIPT = """
CREATE STREAM s (k INT, n INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 's' FORMAT csv;
CREATE TABLE prices (k INT, price INT{more}) FROM '{place}' FORMAT {format}{options};
CREATE QUERY q AS
  SELECT S.n, P.k, P.price FROM s S [RANGE 1 MINUTE]
  LEFT JOIN prices FOR SYSTEM_TIME AS OF {of} P ON P.k = S.k
  INTO '{out}' FORMAT csv;
"""


def script(place: str, format: str, options: str = "", out: str = "out", of: str = "ARRIVAL", more: str = "") -> str:
    return SCRIPT.format(place=place, format=format, options=options, out=out, of=of, more=more)


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stream of some files, each of which is a batch."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    Path("s").mkdir()
    for batch in range(N_BATCHES):
        rows = "".join(f"{k},{10 * batch + k},2026-01-01 12:00:{batch:02}\n" for k in range(3))
        path = Path(f"s/{batch}.csv")
        path.write_text(f"k,n,ts\n{rows}")
        os.utime(path, (1_000_000 + batch, 1_000_000 + batch))


@pytest.fixture
def prices(postgres: Server) -> Server:
    """A server with a table `prices` that has a history."""
    postgres.execute(
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "CREATE TABLE prices (k integer PRIMARY KEY, price integer)",
        "INSERT INTO prices VALUES (0, 0), (1, 0)",
    )
    set_up_history(postgres.address(), "prices")
    return postgres


@contextmanager
def busy_writer(server: Server) -> Iterator[None]:
    """Somebody who writes as fast as can be."""
    is_over = threading.Event()

    def write() -> None:
        with psycopg.connect(server.address(), autocommit=True) as connection:
            while not is_over.is_set():
                connection.execute("UPDATE prices SET price = price + 1 WHERE k = 0")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def at_polls(monkeypatch: pytest.MonkeyPatch, kind: type, act: Callable[[int], None]) -> None:
    """Does something before the n-th time that a table is asked for its version."""
    poll, n_polled = kind.poll, []

    def counted(self, name: str, *others) -> TableVersion:
        act(len(n_polled))
        n_polled.append(name)
        return poll(self, name, *others)

    monkeypatch.setattr(kind, "poll", counted)


def run_of(text: str) -> QueryRun:
    (run,) = bind_script(text).runs()
    return run


def lines_of(run: QueryRun) -> dict[int, dict]:
    """By batch, what the manifest says."""
    lines = map(json.loads, Path(run.sink.path, MARK).read_text().splitlines()[1:])
    return {line["batch"]: line for line in lines}


def versions_met(run: QueryRun) -> dict[int, str]:
    """By batch; as files come one by one, the rows of file b came in batch b."""
    return {batch: line["tables"]["prices"] for batch, line in lines_of(run).items()}


def check_rows(run: QueryRun, read: Callable[[str], pa.Table], n_batches: int = N_BATCHES) -> None:
    """The answer is every row joined with the version that its batch has met."""
    versions, expected = versions_met(run), Counter()
    for batch in range(n_batches):
        rows = read(versions[batch]).to_pylist()
        for k in range(3):
            partners = [row for row in rows if row["k"] == k] or [{"k": None, "price": None}]
            expected.update((10 * batch + k, row["k"], row["price"]) for row in partners)
    found = read_sink(run.sink, run.plan.schema).to_pylist()
    assert Counter((row["n"], row["k"], row["price"]) for row in found) == expected


def history(server: Server) -> Callable[[str], pa.Table]:
    schema = pa.schema([("k", pa.int32()), ("price", pa.int32())])

    def read(version: str) -> pa.Table:
        options = {"table": "prices", "history": "yes", "horizon": version.removeprefix("horizon ")}
        return declared_table(server.address(), "postgresql", schema, tuple(options.items())).read("prices")

    return read


OPTIONS = " OPTIONS (table 'prices', history 'yes')"


def test_postgresql_in_this_process(prices, monkeypatch):
    """Beside a busy writer, and a transaction that is open over two batches: it is seen in one version, whole."""
    with psycopg.connect(prices.address()) as held, busy_writer(prices):

        def act(n_polled: int) -> None:
            if n_polled == 1:
                held.execute("UPDATE prices SET price = 777 WHERE k = 1")
                held.execute("INSERT INTO prices VALUES (2, 777)")
            if n_polled == 3:
                held.commit()

        at_polls(monkeypatch, HistorySource, act)
        run = run_of(script(prices.address(), "postgresql", OPTIONS))
        run_files(Job.alone(run), lambda name, tally: None)
    check_rows(run, history(prices))
    found = {row["n"]: row["price"] for row in read_sink(run.sink, run.plan.schema).to_pylist()}
    assert [found[10 * batch + 1] for batch in range(N_BATCHES)] == [0, 0, 0, 777, 777]
    assert [found[10 * batch + 2] for batch in range(N_BATCHES)] == [None, None, None, 777, 777]
    assert len(set(versions_met(run).values())) > N_BATCHES


def test_a_run_on_spark_meets_what_it_recorded_again(prices, spark, monkeypatch):
    """It dies between the record of a version and the commit of its batch, and the table changes before it goes on."""
    from sash.spark.spark_run import RunningQuery, run_on_spark

    publish = RunningQuery._publish_answers

    def die(self: RunningQuery, answers: list, batch_id: int, versions: dict) -> None:
        if batch_id == 1:
            raise RuntimeError("killed")
        publish(self, answers, batch_id, versions)

    for batch in range(3, N_BATCHES):
        Path(f"s/{batch}.csv").unlink()
    text = script(prices.address(), "postgresql", OPTIONS)
    with psycopg.connect(prices.address()) as held:
        held.execute("INSERT INTO prices VALUES (2, 5)")
        at_polls(monkeypatch, HistorySource, lambda n_polled: prices.execute("UPDATE prices SET price = price + 1"))
        monkeypatch.setattr(RunningQuery, "_publish_answers", die)
        with pytest.raises(SashError):
            run_on_spark([Job.alone(run_of(text))], spark, lambda name, tally: None, files_per_batch=1)
        monkeypatch.setattr(RunningQuery, "_publish_answers", publish)
        run = run_of(text)
        record = json.loads(Path(Job.alone(run).checkpoint, "tables/1.json").read_text())
        held.commit()
        run_on_spark([Job.alone(run)], spark, lambda name, tally: None, files_per_batch=1)
    check_rows(run, history(prices), n_batches=3)
    assert versions_met(run)[1] == record["tables"]["prices"]["version"]
    found = {row["n"]: row["price"] for row in read_sink(run.sink, run.plan.schema).to_pylist()}
    assert [found[10 * batch + 1] for batch in range(3)] == [1, 2, 3]
    assert [found[10 * batch + 2] for batch in range(3)] == [None, None, 6]


def write_delta(rows: list[tuple[int, int]], mode: Literal["append", "overwrite"] = "overwrite") -> None:
    from deltalake import write_deltalake

    table = pa.table({"k": [k for k, _ in rows], "price": [price for _, price in rows]})
    write_deltalake("prices", table, mode=mode)


def read_delta(version: str) -> pa.Table:
    schema = pa.schema([("k", pa.int32()), ("price", pa.int32())])
    return DeltaSource("prices", schema, int(version.removeprefix("version "))).read("prices")


def test_delta_in_this_process(monkeypatch):
    write_delta([(0, 1), (1, 1), (1, 2)])
    changes = {1: [(1, 2), (1, 2)], 3: [], 4: [(0, 9)]}
    at_polls(monkeypatch, DeltaSource, lambda n_polled: write_delta(changes[n_polled]) if n_polled in changes else None)
    run = run_of(script("prices", "delta"))
    run_files(Job.alone(run), lambda name, tally: None)
    check_rows(run, read_delta)
    assert list(versions_met(run).values()) == [f"version {number}" for number in (0, 1, 1, 2, 3, 3)]


def watch_versions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int, int]]:
    """Of each version that changes a relation in a file: whether it was told as a difference, how many segments it has
    written, and how many there are.
    """
    seen, meet = [], ChangingRelation.meet

    def watched(self, gone, came, step) -> int:
        n_written = meet(self, gone, came, step)
        seen.append((gone is not None, n_written, len(self.open().file)))
        return n_written

    monkeypatch.setattr(ChangingRelation, "meet", watched)
    return seen


@pytest.mark.parametrize("hint", ["", "/*+ partitioned_hash */ "])
def test_postgresql_beyond_memory(hint, prices, monkeypatch):
    """Only the difference between two versions is read, and written to the segments that it is of."""
    prices.execute("INSERT INTO prices SELECT n, n FROM generate_series(3, 5000) AS n")
    changes = [
        "UPDATE prices SET price = 7 WHERE k < 2",
        "DELETE FROM prices WHERE k = 1; INSERT INTO prices VALUES (2, 2)",
        "TRUNCATE prices; INSERT INTO prices VALUES (1, 9)",
    ]
    acts = dict(enumerate([None, *changes]))
    at_polls(monkeypatch, HistorySource, lambda n: prices.execute(acts[n]) if acts.get(n) else None)
    seen = watch_versions(monkeypatch)
    run = run_of(script(prices.address(), "postgresql", OPTIONS).replace("SELECT S.n", f"SELECT {hint}S.n"))
    tallies = run_files(Job.alone(run), lambda name, tally: None, memory="64k")
    check_rows(run, history(prices))
    assert [is_told for is_told, _, _ in seen] == [True] * 3
    assert seen[0][2] > 30
    assert all(n_written <= 2 for _, n_written, _ in seen[:2])
    assert not tallies["q"].notes


def test_delta_beyond_memory(monkeypatch):
    """It is read whole, and compared; one key becomes so frequent that its segment cannot be split, which is said."""
    many = [(k, k) for k in range(3, 5000)]
    write_delta([(0, 1), (1, 1), *many])
    changes = {1: [(0, 1), (1, 2), *many], 2: [(0, 1), *many, *((2, n) for n in range(800))], 3: [(0, 5)]}
    at_polls(monkeypatch, DeltaSource, lambda n_polled: write_delta(changes[n_polled]) if n_polled in changes else None)
    seen = watch_versions(monkeypatch)
    run = run_of(script("prices", "delta"))
    tallies = run_files(Job.alone(run), lambda name, tally: None, memory="64k")
    check_rows(run, read_delta)
    assert [is_told for is_told, _, _ in seen] == [False] * 3
    assert seen[0][1] == 1
    (note,) = tallies["q"].notes
    assert note.startswith("table `prices`: a key has so many rows that its segment is more than twice as large")


def test_as_of_a_time_over_a_history(prices):
    """What was valid at the time of each row, of all that the history knows."""
    prices.execute("UPDATE prices SET price = 5 WHERE k = 1", "DELETE FROM prices WHERE k = 0")
    more = ", sash_from TIMESTAMPTZ, sash_to TIMESTAMPTZ) VALID FROM sash_from TO sash_to FROM '{place}' FORMAT"
    text = script(prices.address(), "postgresql", OPTIONS, of="S.ts", more=", x INT").replace(
        ", x INT) FROM", more.split(" FROM '")[0] + " FROM"
    )
    times = {
        row["price"]: row["sash_from"] for row in bind_script(text).relations()["prices"].to_pylist() if row["k"] == 1
    }
    ends = {row["k"]: row["sash_to"] for row in bind_script(text).relations()["prices"].to_pylist() if row["k"] == 0}
    assert times[0] < times[5]
    rows = [(0, 1, times[0]), (1, 2, times[0]), (1, 3, times[5]), (0, 4, ends[0])]
    for path in Path("s").iterdir():
        path.unlink()
    ordered = sorted(rows, key=lambda row: row[2])
    Path("s/9.csv").write_text("k,n,ts\n" + "".join(f"{k},{n},{ts:%Y-%m-%d %H:%M:%S.%f}\n" for k, n, ts in ordered))
    run = run_of(text)
    run_files(Job.alone(run), lambda name, tally: None)
    found = {row["n"]: row["price"] for row in read_sink(run.sink, run.plan.schema).to_pylist()}
    begun = {k: next(row for row in bind_script(text).relations()["prices"].to_pylist() if row["k"] == k) for k in (0,)}
    assert found == {1: 0 if begun[0]["sash_from"] <= times[0] else None, 2: 0, 3: 5, 4: None}


def test_a_fixed_history_goes_on_at_its_horizon(prices):
    text = script(prices.address(), "postgresql", OPTIONS).replace("FOR SYSTEM_TIME AS OF ARRIVAL ", "")
    before = run_of(text).relations["prices"]
    prices.execute("DELETE FROM prices")
    horizon = (before.schema.metadata or {})[VERSION].decode().removeprefix("horizon ")
    again = run_of(text.replace("history 'yes'", f"history 'yes', horizon '{horizon}'")).relations["prices"]
    assert version_of(again) == version_of(before)


class TestRefused:
    @pytest.mark.parametrize(
        ("format", "place", "options", "reason"),
        [
            ("csv", "prices.csv", "", "files have no versions; keep it as a Delta table, or in PostgreSQL"),
            ("delta", "prices", " OPTIONS (version '3')", "with version 3 alone; leave the option `version` out"),
            (
                "postgresql",
                "postgresql://u@h/d",
                " OPTIONS (table 'prices')",
                r"`sash relation history 'postgresql://u@h/d' 'prices'`, and add history 'yes' to its options",
            ),
            (
                "postgresql",
                "postgresql://u@h/d",
                " OPTIONS (table 'prices', history 'yes', horizon '1:2:')",
                "with one horizon alone; leave the option `horizon` out",
            ),
        ],
    )
    def test_tables_without_versions(self, format, place, options, reason):
        with pytest.raises(PlanError, match=f"`prices` cannot be read as of arrival: .*{reason}"):
            bind_script(script(place, format, options))

    def test_a_server_that_is_gone_when_a_batch_begins(self, prices, monkeypatch):
        def act(n_polled: int) -> None:
            if n_polled == 2:
                prices.execute("ALTER TABLE prices RENAME price TO cost", "UPDATE prices SET cost = 9")

        at_polls(monkeypatch, HistorySource, act)
        with pytest.raises(SourceError, match=r"table `prices`: `prices` in .* has no column `price`; there is `cost`"):
            run_files(Job.alone(run_of(script(prices.address(), "postgresql", OPTIONS))), lambda name, tally: None)

    def test_a_delta_version_that_is_vacuumed_before_it_is_read(self, monkeypatch):
        write_delta([(0, 1)])

        def act(n_polled: int) -> None:
            if n_polled == 1:
                write_delta([(0, 2)])
                for path in Path("prices").glob("*.parquet"):
                    path.unlink()

        at_polls(monkeypatch, DeltaSource, act)
        with pytest.raises(SourceError, match=r"version 1 of `prices` can no longer be read, as .* is gone"):
            run_files(Job.alone(run_of(script("prices", "delta"))), lambda name, tally: None)


class TestKeptVersions:
    def plan(self, text: str) -> Plan:
        return Plan.alone(run_of(text).plan)

    def test_what_no_tuple_can_ask_for_is_forgotten(self):
        """Tuples of a window that counts rows may be taken back at any time, others when they leave at the latest."""
        write_delta([(0, 0)])
        for window, n_kept in (("[RANGE 1 MINUTE]", 2), ("[ROWS 2]", 4)):
            run = run_of(script("prices", "delta").replace("[RANGE 1 MINUTE]", window))
            tables = ArrivalTables(run.arrivals, Plan.alone(run.plan), is_in_order=True)
            for batch in range(4):
                write_delta([(0, batch)])
                tables.enter(batch)
                tables.leave(batch, clock_us=100 * batch, newest_us=100 * batch)
            assert tables.rows["prices"].num_rows == n_kept

    def test_explain_says_it(self, monkeypatch, capsys):
        Path("script.sql").write_text(script("prices", "delta"))
        assert run_command(monkeypatch, "explain", "script.sql") == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "LookupJoin S.k = P.k and as of the arrival of S" in said
        verbose = " ".join(explain_plan(bind_script(script("prices", "delta")).plans["q"], verbose=True).split())
        assert "as of arrival: the version that the batch of a tuple has met, which is recorded before" in verbose
        assert "_arrival" not in verbose
        assert "_seen" not in verbose

    def test_explain_says_how_it_is_looked_up(self, monkeypatch, capsys):
        write_delta([(k, k) for k in range(5000)])
        for hint, methods in (("", LOOKUP_METHODS), ("/*+ partitioned_hash */ ", ["partitioned_hash"])):
            Path("script.sql").write_text(script("prices", "delta").replace("SELECT S.n", f"SELECT {hint}S.n"))
            assert run_command(monkeypatch, "explain", "--verbose", "--memory", "64k", "script.sql") == 0
            said = " ".join(capsys.readouterr().out.split())
            why = "hint" if hint else "cost"
            assert any(f"algorithm {LOOKUP_METHODS[each]}, by {why}" in said for each in methods)
            assert any(f"chosen {each}, by {why}; steps of 10,000 tuples" in said for each in methods)
            assert "which does not fit the 8 KiB for a relation" in said
            assert "may still ask for, in a file, in order of keys; a new version writes the segments whose" in said
            assert ("hint on Spark without effect: a table as of arrival is in the memory" in said) == bool(hint)

    @pytest.mark.slow
    def test_other_commands_read_it_once(self, monkeypatch, capsys):
        write_delta([(0, 1)])
        Path("script.sql").write_text(script("prices", "delta"))
        assert run_command(monkeypatch, "verify", "script.sql") == 0
        assert run_command(monkeypatch, "explain", "--analyze", "script.sql") == 0
        capsys.readouterr()
