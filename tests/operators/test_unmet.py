"""Left tuples that have met no right one, against looking through both sides.

Law: a left tuple [s, e) is put out at e, for ever, if no right tuple [p, q) of its key has p < e and s < q.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.operators.unmet import Unmet, UnmetSpec
from sash.store.batch import NEVER, SIGNED_FIELDS
from support.steps import Change, Lived, changes_of, due, restarted, signed

LEFT, RIGHT = pa.schema([("v", pa.string()), ("n", pa.int64())]), pa.schema([("w", pa.string())])
SCHEMAS = [pa.schema([*columns, *SIGNED_FIELDS]) for columns in (LEFT, RIGHT)]
WINDOWS = 9, 7


def make(nulls_match: bool = False, has_keys: bool = True) -> Unmet:
    keys = (("v",), ("w",)) if has_keys else ((), ())
    return Unmet(UnmetSpec(("v", "n"), *keys, WINDOWS, nulls_match), *SCHEMAS)


def left(key: str | None, ts: int, end: int, n: int = 0) -> Lived:
    return Lived((key, n), ts, end)


def right(key: str | None, ts: int, end: int) -> Lived:
    return Lived((key,), ts, end)


def step(operator: Unmet, sides: list[list[Lived]], last: int, clock: int) -> list[Change]:
    batches = [signed(due(lives, last, clock, False), columns) for lives, columns in zip(sides, (LEFT, RIGHT))]
    return changes_of(operator.process(batches, clock))


def expected(sides: list[list[Lived]], nulls_match: bool, clock: int) -> list[Change]:
    found = []
    for one in sides[0]:
        others = [other for other in sides[1] if other.values[0] == one.values[0]]
        others = others if nulls_match or one.values[0] is not None else []
        if one.end <= clock and not any(other.ts < one.end and one.ts < other.end for other in others):
            found.append((1, one.end, NEVER, one.values))
    return sorted(found, key=lambda change: (change[1], change[0], repr(change[2:])))


def test_it_comes_when_it_leaves_and_has_met_none(succession) -> None:
    """
    left     a [1, 6)   b [2, 7)
    right                           a [5, 9)
    out                                        +b at 7
    """
    sides = [[left("a", 1, 6), left("b", 2, 7)], [right("a", 5, 9)]]
    line = succession(make)
    seen = [change for clock in range(1, 12) for change in step(line.then(), sides, clock - 1, clock)]
    assert seen == [(1, 7, NEVER, ("b", 0))]


@pytest.mark.parametrize(("start", "end"), [(1, 3), (8, 12)])
def test_who_leaves_as_another_comes_has_not_met_it(start: int, end: int) -> None:
    assert len(step(make(), [[left("a", 3, 8)], [right("a", start, end)]], 0, 20)) == 1
    assert not step(make(), [[left("a", 3, 8)], [right("a", start + (end == 12) * -1, end + (end == 3))]], 0, 20)


def test_what_has_left_long_ago_is_known_after_a_restart() -> None:
    """The right tuple is gone when the state is saved, the left one that has met it is not."""
    sides = [[left("a", 1, 10), left("a", 4, 11)], [right("a", 2, 3)]]
    operator = make()
    assert step(operator, sides, 0, 8) == []
    assert step(restarted(operator, make), sides, 8, 20) == [(1, 11, NEVER, ("a", 0))]


def test_without_keys_anybody_is_met() -> None:
    sides = [[left("a", 1, 5), left("b", 6, 9)], [right("c", 2, 3)]]
    assert step(make(has_keys=False), sides, 0, 20) == [(1, 9, NEVER, ("b", 0))]


LEFTS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 12), st.integers(1, 9)), max_size=10)
RIGHTS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 12), st.integers(1, 7)), max_size=8)
CUTS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5)


@pytest.mark.parametrize("nulls_match", [True, False])
@given(LEFTS, RIGHTS, CUTS)
def test_the_law_holds_at_every_instant(nulls_match: bool, lefts, rights, cuts) -> None:
    sides = [
        [left(key, ts, ts + life, n) for n, (key, ts, life) in enumerate(lefts)],
        [right(key, ts, ts + life) for key, ts, life in rights],
    ]
    operator, last, seen = make(nulls_match), 0, list[Change]()
    for clock, restarts in [*sorted(cuts), (30, False)]:
        seen += step(operator, sides, last, clock)
        assert Counter(seen) == Counter(expected(sides, nulls_match, clock))
        operator, last = restarted(operator, lambda: make(nulls_match)) if restarts else operator, clock


def test_keys_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.operators.unmet.MIN_DEAD", 3)
    operator, seen = make(), list[Change]()
    sides = [
        [left(f"k{ts}", ts, ts + 3) for ts in range(1, 80)],
        [right(f"k{ts + 1}", ts, ts + 2) for ts in range(1, 80, 3)],
    ]
    for clock in range(1, 95):
        seen += step(operator, sides, clock - 1, clock)
        assert operator._keys.n_ids <= 4 * sum(log.n_rows for log in operator.logs().values()) + 3
    assert seen == expected(sides, False, 94)
