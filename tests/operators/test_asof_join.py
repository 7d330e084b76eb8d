"""Each left tuple with the newest right one of its key, against looking through both sides.

Law: at T, every left tuple in its window is there once, with the right tuple of its key in its window whose time is the
     greatest `<=` its own; the greatest row of those at that time; with NULLs, or not at all, if there is none.
"""

from __future__ import annotations

import operator as comparing
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.asof_join import COMPARISONS, AsofJoin, AsofJoinSpec
from sash.operators.operator import export_live
from sash.store.batch import SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.steps import Change, Lived, alive_at, amount_at, changes_of, due, restarted, signed

LEFT = pa.schema([("a", pa.string()), ("x", pa.int64())])
RIGHT = pa.schema([("b", pa.string()), ("y", pa.int64()), ("w", pa.float64())])
SCHEMAS = [pa.schema([*columns, *SIGNED_FIELDS]) for columns in (LEFT, RIGHT)]
BY_CLOCK, BY_NEGATIVES = False, True
COMPARE = {">=": comparing.ge, ">": comparing.gt, "<=": comparing.le, "<": comparing.lt}
IDS = ("_id.left", "_id.right", "_id.expires")


def make(comparison: str = ">=", keeps_all: bool = True, by_negatives: bool = BY_CLOCK, **more: Any) -> AsofJoin:
    fields = {"keys": (("a", "b"),), "windows_us": (9, 9), "deciding": ("b", "y", "w")} | more
    spec = AsofJoinSpec(
        columns=(("a", "x"), ("b", "y", "w")),
        times=("x", "y"),
        comparison=comparison,
        keeps_all=keeps_all,
        expires_by_negatives=by_negatives,
        **fields,
    )
    return AsofJoin(spec, *SCHEMAS)


def left(key: str | None, ts: int, expires: int, back: int | None = None, at: int | None = -1) -> Lived:
    return Lived((key, ts if at == -1 else at), ts, expires, back)


def right(
    key: str | None, ts: int, expires: int, back: int | None = None, at: int | None = -1, w: float | None = 0.0
) -> Lived:
    return Lived((key, ts if at == -1 else at, w), ts, expires, back)


def step(operator: AsofJoin, sides: list[list[Lived]], last: int, clock: int) -> list[Change]:
    is_told = operator.spec.expires_by_negatives
    batches = [signed(due(lives, last, clock, is_told), columns) for lives, columns in zip(sides, (LEFT, RIGHT))]
    return changes_of(operator.process(batches, clock))


def run(line, sides: list[list[Lived]], end: int = 20) -> list[Change]:
    """All changes, tick by tick."""
    return [change for clock in range(1, end) for change in step(line.then(), sides, clock - 1, clock)]


def without_expirations(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change[0] > 0 or change[1] < change[2]]


def expected(sides: list[list[Lived]], comparison: str, keeps_all: bool, instant: int) -> Counter[tuple]:
    """The law, tuple by tuple."""
    found: Counter[tuple] = Counter()
    partners = [row for row in alive_at(sides[1], instant) if row[1] is not None and row[0] is not None]
    for (key, at), n_equal in alive_at(sides[0], instant).items():
        own = [row for row in partners if at is not None and row[0] == key and COMPARE[comparison](at, row[1])]
        newest = (max if comparison.startswith(">") else min)((row[1] for row in own), default=None)
        best = max((row for row in own if row[1] == newest), key=_rank, default=None)
        if best is not None or keeps_all:
            found[(key, at, *(best or (None, None, None)))] += n_equal
    return found


