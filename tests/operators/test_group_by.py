"""Groups and their aggregates, against a sum over the tuples in the window.

Law: at T the answer has, for each group with a tuple in its window, the aggregates of these tuples that SQL would give.
Without keys there is one group, which is always there.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.group_by import GroupBy, GroupBySpec
from sash.operators.grouping import Call
from sash.operators.keyed import MIN_DEAD
from sash.operators.operator import export_live
from sash.store.batch import BEGINNING, NEVER, SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.steps import Change, Lived, amount_at, changes_of, due, restarted, signed

COLUMNS = pa.schema([("k", pa.string()), ("x", pa.int64()), ("time", pa.int64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
WINDOW_US = 3
SUM, COUNT = Call("sum", "x", "total", pa.int64()), Call("count", None, "n", pa.int64())
BY_CLOCK, BY_NEGATIVES = False, True


def make(by_negatives: bool = BY_CLOCK, **changes) -> GroupBy:
    spec = {"keys": ("k",), "calls": (SUM,), "window_us": WINDOW_US, "expires_by_negatives": by_negatives, **changes}
    return GroupBy(GroupBySpec(**spec), SCHEMA)


def lived(key: str | None, value: int | None, ts: int, back: int | None = None) -> Lived:
    return Lived((key, value, ts), ts, ts + WINDOW_US, back)


def run(line, lives: list[Lived], by_negatives: bool, end: int = 9) -> list[Change]:
    """All changes, tick by tick."""
    seen = []
    for clock in range(1, end):
        batch = signed(due(lives, clock - 1, clock, by_negatives), COLUMNS)
        seen += changes_of(line.then().process([batch], clock))
    return seen


def brief(changes: list[Change]) -> list[tuple]:
    """Less the expiry, which a row of a group never has."""
    assert all(expires == NEVER for _, _, expires, _ in changes)
    return [(op, ts, *values) for op, ts, _, values in changes]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_the_four_cases_of_figure_4(by_negatives: bool, succession) -> None:
    """
    clock      1        2               4                  5
    in        +a 5     +a 7
    leaves                              5                  7
    out       +a 5     -a 5  +a 12      -a 12  +a 7        -a 7
              case 1   case 2, case 1   case 4, case 3     case 4

    A row is added (case 1) or taken back (2) because a tuple came, added (3) or taken back (4) because one left.
    """
    lives = [lived("a", 5, 1), lived("a", 7, 2)]
    seen = run(succession(lambda: make(by_negatives)), lives, by_negatives)
    assert brief(seen) == [
        (1, 1, "a", 5),
        (-1, 2, "a", 5),
        (1, 2, "a", 12),
        (-1, 4, "a", 12),
        (1, 4, "a", 7),
        (-1, 5, "a", 7),
    ]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_where_rows_replace_each_other_only_a_group_that_goes_has_a_negative(by_negatives: bool, succession) -> None:
    lives = [lived("a", 5, 1), lived("a", 7, 2)]
    seen = run(succession(lambda: make(by_negatives, retracts=False)), lives, by_negatives)
    assert brief(seen) == [(1, 1, "a", 5), (1, 2, "a", 12), (1, 4, "a", 7), (-1, 5, "a", 7)]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_an_early_negative_counts_once(by_negatives: bool, succession) -> None:
    """
    in    a 5 [1, 4), taken back at 3     a 7 [2, 5)         out  5 at 1, 12 at 2, 7 at 3, nothing at 4, gone at 5
    """
    lives = [lived("a", 5, 1, back=3), lived("a", 7, 2)]
    seen = run(succession(lambda: make(by_negatives, retracts=False)), lives, by_negatives)
    assert brief(seen) == [(1, 1, "a", 5), (1, 2, "a", 12), (1, 3, "a", 7), (-1, 5, "a", 7)]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_what_happens_at_one_instant_changes_a_row_once_or_not_at_all(by_negatives: bool, succession) -> None:
    """At 4 a 5 leaves and another comes: the sum is the same, and no change is written."""
    lives = [lived("a", 5, 1), lived("a", 5, 4), lived("b", 1, 2), lived("b", 2, 2)]
    seen = run(succession(lambda: make(by_negatives)), lives, by_negatives)
    assert brief(seen) == [(1, 1, "a", 5), (1, 2, "b", 3), (-1, 5, "b", 3), (-1, 7, "a", 5)]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_having_lets_a_group_come_and_go(by_negatives: bool, succession) -> None:
    """
    SUM > 6     5 at 1: not yet     12 at 2: enters     7 at 4: changed     0 at 5: gone
    """
    lives = [lived("a", 5, 1), lived("a", 7, 2)]
    for retracts, expected in [
        (True, [(1, 2, "a", 12), (-1, 4, "a", 12), (1, 4, "a", 7), (-1, 5, "a", 7)]),
        (False, [(1, 2, "a", 12), (1, 4, "a", 7), (-1, 5, "a", 7)]),
    ]:
        line = succession(lambda retracts=retracts: make(by_negatives, having='"total" > 6', retracts=retracts))
        assert brief(run(line, lives, by_negatives)) == expected


def test_a_group_that_having_refuses_while_it_is_there_is_taken_back() -> None:
    operator = make(having='"total" < 10', retracts=False)
    batch = signed(due([lived("a", 5, 1), lived("a", 7, 2)], 0, 2, False), COLUMNS)
    assert brief(changes_of(operator.process([batch], 2))) == [(1, 1, "a", 5), (-1, 2, "a", 5)]
    assert brief(changes_of(operator.process([signed([], COLUMNS)], 4))) == [(1, 4, "a", 7)]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_the_group_of_everything_is_always_there(by_negatives: bool, succession) -> None:
    """
    COUNT, SUM     0, NULL from the beginning     1, 5 at 1     2, 12 at 2     1, 7 at 4     0, NULL at 5
    """
    lives = [lived("a", 5, 1), lived("b", 7, 2)]
    line = succession(lambda: make(by_negatives, keys=(), calls=(COUNT, SUM), retracts=False))
    assert brief(run(line, lives, by_negatives)) == [
        (1, BEGINNING, 0, None),
        (1, 1, 1, 5),
        (1, 2, 2, 12),
        (1, 4, 1, 7),
        (1, 5, 0, None),
    ]


def test_the_row_of_nothing_is_subject_to_having_too() -> None:
    operator = make(keys=(), calls=(COUNT,), having='"n" > 0')
    assert brief(changes_of(operator.process([signed([], COLUMNS)], 0))) == []
    batch = signed(due([lived("a", 5, 1)], 0, 9, False), COLUMNS)
    assert brief(changes_of(operator.process([batch], 9))) == [(1, 1, 1), (-1, 4, 1)]


def test_null_is_a_group_and_its_aggregates_may_be_null() -> None:
    operator = make(calls=(SUM, COUNT))
    batch = signed(due([lived(None, None, 1), lived(None, None, 2)], 0, 2, False), COLUMNS)
    assert brief(changes_of(operator.process([batch], 2))) == [
        (1, 1, None, None, 1),
        (-1, 2, None, None, 1),
        (1, 2, None, None, 2),
    ]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_first_and_last_go_by_the_time_column(by_negatives: bool, succession) -> None:
    calls = (Call("first", "x", "first", pa.int64()), Call("last", "x", "last", pa.int64()))
    lives = [lived("a", 5, 1), lived("a", 7, 2)]
    line = succession(lambda: make(by_negatives, calls=calls, time="time", retracts=False))
    assert brief(run(line, lives, by_negatives)) == [
        (1, 1, "a", 5, 5),
        (1, 2, "a", 5, 7),
        (1, 4, "a", 7, 7),
        (-1, 5, "a", 7, 7),
    ]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_a_row_and_its_negative_have_the_same_identity(by_negatives: bool, succession) -> None:
    lives = [lived("a", 5, 1), lived("b", 1, 1), lived("a", 7, 2)]
    seen = run(succession(lambda: make(by_negatives, id_column="_id.row")), lives, by_negatives)
    assert len({values[-1] for _, _, _, values in seen}) == 2
    for op, ts, _, values in seen:
        assert op > 0 or any(change[0] > 0 and change[1] < ts and change[3] == values for change in seen)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_a_group_that_comes_later_has_an_identity_of_its_own(by_negatives: bool, succession) -> None:
    """Also after a restart, which must not begin to count anew while `a` is there."""
    lives = [lived("a", 5, 1), lived("b", 7, 2), lived("c", 1, 3)]
    seen = run(succession(lambda: make(by_negatives, id_column="_id.row")), lives, by_negatives)
    assert len({values[-1] for _, _, _, values in seen}) == 3


def test_tuples_that_never_expire_leave_when_they_are_taken_back(succession) -> None:
    """As behind a window of rows."""
    lives = [Lived(("a", 5, 1), 1, NEVER, 4), Lived(("a", 7, 2), 2, NEVER, 6), Lived(("a", 1, 6), 6, NEVER)]
    seen = run(succession(lambda: make(BY_NEGATIVES, window_us=None, retracts=False)), lives, BY_NEGATIVES)
    assert brief(seen) == [(1, 1, "a", 5), (1, 2, "a", 12), (1, 4, "a", 7), (1, 6, "a", 1)]


LIVES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.none() | st.integers(-2, 2),
        st.integers(1, 12),
        st.none() | st.integers(1, 2),
    ),
    max_size=12,
).map(lambda rows: [lived(key, value, ts, None if after is None else ts + after) for key, value, ts, after in rows])
CUTS = st.lists(st.tuples(st.integers(0, 16), st.booleans()), max_size=6)


def totals(lives: list[Lived], instant: int) -> Counter[tuple]:
    """The groups of an instant with SUM, COUNT and MAX, in plain Python."""
    groups: dict[str | None, list[int | None]] = defaultdict(list)
    for each in lives:
        if each.ts <= instant < each.end:
            groups[each.values[0]].append(each.values[1])
    rows = []
    for key, values in groups.items():
        known = [value for value in values if value is not None]
        rows.append((key, sum(known) if known else None, len(values), max(known, default=None)))
    return Counter(rows)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
@pytest.mark.parametrize("window_us", [WINDOW_US, 64])
@given(lives=LIVES, cuts=CUTS)
@example([lived("a", 1, 1, back=2), lived("a", None, 1)], [(1, True), (2, True)])
@example([lived("a", 1, 1), lived("a", 2, 2)], [(2, False), (4, True)])
def test_the_answer_is_the_sum_of_the_window(window_us: int, by_negatives: bool, lives: list[Lived], cuts) -> None:
    """A block holds tuples that expire within an eighth of the window of each other."""
    given = {"calls": (SUM, COUNT, Call("max", "x", "top", pa.int64())), "window_us": window_us}
    operator, seen, last = make(by_negatives, **given), [], 0
    for clock, restarts in [*sorted(cuts), (30, False)]:
        seen += changes_of(operator.process([signed(due(lives, last, clock, by_negatives), COLUMNS)], clock))
        last = max(last, clock)
        operator = restarted(operator, lambda: make(by_negatives, **given)) if restarts else operator
    for instant in range(18):
        assert amount_at(seen, instant, is_told=True) == totals(lives, instant)
    assert operator.logs()["window"].n_rows == 0


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_groups_that_are_gone_leave_nothing(by_negatives: bool) -> None:
    """New groups in every step: what is kept follows the window, not the run."""
    arena, sizes = Memory(), []
    operator = make(by_negatives, calls=(SUM, COUNT, Call("max", "x", "top", pa.int64())))
    operator.reset(arena)
    for step in range(30):
        lives = [lived(f"{step}.{number}", number, 10 * step + 1) for number in range(500)]
        operator.process([signed(due(lives, 10 * step, 10 * step + 9, by_negatives), COLUMNS)], 10 * step + 9)
        assert operator.logs()["window"].n_rows == 0
        assert operator._keys.n_ids <= MIN_DEAD + 500
        sizes.append(len(dump(export_live(operator), arena)))
    assert max(sizes[20:]) <= max(sizes[:20]) + 64
