"""One row of the year 9999 does not make every later row late: it is rejected, unless what follows confirms it."""

from __future__ import annotations

import warnings
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.errors import BindError
from sash.oracle.reference import split_late

NOON = datetime(2026, 1, 1, 12)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
TEXT = "SELECT ts, k FROM a [RANGE 10 SECONDS]"
YEAR_9999 = datetime(9999, 12, 31)


def rows_at(*times: datetime | int) -> list[dict[str, Any]]:
    """Rows at these times, or so many seconds after noon, numbered from 0."""
    stamps = [NOON + timedelta(seconds=time) if isinstance(time, int) else time for time in times]
    return [{"ts": ts, "k": k} for k, ts in enumerate(stamps)]


def make_query(text: str = TEXT, **declaration: Any) -> sash.Query:
    return sash.query(text, a=sash.stream(SCHEMA, **{"slack": "2 seconds", "ahead": "1 hour", **declaration}))


def answer(query: sash.Query, *batches: list[dict]) -> list[int]:
    parts = [*(query.push("a", rows) for rows in batches), query.finish()]
    return pa.concat_tables(parts).column("k").to_pylist()


def test_one_wrong_row_is_rejected_with_the_reason_and_the_rest_is_answered() -> None:
    query, rows = make_query(), rows_at(0, 1, YEAR_9999, 2, 3)
    with pytest.warns(sash.SashWarning, match="a row of stream `a` was rejected: `ts` is 9999-12-31 00:00:00, more"):
        assert answer(query, rows) == [0, 1, 3, 4]
    assert (query.n_read, query.n_late, query.n_rejected, query.n_held) == ({"a": 5}, {"a": 0}, {"a": 1}, {"a": 0})
    assert query.rejected["a"][0].to_pylist() == [
        rows[2]
        | {
            "_reason": "`ts` is 9999-12-31 00:00:00, more than 1 hour ahead of what came before (2026-01-01 12:00:01) "
            "and of what came next"
        }
    ]


def test_by_default_too() -> None:
    query = sash.query(TEXT, a=sash.stream(SCHEMA))
    with pytest.warns(sash.SashWarning, match="more than 52 weeks 2 days ahead"):
        assert answer(query, rows_at(0, 1, YEAR_9999, 2, 3)) == [0, 1, 3, 4]


def test_a_quiet_night_costs_nothing() -> None:
    query = make_query()
    assert answer(query, rows_at(0), rows_at(60_000), rows_at(60_001)) == [0, 0, 0]
    assert query.n_rejected == {"a": 0}


def test_a_row_waits_for_what_confirms_it() -> None:
    query = make_query()
    query.push("a", rows_at(0, 60_000))
    assert (query.n_held, query.clock) == ({"a": 1}, 1_767_268_800_000_000 - 2_000_001)
    assert query.advance(NOON + timedelta(seconds=30_000)).num_rows == 1
    assert query.n_held == {"a": 1}
    query.advance(NOON + timedelta(seconds=60_000 - 3_600))
    assert query.n_held == {"a": 0}
    assert query.finish().num_rows == 1


def test_the_end_confirms_it() -> None:
    query = make_query()
    assert answer(query, rows_at(0, 60_000)) == [0, 1]


def test_a_declaration_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(BindError, match="stream `a`: a row may be 1 second ahead and 2 seconds late; allow it"):
        make_query(ahead="1 second")


def test_unlimited_believes_every_row_and_says_what_it_costs() -> None:
    query = make_query(ahead="unlimited")
    query.push("a", rows_at(0, YEAR_9999))
    assert warnings_of(query, rows_at(*range(20))) == [
        "20 of the last 20 rows of stream `a` came too late, since row 2 moved its clock to 9999-12-31 00:00:00; if "
        "that time is wrong, declare how far ahead a row may be (`ahead`), and else a larger slack"
    ]


def warnings_of(query: sash.Query, *batches: list[dict]) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", sash.SashWarning)
        for rows in batches:
            query.push("a", rows)
    return [str(each.message) for each in told]