def _rank(row: tuple) -> tuple:
    return (row[2] is not None, row[2] or 0.0)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_the_newest_partner_until_it_leaves(by_negatives: bool, succession) -> None:
    """
    right   1 [1, 5)   3 [3, 7)
    left                          4 [4, 9)
    out                          +(4, 3) until 7     +(4, NULL) at 7
    """
    sides = [[left("k", 4, 9)], [right("k", 1, 5), right("k", 3, 7)]]
    seen = run(succession(lambda: make(by_negatives=by_negatives)), sides)
    pair, alone = ("k", 4, "k", 3, 0.0), ("k", 4, None, None, None)
    assert without_expirations(seen) == [(1, 4, 7, pair), (1, 7, 9, alone)]
    inner = run(succession(lambda: make(keeps_all=False, by_negatives=by_negatives)), sides)
    assert without_expirations(inner) == [(1, 4, 7, pair)]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_a_partner_that_comes_later_takes_the_place_of_another(by_negatives: bool, succession) -> None:
    """
    left    5 [1, 9)
    right             2 [2, 9)    4 [3, 9), taken back at 6
    out     +NULL    -NULL +2     -2 +4                      -4 +2
    """
    sides = [[left("k", 1, 9, at=5)], [right("k", 2, 9, at=2), right("k", 3, 9, back=6, at=4)]]
    seen = run(succession(lambda: make(by_negatives=by_negatives)), sides)
    told = [(op, ts, values[3]) for op, ts, _, values in without_expirations(seen)]
    assert told == [(1, 1, None), (-1, 2, None), (1, 2, 2), (-1, 3, 2), (1, 3, 4), (-1, 6, 4), (1, 6, 2)]


def test_what_comes_and_goes_within_an_instant_is_not_seen() -> None:
    """A partner that enters with the tuple, and one that leaves as another comes."""
    sides = [[left("k", 2, 9, at=8)], [right("k", 1, 4, at=1), right("k", 4, 9, at=1), right("k", 2, 5, at=0)]]
    seen = step(make(), sides, 0, 8)
    assert seen == [(1, 2, 4, ("k", 8, "k", 1, 0.0)), (1, 4, 9, ("k", 8, "k", 1, 0.0))]


@pytest.mark.parametrize(("comparison", "partner"), [(">=", 4), (">", 3), ("<=", 4), ("<", 5)])
def test_equal_times(comparison: str, partner: int) -> None:
    sides = [[left("k", 1, 9, at=4)], [right("k", 1, 9, at=at) for at in (3, 4, 5)]]
    ((_, _, _, values),) = step(make(comparison), sides, 0, 1)
    assert values[3] == partner


def test_of_partners_at_one_time_the_greatest_row_is_taken() -> None:
    """NULL is before all values; of two zeros, the positive one is the greater."""
    values: list[float | None] = [None, -1.5, -0.0, 0.0]
    for n_there in range(1, 5):
        rows = [right("k", 1, 9, w=value) for value in values[:n_there]]
        for order in (rows, rows[::-1]):
            ((_, _, _, seen),) = step(make(), [[left("k", 1, 9)], order], 0, 1)
            assert repr(seen[4]) == repr(values[n_there - 1])


def test_declared_columns_decide_first() -> None:
    rows = [Lived(("a", 1, 5.0), 1, 9), Lived(("b", 1, 1.0), 1, 9)]
    for deciding, best in ((("w", "b", "y"), "a"), (("b", "y", "w"), "b")):
        ((_, _, _, seen),) = step(make(keys=(), deciding=deciding), [[left("k", 1, 9)], rows], 0, 1)
        assert seen[2] == best


