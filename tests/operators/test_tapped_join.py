"""The shared join against as many joins as there are taps.

Law: a tap gives exactly the tuples that a WindowJoin with its windows would give over the rows that satisfy its
     conditions (and are newer than `since`, where it was opened too late to see older ones).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.cost.join_cost import JoinMethod
from sash.operators.evaluator import keep
from sash.operators.operator_names import TapName
from sash.operators.tap_spec import Tap, TappedJoinSpec
from sash.operators.tapped_join import TappedJoin
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.store.batch import EXPIRES, SIGNED_FIELDS, TS
from support.steps import restarted

SIDES = ("left", "right")
ALIASES = ("A", "B")
COLUMNS = {"k": pa.int64(), "s": pa.string(), "n": pa.int64()}
LEFT, RIGHT = (
    pa.schema([*((f"{side}.{name}", type) for name, type in COLUMNS.items()), *SIGNED_FIELDS]) for side in SIDES
)
N_CONDITIONS = 70
"""More than fit into one word."""
CONDITIONS = tuple(tuple(f'"{side}.n" >= {number}' for number in range(N_CONDITIONS)) for side in SIDES)
END = 80

Row = tuple[int, int | None, int | None]
"""Time, key, and what conditions look at."""


@dataclass(frozen=True)
class Asked:
    """What a tap asks for, as a test thinks of it: conditions by the least `n`."""

    windows: tuple[int, int]
    least: tuple[int | None, int | None] = (None, None)
    residual: str | None = None


def make_tap(name: TapName, asked: Asked, keys: Sequence[str]) -> Tap:
    columns = tuple((f"{s}.{name}", f"{a}.{name}") for s, a in zip(SIDES, ALIASES, strict=True) for name in COLUMNS)
    return Tap(name, asked.windows, asked.least, columns, tuple((f"A.{k}", f"B.{k}") for k in keys), asked.residual)


def make_join(taps: Mapping[TapName, Asked], keys: Sequence[str] = ("k",), schedule: str = "lwo") -> TappedJoin:
    windows = tuple(max(asked.windows[side] for asked in taps.values()) for side in (0, 1))
    pairs = tuple((f"left.{key}", f"right.{key}") for key in keys)
    method = JoinMethod("hash") if keys else JoinMethod("wnl", 1)
    made = [make_tap(name, asked, keys) for name, asked in taps.items()]
    made.sort(key=lambda tap: -tap.reach_us)
    spec = WindowJoinSpec(pairs, None, windows, method=method)  # pyright: ignore
    return TappedJoin(TappedJoinSpec(spec, CONDITIONS, tuple(made), schedule), LEFT, RIGHT)  # pyright: ignore


def table_of(rows: Sequence[Row], side: int, window: int) -> pa.Table:
    ts, keys, n = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    words = [None if key is None else "abc"[key] for key in keys]
    arrays = [keys, words, n, ts, [each + window for each in ts], [1] * len(rows)]
    return pa.table(arrays, schema=(LEFT, RIGHT)[side])


def between(rows: Sequence[Row], after: int, until: int) -> list[Row]:
    return sorted((row for row in rows if after < row[0] <= until), key=lambda row: row[0])


def pour(join: TappedJoin, both: Sequence[Sequence[Row]], clock: int) -> dict[TapName, list[tuple]]:
    """What each tap gives for a step; it is complete to the time that it says, and at last to the clock."""
    seen: dict[TapName, list[tuple]] = {tap.name: [] for tap in join.taps}
    reached: dict[TapName, int] = {}
    for output in join.tap_outputs([table_of(rows, side, 1) for side, rows in enumerate(both)], clock):
        for number, table in output.tables.items():
            assert isinstance(table, pa.Table), "without a limit nothing comes in parts"
            name, times = join.taps[number].name, table[TS].to_pylist()
            assert times == sorted(times)
            assert all(reached.get(name, -1) < ts <= output.complete_us for ts in times)
            reached[name] = output.complete_us
            seen[name] += rows_of(table)
    assert reached == dict.fromkeys(seen, clock)
    return seen


def rows_of(table: pa.Table) -> list[tuple]:
    names = [*(f"{alias}.{name}" for alias in ALIASES for name in COLUMNS), TS, EXPIRES]
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


class Alone:
    """The join that a tap stands for."""

    def __init__(self, asked: Asked, keys: Sequence[str] = ("k",)):
        self._asked = asked
        pairs = tuple((f"A.{key}", f"B.{key}") for key in keys)
        method = JoinMethod("hash") if keys else JoinMethod("wnl", 1)
        spec = WindowJoinSpec(pairs, asked.residual, asked.windows, method=method)
        self._join = WindowJoin(
            spec, *(self._renamed(side, schema.empty_table()).schema for side, schema in self._both)
        )

    _both = tuple(enumerate((LEFT, RIGHT)))

    def step(self, both: Sequence[Sequence[Row]], clock: int) -> list[tuple]:
        inputs = []
        for side, rows in enumerate(both):
            tuples = table_of(rows, side, self._asked.windows[side])
            least = self._asked.least[side]
            wanted = tuples if least is None else keep(tuples, CONDITIONS[side][least])
            inputs.append(self._renamed(side, wanted))
        return rows_of(self._join.process(inputs, clock))

    def _renamed(self, side: int, tuples: pa.Table) -> pa.Table:
        return tuples.rename_columns([name.replace(SIDES[side], ALIASES[side]) for name in tuples.column_names])


KEYS = st.none() | st.integers(0, 2)
NUMBERS = st.none() | st.integers(0, N_CONDITIONS)
ROWS = st.lists(st.tuples(st.integers(0, 40), KEYS, NUMBERS), max_size=14)
LEAST = st.none() | st.integers(0, N_CONDITIONS - 1)
RESIDUALS = st.none() | st.just('"A.n" < "B.n"')
WINDOWS = st.sampled_from([1, 3, 8, 20])
ASKED = st.builds(Asked, st.tuples(WINDOWS, WINDOWS), st.tuples(LEAST, LEAST), RESIDUALS)
TAPS = st.lists(ASKED, min_size=1, max_size=5).map(
    lambda each: {TapName(f"q{n}", 0): asked for n, asked in enumerate(each)}
)
CLOCKS = st.lists(st.integers(0, 45), max_size=4).map(sorted)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["lwo", "swf", "mqt"])
@pytest.mark.parametrize("keys", [("k",), ("s",), ("k", "s"), ()], ids=["number", "string", "both", "none"])
@given(left=ROWS, right=ROWS, taps=TAPS, clocks=CLOCKS, restarts=st.booleans())
@example([(1, None, 0)], [(1, None, 0)], {TapName("q", 0): Asked((3, 3))}, [], False)
@example([(1, 0, None)], [(1, 0, 0)], {TapName("q", 0): Asked((3, 3), (0, None))}, [], False)
@example(
    [(0, 1, 66)],
    [(2, 1, 3)],
    {TapName("p", 0): Asked((3, 1), (65, 3)), TapName("q", 0): Asked((1, 3)), TapName("r", 0): Asked((20, 20))},
    [],
    True,
)
def test_taps_give_what_joins_of_their_own_would(schedule, keys, left, right, taps, clocks, restarts) -> None:
    join, alone = make_join(taps, keys, schedule), {name: Alone(asked, keys) for name, asked in taps.items()}
    last = -1
    for clock in [*clocks, END]:
        both = between(left, last, clock), between(right, last, clock)
        seen = pour(join, both, clock)
        for name, each in alone.items():
            assert sorted(seen[name], key=repr) == sorted(each.step(both, clock), key=repr)
        last = clock
        if restarts:
            join = restarted(join, lambda: make_join(taps, keys, schedule))
    assert join.logs()["left"].n_rows == join.logs()["right"].n_rows == 0


@pytest.mark.slow
@given(left=ROWS, right=ROWS, before=TAPS, after=TAPS, clock=st.integers(0, 40))
def test_a_join_with_other_taps_goes_on_with_the_tuples_of_this_one(left, right, before, after, clock) -> None:
    """No new window is larger than the old ones, so that all is there that the new taps need."""
    reach = Asked((20, 20))
    join = make_join({TapName("reach", 0): reach, **before})
    both = between(left, -1, clock), between(right, -1, clock)
    pour(join, both, clock)
    join = restarted(join, lambda: make_join(after))
    alone = {name: Alone(asked) for name, asked in after.items()}
    for each in alone.values():
        each.step(both, clock)
    rest = between(left, clock, END), between(right, clock, END)
    seen = pour(join, rest, END)
    for name, each in alone.items():
        assert sorted(seen[name], key=repr) == sorted(each.step(rest, END), key=repr)


@pytest.mark.slow
@given(left=ROWS, right=ROWS, asked=ASKED, clock=st.integers(0, 40))
def test_a_backfill_is_what_the_tuples_in_the_windows_make(left, right, asked, clock) -> None:
    """
    clock              |
    window      [------|           what has come earlier is not seen, what has come since makes its pairs at once
    """
    join = make_join({TapName("reach", 0): Asked((20, 20)), TapName("q", 0): asked})
    pour(join, [between(left, -1, clock), between(right, -1, clock)], clock)
    number = next(number for number, tap in enumerate(join.taps) if tap.name == TapName("q", 0))
    inside = [between(rows, clock - asked.windows[side], clock) for side, rows in enumerate((left, right))]
    found = rows_of(pa.concat_tables(join.backfill(number, clock)))
    assert sorted(found, key=repr) == sorted(Alone(asked).step(inside, clock), key=repr)


@given(left=ROWS, right=ROWS, asked=ASKED, since=st.tuples(st.integers(-1, 40), st.integers(-1, 40)))
def test_a_tap_sees_nothing_up_to_its_since(left, right, asked, since) -> None:
    join = make_join({TapName("q", 0): asked})
    join.since_us[0] = since
    seen = pour(join, [between(left, -1, END), between(right, -1, END)], END)
    newer = [between(rows, after, END) for rows, after in zip((left, right), since, strict=True)]
    assert sorted(seen[TapName("q", 0)], key=repr) == sorted(Alone(asked).step(newer, END), key=repr)


def test_taps_without_since_in_a_snapshot_see_all_and_others_keep_theirs() -> None:
    old = make_join({TapName("q", 0): Asked((20, 20)), TapName("r", 0): Asked((3, 3))})
    old.since_us[0] = (7, 9)
    new = restarted(old, lambda: make_join({TapName("p", 0): Asked((8, 8)), TapName("q", 0): Asked((20, 20))}))
    assert [tap.name for tap in new.taps] == [TapName("q", 0), TapName("p", 0)]
    assert new.since_us[0].tolist() == [7, 9]
    assert (new.since_us[1] < -1).all()


@pytest.mark.slow
def test_state_is_that_of_the_largest_window_whatever_the_number_of_taps() -> None:
    rows = [(ts, ts % 3, 0) for ts in range(40)]
    many = {TapName(f"q{n}", 0): Asked((1 + n % 20, 1 + n % 20)) for n in range(60)}
    one = make_join({TapName("q", 0): Asked((20, 20))})
    join = make_join(many)
    for each in (one, join):
        pour(each, [rows, rows], 39)
    assert join.logs()["left"].n_rows == one.logs()["left"].n_rows
    shrunk = restarted(join, lambda: make_join({TapName("q", 0): replace(many[TapName("q1", 0)])}))
    pour(shrunk, [[], []], 39)
    assert shrunk.logs()["left"].n_rows <= 3 < join.logs()["left"].n_rows
