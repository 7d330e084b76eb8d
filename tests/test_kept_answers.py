"""The answer of a query that runs: asked of the query or of its session, now and as of earlier."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import sash
from sash.errors import PlanError, SourceError
from sash.runtime import kept_changes
from sash.testing import stream_of

ROWS = stream_of("""
    ts | k | v
    1  | a | 1
    3  | b | 2
    4  | a | 3
    8  | b | 4
    9  | a | 5
""")
TEXTS = {
    "a window of time": "SELECT k, v FROM s [RANGE 4 us]",
    "a window of rows": "SELECT k, v FROM s [ROWS 2]",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 3 us] GROUP BY k",
    "one group": "SELECT COUNT(*) AS n FROM s [RANGE 3 us]",
    "all changes": "SELECT k, COUNT(*) AS n FROM s [RANGE 3 us] GROUP BY k EMIT CHANGES",
    "a join": "SELECT a.k, b.v FROM s a, s b WHERE a.k = b.k WINDOW 5 us",
}


def stream(rows: pa.Table | pa.Schema = ROWS) -> object:
    return sash.stream(rows, time="ts", slack="1 us")


def listed(answer: pa.Table) -> list[dict]:
    return sorted(answer.to_pylist(), key=repr)


@pytest.fixture(autouse=True, params=[1, 1 << 12], ids=["forgets at once", "forgets later"])
def worth_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_changes, "WORTH_ROWS", request.param)


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_that_of_the_changes_so_far(name: str) -> None:
    query = sash.query(TEXTS[name], keep_answer="3 us", s=stream(ROWS.schema))
    changes = []
    for row in range(ROWS.num_rows):
        changes.append(query.push("s", ROWS.slice(row, 1)))
        for instant in range(query.clock - 3, query.clock + 1):
            expected = sash.answer(pa.concat_tables(changes), at=instant)
            assert query.answer(instant).schema == expected.schema
            assert listed(query.answer(instant)) == listed(expected)
        assert listed(query.answer()) == listed(query.answer(query.clock))


@pytest.mark.parametrize("name", TEXTS)
def test_a_session_tells_it_of_each_query(name: str) -> None:
    session = sash.Session()
    session.stream("s", ROWS.schema, time="ts", slack="1 us")
    session.query("it", TEXTS[name], keep_answer=True)
    session.query("other", "SELECT a.k FROM s a, s b WHERE a.k = b.k WINDOW 2 us", keep_answer=timedelta(seconds=1))
    changes = []
    for row in range(ROWS.num_rows):
        changes.append(session.push("s", ROWS.slice(row, 1))["it"])
        assert listed(session.answer("it")) == listed(sash.answer(pa.concat_tables(changes), at=session.clock_us("it")))
    assert listed(session.answer("other", 4)) == [{"k": "a"}, {"k": "b"}]


def test_what_is_not_known_is_refused() -> None:
    query = sash.query(TEXTS["groups"], keep_answer=timedelta(microseconds=2), s=stream(ROWS.schema))
    query.push("s", ROWS)
    with pytest.raises(PlanError, match="the answer at 8 is not known: the query has come to 7; push more rows"):
        query.answer(8)
    with pytest.raises(
        PlanError, match="the answer at 4 is not known any more: it is kept since 5; keep it for longer"
    ):
        query.answer(4)
    with pytest.raises(PlanError, match="the answer at 8 is not known: the query has come to the beginning"):
        sash.query(TEXTS["groups"], keep_answer=True, s=stream(ROWS.schema)).answer(8)
    with pytest.raises(PlanError, match="the answer is not kept; make the query with `keep_answer=True`"):
        sash.query(TEXTS["groups"], s=stream()).answer()


def test_a_session_that_does_not_run_or_keep_says_so() -> None:
    session = sash.Session()
    session.stream("s", ROWS, time="ts")
    session.query("kept", TEXTS["groups"], keep_answer=True)
    session.query("passing", TEXTS["groups"])
    with pytest.raises(PlanError, match="the answer of `passing` is not kept"):
        session.answer("passing")
    with pytest.raises(PlanError, match="there is no query `keep`; did you mean `kept`"):
        session.answer("keep")
    changes = session.run()
    with pytest.raises(PlanError, match="the session does not run; push rows first, or pass what `run` has returned"):
        session.answer("kept")
    assert listed(sash.answer(changes["kept"])) == [{"k": "a", "n": 1, "total": 5}, {"k": "b", "n": 1, "total": 4}]


@pytest.mark.parametrize("name", TEXTS)
def test_it_goes_on_from_a_snapshot(name: str) -> None:
    def make(**keep) -> sash.Query:
        return sash.query(TEXTS[name], s=stream(ROWS.schema), **keep)

    first, second = make(keep_answer="2 us"), make(keep_answer="2 us")
    first.push("s", ROWS.slice(0, 3))
    second.restore(first.snapshot())
    for query in (first, second):
        query.push("s", ROWS.slice(3))
    for instant in range(5, 8):
        assert listed(first.answer(instant)) == listed(second.answer(instant))
    make().restore(first.snapshot())
    with pytest.raises(SourceError, match="of a query whose answer was not kept"):
        first.restore(make().snapshot())
    assert listed(first.answer()) == listed(second.answer())


def test_it_goes_on_from_a_session_s_snapshot() -> None:
    def make(keep: bool = True) -> sash.Session:
        session = sash.Session()
        session.stream("s", ROWS.schema, time="ts")
        session.query("q", TEXTS["groups"], keep_answer=keep)
        return session

    first, second = make(), make()
    first.push("s", ROWS.slice(0, 3))
    snapshot = first.snapshot()
    second.query("later", TEXTS["one group"], keep_answer=True)
    second.restore(snapshot)
    assert listed(second.answer("q")) == listed(first.answer("q")) != []
    second.push("s", ROWS.slice(3))
    second.finish()
    assert listed(second.answer("later")) == [{"n": 2}]
    third = make()
    third.query("later", TEXTS["a window of rows"], keep_answer=True)
    third.push("s", ROWS.slice(0, 4))
    third.restore(snapshot)
    third.push("s", ROWS.slice(3))
    third.finish()
    assert listed(third.answer("later")) == [{"k": "a", "v": 5}, {"k": "b", "v": 4}]
    make(keep=False).restore(snapshot)
    plain = make(keep=False)
    plain.push("s", ROWS.slice(0, 1))
    with pytest.raises(SourceError, match="of a query whose answer was not kept"):
        first.restore(plain.snapshot())


def test_a_query_that_was_paused_begins_anew() -> None:
    session = sash.Session()
    session.stream("s", ROWS.schema, time="ts")
    session.query("q", TEXTS["groups"], keep_answer=True)
    session.query("other", TEXTS["groups"])
    session.push("s", ROWS.slice(0, 3))
    session.pause("q")
    with pytest.raises(PlanError, match="the query `q` is paused; resume it first"):
        session.answer("q")
    session.resume("q")
    session.push("s", ROWS.slice(3))
    session.finish()
    assert listed(session.answer("q")) == [{"k": "a", "n": 1, "total": 5}, {"k": "b", "n": 1, "total": 4}]


def test_what_is_kept_is_about_as_large_as_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_changes, "WORTH_ROWS", 100)
    query = sash.query(TEXTS["a window of time"], keep_answer=True, s=stream(ROWS.schema))
    for start in range(0, 5_000, 50):
        ts = list(range(start, start + 50))
        query.push("s", pa.table({"ts": ts, "k": ["a"] * 50, "v": ts}, schema=ROWS.schema))
        assert query._kept is not None
        assert query._kept._kept.n_rows < 250
    assert query.answer().num_rows == 4