def test_null_is_nobodys_partner() -> None:
    rows = [[left(None, 1, 9), left("k", 1, 9, at=None)], [right(None, 1, 9), right("k", 1, 9, at=None)]]
    assert [values[2:] for _, _, _, values in step(make(), rows, 0, 1)] == [(None, None, None)] * 2
    assert step(make(keeps_all=False), rows, 0, 1) == []


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_a_row_and_its_negative_have_the_same_identity(by_negatives: bool, succession) -> None:
    lefts = [left("k", 1, 9, at=5), left("k", 1, 9, at=5), left("k", 2, 8, at=6), left("j", 2, 8)]
    rights = [right("k", 2, 7, at=4), right("k", 3, 9, back=5, at=5), right("k", 4, 6, at=5, w=1.0)]
    seen = run(succession(lambda: make(by_negatives=by_negatives, id_columns=IDS)), [lefts, rights])
    count: Counter[tuple] = Counter()
    contents: dict[tuple, tuple] = {}
    for op, _, expires, values in seen:
        assert values[-1] == expires
        assert contents.setdefault(values[-3:], values[:-3]) == values[:-3]
        count[values] += op
        assert count[values] >= 0


KEYS = st.sampled_from(["a", "b", None])
TIMES = st.none() | st.integers(0, 6)


def lives(values: st.SearchStrategy[tuple]) -> st.SearchStrategy[list[Lived]]:
    drawn = st.tuples(values, st.integers(1, 12), st.integers(1, 9), st.none() | st.integers(1, 8))
    return st.lists(drawn, max_size=8).map(
        lambda rows: [
            Lived(value, ts, ts + life, ts + after if after is not None and after < life else None)
            for value, ts, life, after in rows
        ]
    )


SIDES = st.tuples(lives(st.tuples(KEYS, TIMES)), lives(st.tuples(KEYS, TIMES, st.sampled_from([None, 0.0, 1.5])))).map(
    list
)
CUTS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
@pytest.mark.parametrize("keeps_all", [True, False])
@given(SIDES, CUTS, st.sampled_from(COMPARISONS))
@example([[Lived(("a", 3), 1, 9)], [Lived(("a", 3, 0.0), 2, 9, back=4), Lived(("a", 3, 0.0), 3, 9)]], [], ">=")
def test_the_law_holds_at_every_instant(
    keeps_all: bool, by_negatives: bool, sides: list[list[Lived]], cuts: list[tuple[int, bool]], comparison: str
) -> None:
    def fresh() -> AsofJoin:
        return make(comparison, keeps_all, by_negatives, id_columns=IDS)

    operator, last, seen = fresh(), 0, list[Change]()
    for clock, restarts in [*sorted(cuts), (22, False)]:
        seen += step(operator, sides, last, clock)
        operator, last = restarted(operator, fresh) if restarts else operator, clock
    shown = [(op, ts, expires, values[:-3]) for op, ts, expires, values in seen]
    for instant in range(22):
        assert amount_at(shown, instant, by_negatives) == expected(sides, comparison, keeps_all, instant)


def test_many_changes_at_once_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One right tuple is the partner of more than a call of the kernel has room for."""
    monkeypatch.setattr("sash.operators.asof_join.CHANGES_PER_CALL", 2)
    sides = [[left("k", 1, 9, at=at) for at in range(5)], [right("k", 2, 9, at=1)]]
    operator = make()
    assert len(step(operator, sides, 0, 1)) == 5
    assert len(step(operator, sides, 1, 2)) == 2 * 4


@pytest.mark.slow
def test_places_that_are_empty_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of places and contents follow from what is there, not from all that ever was."""
    monkeypatch.setattr("sash.operators.asof_join.MIN_DEAD", 64)
    operator, seen = make(), list[Change]()
    lefts = [left("ab"[ts % 2], ts, ts + 3, at=None if ts % 5 == 0 else ts) for ts in range(1, 150)]
    rights = [right("ab"[ts % 2], ts, ts + 4, w=float(ts % 3)) for ts in range(1, 150) if ts % 3]
    for clock in range(1, 160):
        seen += step(operator, [lefts, rights], clock - 1, clock)
        assert operator._strings.n_strings <= 4 * sum(log.n_rows for log in operator.logs().values()) + 64
    for instant in range(160):
        assert amount_at(seen, instant, BY_CLOCK) == expected([lefts, rights], ">=", True, instant)
    assert len(dump(export_live(operator), Memory())) > 0
