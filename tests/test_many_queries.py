"""Queries of a session that come one right after the other, and what `explain` says of those that cannot share."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sash
from sash.testing import stream_of

A = stream_of("""
    ts                  | k
    2026-01-01 12:00:00 | 1
    2026-01-01 12:00:20 | 2
    2026-01-01 12:01:00 | 1
""")
B = stream_of("""
    ts                  | k
    2026-01-01 12:00:10 | 1
    2026-01-01 12:00:30 | 2
    2026-01-01 12:01:10 | 1
""")
TEXT = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW {} SECONDS"


def fresh() -> sash.Session:
    """A session with one query, that has seen nothing yet."""
    session = sash.Session()
    for name, rows in {"a": A, "b": B}.items():
        session.stream(name, rows.schema, time="ts")
    session.query("largest", TEXT.format(90))
    return session


def running(**queries: str) -> sash.Session:
    """The same, with other queries that come when it has seen all rows but the last of each stream."""
    session = fresh()
    for name, rows in {"a": A, "b": B}.items():
        session.push(name, rows.slice(0, 2))
    for name, text in queries.items():
        session.query(name, text)
    return session


def rest(session: sash.Session, name: str) -> list[dict]:
    parts = [session.push("a", A.slice(2))[name], session.push("b", B.slice(2))[name], session.finish()[name]]
    return pa.concat_tables(parts).to_pylist()


def test_a_query_begins_with_its_windows_whatever_comes_right_after_it():
    alone = rest(running(one=TEXT.format(60)), "one")
    assert [row["k"] for row in alone] == [1, 2, 1, 1]
    assert rest(running(one=TEXT.format(60), other=TEXT.format(30)), "one") == alone
    assert rest(running(other=TEXT.format(30), one=TEXT.format(60)), "one") == alone


def test_a_query_that_has_not_begun_begins_after_a_snapshot():
    alone, session = rest(running(one=TEXT.format(60)), "one"), running(one=TEXT.format(60))
    other = fresh()
    other.query("one", TEXT.format(60))
    other.restore(session.snapshot())
    assert rest(other, "one") == alone


@pytest.mark.parametrize(
    ("windows", "reason"),
    [
        ("a [ROWS 2], b [ROWS 2]", "the window of `a` is not one of time, so a larger one does not contain it"),
        ("a [RANGE 60 SECONDS SLIDE 20 SECONDS], b [RANGE 60 SECONDS]", "the window of `a` slides in steps"),
    ],
)
def test_windows_that_are_not_contained_in_larger_ones_are_named(windows: str, reason: str):
    session = running(other=f"SELECT a.k FROM {windows} WHERE a.k = b.k")
    assert f"other runs alone: {reason}" in session.explain()