class TestWhichRowMovedTheClock:
    def test_it_is_named_also_if_it_came_with_those_it_made_late(self) -> None:
        (note,) = warnings_of(make_query(ahead="unlimited"), rows_at(0, YEAR_9999, *range(24)))
        assert "24 of the last 26 rows" in note
        assert "since row 2 moved its clock to 9999-12-31 00:00:00;" in note

    def test_rows_without_a_time_count_for_its_number(self) -> None:
        rows = [{"ts": None, "k": 1}, *rows_at(0, YEAR_9999, *range(40))]
        notes = warnings_of(make_query(ahead="unlimited"), rows)
        assert any("since row 3 moved its clock to 9999-12-31 00:00:00;" in note for note in notes)

    def test_one_that_was_rejected_has_not_moved_it(self) -> None:
        query = make_query()
        notes = warnings_of(query, rows_at(0, YEAR_9999, 1, 3000), rows_at(*range(20)))
        assert ["since row 4 moved its clock to 2026-01-01 12:50:00;" in note for note in notes] == [False, True]

    def test_one_that_had_been_held_may_have(self) -> None:
        (note,) = warnings_of(make_query(), rows_at(0, 9000), rows_at(8990, *range(20)))
        assert "since a row that had been held moved its clock to 2026-01-01 14:30:00;" in note

    def test_after_a_restore_nobody_knows(self) -> None:
        first, second = make_query(), make_query()
        first.push("a", rows_at(0, 3000))
        second.restore(first.snapshot())
        (note,) = warnings_of(second, rows_at(*range(20)))
        assert "came too late, since its clock stood at 2026-01-01 12:50:00;" in note

    def test_a_completion_may_have(self) -> None:
        query = make_query()
        query.push("a", rows_at(0))
        query.advance(NOON + timedelta(hours=1))
        (note,) = warnings_of(query, rows_at(*range(20)))
        assert "came too late, since its clock stood at 2026-01-01 13:00:00;" in note

    def test_rows_that_come_one_by_one_are_told_of_too(self) -> None:
        query = make_query()
        (note,) = warnings_of(query, rows_at(3000), *([row] for row in rows_at(*range(20))))
        assert note.startswith("9 of the last 10 rows of stream `a` came too late, since row 1 moved its clock to")

    def test_a_late_row_now_and_then_is_nothing_to_tell(self) -> None:
        rows = rows_at(*(second for pair in zip(range(3000, 3100), range(100)) for second in pair))
        assert warnings_of(make_query(), rows) == []
        assert warnings_of(make_query(), *([row] for row in rows)) == []


class TestWarningsAsErrors:
    """A push that warns takes nothing, so that it can be made again; the same is not told twice."""

    def test_a_push_loses_no_rows(self) -> None:
        query, rows = make_query(), rows_at(0, YEAR_9999, 1, 60_000)
        query.push("a", rows_at(-1))
        before = query.snapshot()
        with pytest.raises(sash.SashWarning, match="was rejected"):
            query.push("a", rows)
        assert (query.n_read, query.n_rejected, query.n_held) == ({"a": 1}, {"a": 0}, {"a": 0})
        assert query.snapshot() == before
        assert answer(query, rows) == [0, 0, 2, 3]
        assert (query.n_read, query.n_rejected) == ({"a": 5}, {"a": 1})

    def test_what_was_held_is_held_again(self) -> None:
        query = make_query()
        query.push("a", rows_at(0, 60_000))
        with pytest.raises(sash.SashWarning, match="was rejected"):
            query.push("a", rows_at(1))
        assert (query.n_rejected, query.n_held) == ({"a": 0}, {"a": 1})
        assert answer(query, rows_at(60_001)) == [0, 1, 0]

    def test_a_session_loses_no_changes(self) -> None:
        session = sash.Session()
        session.stream("a", SCHEMA, slack="2 seconds", ahead="1 hour")
        session.query("alone", TEXT)
        rows = rows_at(0, YEAR_9999, 1, 10)
        with pytest.raises(sash.SashWarning, match="was rejected"):
            session.push("a", rows)
        assert session.rejected == {"a": []}
        changes = [session.push("a", rows)["alone"], session.finish()["alone"]]
        assert pa.concat_tables(changes).column("k").to_pylist() == [0, 2, 3]


