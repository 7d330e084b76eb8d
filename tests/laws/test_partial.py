"""Law 8: a query that comes late says until when its answers may lack something, and claims no longer than it must.

            kept        |-- largest window --|         what left it before, a larger window cannot have
time  ------------------|--------------------|-- clock
                  |------ window of q -------|         so q is partial until this gap has left its window
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.oracle.literals import stream_of
from support.shared_case import SharedCase

LONG_AGO = -(10**6)
ROW = stream_of("ts | k | v | u\n0 | x | 1 | 2")
EMPTY = SharedCase({}, {name: sash.stream(ROW, time="ts", slack="0 us") for name in "ab"}, [])
WINDOWS = st.sampled_from((5, 2, 9, 20))
COLUMNS = st.sampled_from(("v", "u"))
ADDS = st.tuples(st.just("add"), WINDOWS, COLUMNS)
DROPS = st.tuples(st.just("drop"), st.integers(0, 9))
COMES = st.tuples(st.just("row"), st.sampled_from((1, 2, 3, 0, 7)))


@dataclass
class Kept:
    """What a join that is told of every moment can still have."""

    queries: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Window and column of those that run."""
    clock: int = LONG_AGO
    whole_us: int = LONG_AGO
    """Rows up to this time are gone."""
    bare_us: dict[str, int] = field(default_factory=lambda: {"v": LONG_AGO, "u": LONG_AGO})
    """By column, up to which time rows were kept without it."""

    def go_on(self, clock: int) -> None:
        self.clock = clock
        self._forget()

    def add(self, name: str, window_us: int, column: str) -> int | None:
        """Until when a query that comes now is partial."""
        self._forget()
        self.queries[name] = window_us, column
        until = max(self.whole_us, self.bare_us[column]) + window_us
        return until if until > self.clock else None

    def drop(self, name: str) -> None:
        self._forget()
        del self.queries[name]
        self._forget()

    def _forget(self) -> None:
        """What no query looks back to, and columns that none reads."""
        if self.clock > LONG_AGO and self.queries:
            largest_us = max(window_us for window_us, _ in self.queries.values())
            self.whole_us = max(self.whole_us, self.clock - largest_us)
            read = {column for _, column in self.queries.values()}
            self.bare_us |= {column: self.clock for column in self.bare_us if column not in read}


@given(WINDOWS, st.lists(st.one_of(ADDS, COMES, DROPS), max_size=12))
def test_a_late_query_claims_to_be_partial_no_longer_than_it_must(window_us: int, events: list[tuple]) -> None:
    """One query is there all the time; rows of both streams come in order, so the clock is the newest of them."""
    session, kept, number = EMPTY.open_session(), Kept(), 0
    session.query("q0", text_of(window_us, "v"))
    kept.add("q0", window_us, "v")
    come(session, kept, 0)
    for event in events:
        match event:
            case "row", gap_us:
                come(session, kept, kept.clock + gap_us)
            case "add", length_us, column:
                number += 1
                session.query(f"q{number}", text_of(length_us, column))
                until = kept.add(f"q{number}", length_us, column)
                assert session.partial_until_us(f"q{number}") == until
            case "drop", at if len(kept.queries) > 1:
                name = sorted(kept.queries.keys() - {"q0"})[at % (len(kept.queries) - 1)]
                session.drop(name)
                kept.drop(name)


def text_of(window_us: int, column: str) -> str:
    return f"SELECT A.{column}, B.{column} AS w FROM a A, b B WHERE A.k = B.k WINDOW {window_us} us"


def come(session: sash.Session, kept: Kept, ts: int) -> None:
    row = ROW.set_column(0, "ts", pa.array([ts], ROW.schema.field("ts").type))
    for stream in "ab":
        session.push(stream, row)
    session.advance(ts)
    kept.go_on(ts)
