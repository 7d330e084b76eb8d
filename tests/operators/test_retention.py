"""What a shared join says it has kept, against a model that keeps rows one by one and forgets them as soon as it may.

Law: of the rows that are in a query's window at the clock and satisfy its condition, all that are newer than `since_us`
     are there, with all the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.retention import ALL_ROWS, Retention
from sash.store.batch import BEGINNING

WINDOWS = (3, 8, 20)
COLUMNS = ("x", "y", "z")
CONDITIONS: dict[str, Callable[[int], bool]] = {"even": lambda n: n % 2 == 0, "small": lambda n: n < 3}
SATISFIED = CONDITIONS | {ALL_ROWS: lambda n: True}


@dataclass(frozen=True)
class Wanted:
    """What a set of queries has a join keep; without conditions, all rows."""

    window: int
    columns: tuple[str, ...]
    conditions: tuple[str, ...] | None

    def fresh(self) -> Retention:
        return Retention.fresh(self.window, self.columns, self.conditions)


@dataclass(frozen=True)
class Row:
    ts: int
    n: int
    columns: frozenset[str]


@dataclass
class Model:
    """A join that keeps just what it must."""

    wanted: Wanted
    clock: int = BEGINNING
    seen: int = BEGINNING
    come: list[Row] = field(default_factory=list)
    """All rows, with every column."""
    kept: list[Row] = field(default_factory=list)

    def arrive(self, ts: int, n: int) -> None:
        self.seen = max(self.seen, ts)
        self.come.append(Row(ts, n, frozenset(COLUMNS)))
        conditions = (ALL_ROWS,) if self.wanted.conditions is None else self.wanted.conditions
        if any(SATISFIED[name](n) for name in conditions):
            self.kept.append(Row(ts, n, frozenset(self.wanted.columns)))

    def advance(self, clock: int) -> None:
        self.clock = clock
        self._forget()

    def change(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.kept = [replace(row, columns=row.columns & set(wanted.columns)) for row in self.kept]
        self._forget()

    def missing(self, window: int, columns: Sequence[str], condition: str) -> list[int]:
        """The times of rows that a query would have to find and does not."""
        there = {(row.ts, row.n) for row in self.kept if set(columns) <= row.columns}
        due = [row for row in self.come if row.ts + window > self.clock and SATISFIED[condition](row.n)]
        return [row.ts for row in due if (row.ts, row.n) not in there]

    def _forget(self) -> None:
        self.kept = [row for row in self.kept if row.ts + self.wanted.window > self.clock]


def check(model: Model, keeping: Retention) -> None:
    """Whatever query the join could serve now."""
    served = [*CONDITIONS, None] if model.wanted.conditions is None else model.wanted.conditions
    for window in (window for window in WINDOWS if window <= model.wanted.window):
        for n_columns in range(len(model.wanted.columns) + 1):
            for columns in combinations(model.wanted.columns, n_columns):
                for condition in served:
                    since = keeping.missing_until_us(window, columns, condition, model.clock)
                    missing = model.missing(window, columns, condition or ALL_ROWS)
                    assert all(ts <= since for ts in missing), (window, columns, condition, since)


wanted = st.builds(
    Wanted,
    st.sampled_from(WINDOWS),
    st.sampled_from([(), ("x",), ("x", "y"), ("z",), COLUMNS]),
    st.sampled_from([None, ("even",), ("small",), ("even", "small")]),
)
arrivals = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5)), max_size=4)
steps = st.lists(st.tuples(arrivals, st.integers(0, 10), wanted), max_size=6)
ALL = Wanted(8, ("x",), None)


@given(wanted, steps)
@example(ALL, [([(1, 0)], 9, Wanted(20, ("x",), None))])
@example(ALL, [([(1, 0), (3, 1)], 2, Wanted(8, ("x", "y"), None))])
@example(Wanted(8, ("x",), ("even",)), [([(1, 1), (2, 2)], 2, ALL), ([(3, 1)], 1, Wanted(8, ("x",), ("small",)))])
@example(ALL, [([(1, 1)], 0, Wanted(3, ("x",), None)), ([], 4, ALL)])
def test_since_us_covers_all_that_is_missing(first: Wanted, steps: list) -> None:
    model, keeping = Model(first), first.fresh()
    clock = 0
    for rows, passed, then in steps:
        for ahead, n in rows:
            model.arrive(clock + ahead, n)
        clock += passed
        model.advance(clock)
        check(model, keeping)
        keeping = keeping.after_change(then.fresh(), model.clock, model.seen)
        model.change(then)
        check(model, keeping)


@given(wanted, st.integers(0, 100))
def test_a_join_that_did_not_change_lacks_nothing(first: Wanted, clock: int) -> None:
    keeping = first.fresh().after_change(first.fresh(), clock, clock + 10)
    for condition in first.conditions or [*CONDITIONS, None]:
        assert keeping.missing_until_us(first.window, first.columns, condition, clock) == BEGINNING


def test_what_lacks_is_forgotten_when_it_has_left_the_window() -> None:
    keeping = ALL.fresh().after_change(Wanted(20, ("x",), None).fresh(), 10, 12)
    assert [keeping.missing_until_us(20, ["x"], None, clock) for clock in (10, 21, 22)] == [2, 2, BEGINNING]
    assert keeping.missing_until_us(8, ["x"], None, 10) == BEGINNING, "a small window never reached so far"


def test_facts_make_the_same_again() -> None:
    keeping = Wanted(20, ("x",), ("even",)).fresh().after_change(ALL.fresh(), 10, 12)
    assert Retention(**keeping.to_json()) == keeping
