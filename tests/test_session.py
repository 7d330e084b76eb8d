"""Sessions as their users meet them: queries come, go and rest, and their changes reach directories and functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash.cost.choose_schedule import STEPS_BETWEEN_LOOKS
from sash.embedded import running_job
from sash.errors import SashError
from sash.io.sink import FileSink, read_sink
from sash.testing import stream_of

A = stream_of("""
    ts                  | k | v
    2026-01-01 12:00:00 | 1 | 10
    2026-01-01 12:00:20 | 2 | 20
    2026-01-01 12:01:00 | 1 | 30
    2026-01-01 12:02:00 | 2 | 40
""")
B = stream_of("""
    ts                  | k | w
    2026-01-01 12:00:10 | 1 | 1
    2026-01-01 12:00:30 | 2 | 2
    2026-01-01 12:01:10 | 1 | 3
    2026-01-01 12:02:10 | 2 | 4
""")
STREAMS = {"a": A, "b": B}
JOIN = "SELECT a.k, a.v, b.w FROM a, b WHERE a.k = b.k WINDOW {} SECONDS"
COUNT = "SELECT a.k, COUNT(*) AS n FROM a, b WHERE a.k = b.k AND a.v > 10 GROUP BY a.k WINDOW {} SECONDS"
SMALL, LARGE = JOIN.format(30), JOIN.format(90)


def open_session(**queries: str) -> sash.Session:
    """A session that is fed batch by batch."""
    session = sash.Session()
    for name, rows in STREAMS.items():
        session.stream(name, rows.schema, time="ts")
    for name, text in queries.items():
        session.query(name, text)
    return session


def push(session: sash.Session, first: int, last: int) -> dict[str, list[dict]]:
    """Brings the rows from `first` to before `last` of both streams, one of each at a time; what every query says."""
    said: dict[str, list[dict]] = {}
    for row in range(first, last):
        parts = [session.push(name, rows.slice(row, 1)) for name, rows in STREAMS.items()]
        for part in (*parts, session.advance(time_us(B, row))):
            for query, changes in part.items():
                said.setdefault(query, []).extend(changes.to_pylist())
    return said


def time_us(rows: pa.Table, row: int) -> int:
    return rows.column("ts").cast(pa.int64())[row].as_py()


def read(directory: Path, session: sash.Session, name: str) -> list[dict]:
    schema = session._queries[name].plan.schema
    return read_sink(FileSink(str(directory), "parquet"), schema).to_pylist()


def serving_order(session: sash.Session) -> str:
    trunk = session._running().jobs[0].plan.trunk
    assert trunk is not None
    return trunk.serving_order


def alone(text: str) -> list[dict]:
    return sash.sql(text, a=A, b=B).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n/w", "a:0", "q#0", "too hot", "../x", 'say "hi"', "[bold]", "größer", "q"])
def test_any_name_names_a_query(name: str) -> None:
    """Beside others that share its join, whose names begin or end likewise; from a snapshot too."""
    names = [name, f"{name}:0", f"{name}/0-Project", f"x/{name}"]
    session = open_session(**dict.fromkeys(names[:2], SMALL))
    said = push(session, 0, 2)
    session.query(names[2], COUNT.format(60))
    other = open_session(**dict.fromkeys((*names[:2], names[3]), SMALL))
    other.restore(session.snapshot())
    session.drop(names[1])
    for each in (session, other):
        heard = push(each, 2, 4)
        assert said[name] + heard[name] == alone(SMALL)
    assert f"Query {name}\n" in session.explain()
    assert other.partial_until_us(name) is None


class TestRun:
    @pytest.mark.parametrize("convert", [lambda rows: rows, pa.Table.to_pandas, pl.from_arrow])
    def test_every_query_gets_what_it_gets_alone(self, convert: Callable) -> None:
        session = sash.Session()
        for name, rows in STREAMS.items():
            session.stream(name, convert(rows), time="ts")
        texts = {"small": SMALL, "large": LARGE, "count": COUNT.format(60), "lonely": "SELECT v FROM a WHERE v > 10"}
        for name, text in texts.items():
            session.query(name, text)
        changes = session.run()
        assert {name: rows.to_pylist() for name, rows in changes.items()} == {
            name: alone(text) for name, text in texts.items()
        }
        assert all(isinstance(rows, pa.Table) for rows in changes.values())

    def test_what_is_declared_already_may_be_registered(self) -> None:
        names = sash.relation(pa.table({"k": [1, 2], "name": ["one", "two"]}))
        session = sash.Session()
        session.stream("a", sash.stream(A, slack="0 seconds"))
        session.relation("names", names)
        session.query("q", "SELECT names.name FROM a JOIN names ON a.k = names.k")
        assert [row["name"] for row in session.run()["q"].to_pylist()] == ["one", "two", "one", "two"]

    def test_relations_may_be_joined_above(self) -> None:
        session = sash.Session()
        for name, rows in STREAMS.items():
            session.stream(name, rows, time="ts")
        session.relation("rooms", pd.DataFrame({"k": [1], "room": ["hall"]}))
        text = "SELECT rooms.room, b.w FROM a, b, rooms WHERE a.k = b.k AND rooms.k = a.k WINDOW 30 SECONDS"
        session.query("rooms_of", text)
        assert [row["w"] for row in session.run()["rooms_of"].to_pylist()] == [1, 3]

    def test_a_run_can_be_repeated_but_not_into_the_same_directory(self, tmp_path: Path) -> None:
        session = sash.Session()
        for name, rows in STREAMS.items():
            session.stream(name, rows, time="ts")
        session.query("small", SMALL)
        assert session.run()["small"].equals(session.run()["small"])
        session.query("large", LARGE, into=tmp_path / "large")
        assert read(tmp_path / "large", session, "large") == []
        assert session.run()["large"].to_pylist() == read(tmp_path / "large", session, "large") == alone(LARGE)
        with pytest.raises(SashError) as error:
            session.run()
        assert str(error.value) == (
            f"{tmp_path}/large holds the output of an earlier run that cannot be gone on from; remove it, "
            "or write INTO another directory"
        )


@pytest.mark.parametrize(
    "join",
    ["a.k + 1 = b.k", "a.k = b.k - 1", "CAST(a.k AS VARCHAR) = CAST(b.k AS VARCHAR)", "a.v < 10 * b.w"],
)
def test_any_join_is_shared_and_answers_as_alone(join: str) -> None:
    texts = {
        "small": f"SELECT a.v, b.w FROM a, b WHERE {join} WINDOW 40 SECONDS",
        "large": f"SELECT p.k, q.w FROM b q, a p WHERE {join} AND q.w > 1 WINDOW 2 MINUTES".replace("a.", "p.").replace(
            "b.", "q."
        ),
    }
    session = open_session(**texts)
    assert session.explain().startswith("Shared join")
    assert push(session, 0, 4) == {name: alone(text) for name, text in texts.items()}


def test_a_stream_joined_with_itself_is_shared() -> None:
    texts = {
        name: f"SELECT x.v, y.v AS u FROM a x, a y WHERE x.k = y.k WINDOW {s} SECONDS"
        for name, s in (("p", 70), ("q", 200))
    }
    session = open_session(**texts)
    assert session.explain().startswith("Shared join: a AS left ⋈ a AS right ON left.k = right.k  keeps left ")
    assert push(session, 0, 4) == {name: alone(text) for name, text in texts.items()}


class TestComingAndGoing:
    def test_a_query_that_is_added_begins_with_what_is_in_its_windows(self) -> None:
        session = open_session(large=LARGE)
        push(session, 0, 3)
        session.query("small", JOIN.format(60))
        session.query("count", COUNT.format(60))
        said = push(session, 3, 4)
        assert [(row["v"], row["w"]) for row in said["small"]] == [(20, 2), (30, 3), (40, 4)]
        assert [(row["k"], row["n"], row["_op"]) for row in said["count"]][:2] == [(2, 1, 1), (1, 1, 1)]

    def test_a_dropped_query_says_nothing_and_its_name_is_free(self) -> None:
        session = open_session(small=SMALL, large=LARGE)
        push(session, 0, 2)
        session.drop("small")
        assert set(push(session, 2, 3)) == {"large"}
        session.query("small", COUNT.format(60))
        assert set(push(session, 3, 4)) == {"large", "small"}

    def test_dropping_the_largest_window_frees_what_only_it_held(self) -> None:
        session = open_session(small=JOIN.format(20), large=JOIN.format(600))
        push(session, 0, 4)
        (group,) = session._running().jobs
        before = group.pipeline.n_rows
        session.drop("large")
        session.finish()
        (group,) = session._running().jobs
        assert (before, group.pipeline.n_rows) == (8, 2)

    def test_a_paused_query_says_nothing_and_begins_anew(self) -> None:
        session = open_session(small=SMALL, large=LARGE)
        push(session, 0, 2)
        session.pause("large")
        assert set(push(session, 2, 3)) == {"small"}
        session.resume("large")
        assert session.partial_until_us("large") == time_us(B, 2) - 30_000_000 + 90_000_000
        said = push(session, 3, 4)
        assert said["small"] == [row for row in alone(SMALL) if row["v"] == 40]
        assert (40, 4) in {(row["v"], row["w"]) for row in said["large"]}
        assert session.partial_until_us("large") is None

    def test_a_window_larger_than_all_before_is_partial_until_it_is_full(self) -> None:
        session = open_session(small=JOIN.format(20))
        push(session, 0, 2)
        session.query("large", JOIN.format(60))
        until = session.partial_until_us("large")
        assert until == time_us(B, 1) - 20_000_000 + 60_000_000
        assert session.partial_until_us("small") is None
        assert until is not None
        session.advance(until)
        assert session.partial_until_us("large") is None
        assert session.clock_us("large") == until


class TestDelivery:
    def test_a_directory_and_a_function_get_what_push_returns(self, tmp_path: Path) -> None:
        session, heard = open_session(), []
        session.query("small", SMALL, into=heard.append)
        session.query("large", LARGE, into=tmp_path / "large")
        said = push(session, 0, 4)
        assert [row for table in heard for row in table.to_pylist()] == said["small"] == alone(SMALL)
        assert read(tmp_path / "large", session, "large") == said["large"] == alone(LARGE)

    def test_a_function_may_add_drop_and_pause_and_that_waits_for_the_end_of_the_step(self) -> None:
        session = open_session(large=LARGE)

        def hear(changes: pa.Table) -> None:
            session.query("count", COUNT.format(60))
            with pytest.raises(SashError) as error:
                session.clock_us("count")
            assert str(error.value) == "the query `count` begins when this step is over"
            session.drop("large")
            session.pause("small")

        session.query("small", SMALL, into=hear)
        assert set(push(session, 0, 1)) == {"large", "small", "count"}
        assert set(push(session, 1, 2)) == {"count"}
        assert "so far for count alone" in session.explain()

    def test_a_query_that_is_replaced_in_a_step_is_another_one(self) -> None:
        session = open_session()

        def replace(changes: pa.Table) -> None:
            session.drop("small")
            session.query("small", COUNT.format(60))

        session.query("small", SMALL, into=replace)
        said = push(session, 0, 4)["small"]
        assert [(row["k"], row["n"]) for row in said if row["_op"] == 1][-1] == (2, 1)

    @pytest.mark.parametrize("drive", ["push", "advance", "finish", "snapshot", "restore"])
    def test_a_function_cannot_drive_the_session(self, drive: str) -> None:
        arguments = {"push": ("a", A), "advance": (0,), "restore": (b"",)}.get(drive, ())
        session = open_session()
        session.query("small", SMALL, into=lambda changes: getattr(session, drive)(*arguments))
        with pytest.raises(SashError) as error:
            push(session, 0, 1)
        assert str(error.value) == (
            "a function that is called with changes cannot drive the session, as the step that called it is not over; "
            "do it when that has returned"
        )

    def test_a_function_cannot_run_the_session_that_called_it(self) -> None:
        session = sash.Session()
        for name, rows in STREAMS.items():
            session.stream(name, rows, time="ts")
        session.query("small", SMALL, into=lambda changes: session.run())
        for _ in range(2):
            with pytest.raises(SashError) as error:
                session.run()
            assert str(error.value) == "the session runs already; bring more rows with session.push(stream, rows)"

    def test_a_function_that_fails_does_not_harm_the_others(self) -> None:
        session, heard = open_session(), []

        def fail(changes: pa.Table) -> None:
            raise ValueError("no room")

        session.query("small", SMALL, into=fail)
        session.query("large", LARGE, into=heard.append)
        with pytest.raises(ValueError, match="no room"):
            push(session, 0, 1)
        session.drop("small")
        push(session, 1, 4)
        assert [row for table in heard for row in table.to_pylist()] == alone(LARGE)


class TestSnapshot:
    def test_goes_on_in_its_directories_from_when_it_was_taken(self, tmp_path: Path) -> None:
        session = open_session()
        session.query("large", LARGE, into=tmp_path / "large")
        push(session, 0, 2)
        snapshot = session.snapshot()
        push(session, 2, 4)
        assert read(tmp_path / "large", session, "large") == alone(LARGE)
        other = open_session()
        other.query("large", LARGE, into=tmp_path / "large")
        other.restore(snapshot)
        assert read(tmp_path / "large", other, "large") == alone(LARGE)[:2]
        push(other, 2, 4)
        assert read(tmp_path / "large", other, "large") == alone(LARGE)

    def test_goes_on_with_other_queries(self, tmp_path: Path) -> None:
        session = open_session(large=LARGE)
        session.query("gone", SMALL, into=tmp_path / "gone")
        push(session, 0, 3)
        other = open_session(large=LARGE)
        other.query("new", JOIN.format(60), into=tmp_path / "new")
        other.restore(session.snapshot())
        said = push(other, 3, 4)
        assert said["large"] == alone(LARGE)[-len(said["large"]) :]
        assert [(row["v"], row["w"]) for row in read(tmp_path / "new", other, "new")] == [(20, 2), (30, 3), (40, 4)]
        assert other.partial_until_us("new") is None

    @pytest.mark.parametrize(("name", "text"), [("small", COUNT.format(60)), ("other", SMALL)], ids=["text", "name"])
    def test_does_not_go_on_in_the_directory_of_another_query(self, name: str, text: str, tmp_path: Path) -> None:
        session = open_session()
        session.query("small", SMALL, into=tmp_path / "small")
        push(session, 0, 2)
        snapshot, other = session.snapshot(), open_session()
        other.query(name, text, into=tmp_path / "small")
        with pytest.raises(SashError) as error:
            other.restore(snapshot)
        assert str(error.value) == (
            f"{tmp_path}/small holds the output of an earlier run that cannot be gone on from; remove it, "
            "or write INTO another directory"
        )
        assert len(read(tmp_path / "small", session, "small")) == 2

    def test_needs_the_same_streams(self) -> None:
        other = sash.Session()
        other.stream("a", A.schema, time="ts")
        with pytest.raises(SashError) as error:
            other.restore(open_session(small=SMALL).snapshot())
        assert str(error.value) == "the snapshot has the stream `b`, and this session has not; register it first"


class TestSchedule:
    WINDOWS = (1, 2, 5, 600)

    def hear(self, **more: str) -> tuple[dict[str, list[dict]], set[str]]:
        """What queries with small and large windows heard of bursts, and the schedules that were followed."""
        session, heard, schedules = open_session(), {}, set()
        for window in self.WINDOWS:
            heard[f"q{window}"] = []
            session.query(
                f"q{window}", JOIN.format(window), into=lambda t, n=f"q{window}": heard[n].extend(t.to_pylist())
            )
        for name, text in more.items():
            session.query(name, text)
        for step in range(STEPS_BETWEEN_LOOKS + 2):
            for name in ("a", "b"):
                session.push(name, _burst(name, step))
            schedules.add(serving_order(session))
        return heard, schedules

    @pytest.mark.slow
    @pytest.mark.usefixtures("without_limit")
    def test_bursts_change_it_and_no_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        usual, kept = self.hear()
        monkeypatch.setattr(running_job, "WORTH_PAIRS", 1)
        heard, schedules = self.hear()
        assert kept == {"lwo"}
        assert schedules > {"lwo"}
        assert heard == usual
        assert all(heard.values())

    @pytest.mark.slow
    def test_a_hint_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(running_job, "WORTH_PAIRS", 1)
        hinted = JOIN.format(3).replace("SELECT", "SELECT /*+ lwo */")
        assert self.hear(hinted=hinted)[1] == {"lwo"}

    @pytest.mark.slow
    def test_nobody_gains_who_waits_for_the_end_of_the_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(running_job, "WORTH_PAIRS", 1)
        session = open_session(**{f"q{window}": JOIN.format(window) for window in self.WINDOWS})
        for step in range(STEPS_BETWEEN_LOOKS + 2):
            for name in ("a", "b"):
                session.push(name, _burst(name, step))
        assert serving_order(session) == "lwo"


def _burst(name: str, step: int, n_rows: int = 40) -> pa.Table:
    """Rows that come at once, one in a second."""
    times = pd.date_range("2026-01-01", periods=n_rows, freq="1s") + pd.Timedelta(seconds=step * n_rows)
    value = "v" if name == "a" else "w"
    rows = {"ts": pa.array(times), "k": pa.array([row % 3 for row in range(n_rows)]), value: pa.array(range(n_rows))}
    return pa.table(rows).cast(STREAMS[name].schema)


def _conflict(session: sash.Session) -> None:
    session.query("other", SMALL.replace("SELECT", "SELECT /*+ swf */"))
    session.query("third", SMALL.replace("SELECT", "SELECT /*+ mqt */"))


REFUSED: dict[str, tuple[Callable[[sash.Session], object], str]] = {
    "drop": (lambda session: session.drop("smal"), "there is no query `smal`; did you mean `small`?"),
    "pause": (lambda session: session.pause("smal"), "there is no query `smal`; did you mean `small`?"),
    "resume": (lambda session: session.resume("smal"), "there is no query `smal`; did you mean `small`?"),
    "not paused": (lambda session: session.resume("small"), "the query `small` is not paused"),
    "two of one name": (
        lambda session: session.query("small", LARGE),
        "there is a query `small` already; drop it first, or give this one another name",
    ),
    "bad name": (
        lambda session: session.query(" ", LARGE),
        "a query needs a name by which its changes are known; give it one",
    ),
    "function of another": (
        lambda session: session.query("large", LARGE, into=print),
        "`large` cannot write to this function: that is where `small` writes; choose another",
    ),
    "stream twice": (
        lambda session: session.stream("A", A, time="ts"),
        "there is a stream or relation `A` already; give this one another name",
    ),
    "conflicting hints": (
        _conflict,
        "queries that share a join have one schedule, but `third` asks for Maximum Query Throughput and `other` "
        "asks for Smallest Window First; leave out one of the hints",
    ),
    "unknown stream": (lambda session: session.push("aa", A), "there is no stream `aa`; did you mean `a`?"),
    "checkpoint": (
        lambda session: session.run(checkpoint="here"),
        "`checkpoint` is for Spark streams; in this process, see session.snapshot()",
    ),
    "run of a session that is fed": (
        lambda session: session.push("a", A) and session.run(),
        "the session runs already; bring more rows with session.push(stream, rows)",
    ),
    "no queries": (
        lambda session: sash.Session().run(),
        "the session has no query; register one with session.query(name, text)",
    ),
    "a batch that lacks a column": (
        lambda session: session.push("a", A.drop_columns(["v"])),
        "a batch of `a` lacks the column `v`; it has ts, k",
    ),
}


@pytest.mark.parametrize(("act", "text"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused_and_how(act: Callable[[sash.Session], object], text: str) -> None:
    session = open_session()
    session.query("small", SMALL, into=print)
    with pytest.raises(SashError) as error:
        act(session)
    assert str(error.value) == text


def test_a_paused_query_has_no_clock_and_cannot_be_paused_again() -> None:
    session = open_session(small=SMALL)
    session.pause("small")
    for act, text in {
        session.pause: "the query `small` is paused already",
        session.clock_us: "the query `small` is paused; resume it first",
        session.partial_until_us: "the query `small` is paused; resume it first",
    }.items():
        with pytest.raises(SashError) as error:
            act("small")
        assert str(error.value) == text


def test_a_directory_belongs_to_one_query_whatever_the_format(tmp_path: Path) -> None:
    session = open_session()
    session.query("small", SMALL, into=tmp_path / "out")
    with pytest.raises(SashError) as error:
        session.query("large", LARGE, into=f"{tmp_path}/./out", format="csv")
    assert str(error.value) == (
        f"`large` cannot write to {tmp_path}/out: `small` writes to {tmp_path}/out; give every query a directory of "
        "its own, outside those of others"
    )


def test_what_is_refused_leaves_nothing_behind() -> None:
    session = open_session(small=SMALL.replace("SELECT", "SELECT /*+ swf */"))
    push(session, 0, 2)
    before = session.explain()
    for text in (LARGE.replace("SELECT", "SELECT /*+ mqt */"), "SELECT nothing FROM a, b"):
        with pytest.raises(SashError):
            session.query("large", text)
        assert session.explain() == before
    session.query("large", LARGE)
    assert set(push(session, 2, 4)) == {"small", "large"}


def test_a_paused_query_that_asks_for_another_schedule_stays_paused() -> None:
    session = open_session(small=SMALL.replace("SELECT", "SELECT /*+ swf */"))
    session.pause("small")
    session.query("large", LARGE.replace("SELECT", "SELECT /*+ mqt */"))
    with pytest.raises(SashError, match="queries that share a join have one schedule"):
        session.resume("small")
    assert set(push(session, 0, 1)) == {"large"}