class TestRunsToTheirEnd:
    ROWS = (0, YEAR_9999, 1, YEAR_9999, 2, YEAR_9999, 3, YEAR_9999, 4)

    def stream(self) -> Any:
        return sash.stream(pa.Table.from_pylist(rows_at(*self.ROWS), SCHEMA), slack="2 seconds", ahead="1 hour")

    def test_sql_says_how_many_rows_were_rejected_and_where_it_was_asked(self) -> None:
        with pytest.warns(
            sash.SashWarning, match="^4 rows of stream `a` were rejected; the first: `ts` is 9999"
        ) as told:
            sash.sql(TEXT, a=self.stream())
        assert [each.filename for each in told] == [__file__]

    def test_a_session_keeps_what_was_rejected(self) -> None:
        session = sash.Session()
        session.stream("a", self.stream().frame, slack="2 seconds", ahead="1 hour")
        session.query("one", TEXT)
        with pytest.warns(sash.SashWarning, match="^4 rows of stream `a` .*such rows are in session.rejected") as told:
            session.run()
        assert [each.filename for each in told] == [__file__]
        assert sum(table.num_rows for table in session.rejected["a"]) == 4

    def test_verify_and_explain_tell_it_in_a_sentence(self) -> None:
        found = sash.verify(TEXT, a=self.stream())
        assert found
        (note,) = found.notes
        assert note.startswith("4 rows of stream `a` were rejected; the first: `ts` is 9999-12-31 00:00:00, more than")
        assert sash.explain(TEXT, analyze=True, a=self.stream()).splitlines()[-1] == note


def test_a_snapshot_holds_what_waits() -> None:
    first, second = make_query(), make_query()
    first.push("a", rows_at(0, 60_000))
    second.restore(first.snapshot())
    assert second.n_held == {"a": 1}
    assert answer(second, rows_at(60_001)) == [0, 1, 0]


def test_queries_of_a_session_agree_also_with_one_that_came_later() -> None:
    session = sash.Session()
    session.stream("a", SCHEMA, slack="2 seconds", ahead="1 hour")
    session.query("one", TEXT)
    session.push("a", rows_at(0, 60_000))
    session.query("two", "SELECT k FROM a [RANGE 20 SECONDS]")
    with pytest.warns(sash.SashWarning, match="rejected"):
        session.push("a", rows_at(1, YEAR_9999, 2))
    session.push("a", rows_at(60_000))
    assert [len(table) for table in session.rejected["a"]] == [1, 1]
    other = sash.Session()
    other.stream("a", SCHEMA, slack="2 seconds", ahead="1 hour")
    other.query("one", TEXT)
    other.query("two", "SELECT k FROM a [RANGE 20 SECONDS]")
    other.restore(session.snapshot())
    for each in (session, other):
        changes = each.push("a", rows_at(60_001))
        found = {name: table.column("k").to_pylist() for name, table in changes.items()}
        assert found == {"one": [0, 0, 2], "two": [0, 2]}
        assert [table.column("k").to_pylist() for table in each.finish().values()] == [[0, 0], [0, 0]]


TIMES = st.lists(st.sampled_from([*range(8), 4_000, 4_001, 20_000, YEAR_9999]), max_size=12)


@given(times=TIMES, cuts=st.lists(st.integers(0, 12), max_size=4), restarts=st.booleans())
@pytest.mark.filterwarnings("ignore::sash.SashWarning")
def test_every_row_is_accepted_late_or_rejected_however_they_are_cut(
    times: list, cuts: list[int], restarts: bool
) -> None:
    rows, query, changes = rows_at(*times), make_query(), []
    for low, high in pairwise(sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})):
        changes.append(query.push("a", rows[low:high]))
        if restarts:
            before, query = query, make_query()
            query.restore(before.snapshot())
    changes.append(query.finish())
    expected = split_late(pa.Table.from_pylist(rows, SCHEMA), query.plan.streams["a"])
    found = [changes, query.late["a"], query.rejected["a"]]
    for tables, table in zip(found, expected):
        assert Counter(k for part in tables for k in part.column("k").to_pylist()) == Counter(
            table.column("k").to_pylist()
        )
