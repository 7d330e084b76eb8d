"""Left tuples that pass by the right ones, against counting both sides.

Law: at T, of n equal left tuples in their windows with r right tuples in theirs that have the same key,
     absent: n if r = 0;  present: n if r > 0;  except_all: max(n - r, 0);  intersect_all: min(n, r)   pass.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.membership import RULES, Membership, MembershipSpec
from sash.operators.operator import export_live
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.steps import Change, Lived, alive_at, amount_at, changes_of, due, restarted, signed

LEFT, RIGHT = pa.schema([("v", pa.string())]), pa.schema([("w", pa.string())])
SCHEMAS = [pa.schema([*columns, *SIGNED_FIELDS]) for columns in (LEFT, RIGHT)]
BY_CLOCK, BY_NEGATIVES = False, True
PASSES = {
    "absent": lambda n, r: n if r == 0 else 0,
    "present": lambda n, r: n if r > 0 else 0,
    "except_all": lambda n, r: max(n - r, 0),
    "intersect_all": lambda n, r: min(n, r),
}


def make(
    rule: str, by_negatives: bool = BY_CLOCK, nulls_match: bool = True, ids: tuple[str, ...] = (), window_us: int = 9
) -> Membership:
    spec = MembershipSpec(rule, ("v",), ("v",), ("w",), (window_us, window_us), by_negatives, nulls_match, ids)
    return Membership(spec, *SCHEMAS)


def lived(value: str | None, ts: int, expires: int, back: int | None = None) -> Lived:
    return Lived((value,), ts, expires, back)


def step(operator: Membership, sides: list[list[Lived]], last: int, clock: int) -> list[Change]:
    is_told = operator.spec.expires_by_negatives
    batches = [signed(due(lives, last, clock, is_told), columns) for lives, columns in zip(sides, (LEFT, RIGHT))]
    return changes_of(operator.process(batches, clock))


def run(line, left: list[Lived], right: list[Lived], end: int = 20) -> list[Change]:
    """All changes, tick by tick."""
    return [change for clock in range(1, end) for change in step(line.then(), [left, right], clock - 1, clock)]


def without_expirations(changes: list[Change]) -> list[Change]:
    """Less the negatives of what expires, which are there only where expirations are told."""
    return [change for change in changes if change[0] > 0 or change[1] < change[2]]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_minus_invalidates_what_it_put_out_and_brings_it_back(by_negatives: bool, succession) -> None:
    """
    left     a [1, 9)
    right              a [3, 5)
    out     +a         -a at 3   +a at 5         the invalid tuple of Fig. 2a, and case 3 of Fig. 4
    """
    seen = run(succession(lambda: make("absent", by_negatives)), [lived("a", 1, 9)], [lived("a", 3, 5)])
    assert without_expirations(seen) == [(1, 1, 9, ("a",)), (-1, 3, 9, ("a",)), (1, 5, 9, ("a",))]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_semi_join_and_intersect_wait_for_the_right_side(by_negatives: bool, succession) -> None:
    """
    left     a [1, 9)
    right              a [3, 5)   a [4, 6)
    out               +a at 3              -a at 6
    """
    right = [lived("a", 3, 5), lived("a", 4, 6)]
    seen = run(succession(lambda: make("present", by_negatives)), [lived("a", 1, 9)], right)
    assert without_expirations(seen) == [(1, 3, 9, ("a",)), (-1, 6, 9, ("a",))]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_minus_all_counts(by_negatives: bool, succession) -> None:
    """
    left     a [1, 9)   a [2, 7)
    right                          a [3, 5)
    out     +a         +a         -a          +a at 5         of equal tuples the first to expire pass
    """
    left, right = [lived("a", 1, 9), lived("a", 2, 7)], [lived("a", 3, 5)]
    seen = run(succession(lambda: make("except_all", by_negatives)), left, right)
    assert without_expirations(seen) == [
        (1, 1, 9, ("a",)),
        (1, 2, 7, ("a",)),
        (-1, 3, 9, ("a",)),
        (1, 5, 9, ("a",)),
    ]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_intersect_all_counts(by_negatives: bool, succession) -> None:
    """
    left     a [1, 9)   a [2, 7)
    right                          a [3, 8)
    out                           +a to 7     then at 7 the other one, to 9, taken back at 8
    """
    left, right = [lived("a", 1, 9), lived("a", 2, 7)], [lived("a", 3, 8)]
    seen = run(succession(lambda: make("intersect_all", by_negatives)), left, right)
    assert without_expirations(seen) == [(1, 3, 7, ("a",)), (1, 7, 9, ("a",)), (-1, 8, 9, ("a",))]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_an_invalid_tuple_on_either_side(by_negatives: bool, succession) -> None:
    """
    left     a [1, 9), taken back at 6
    right              a [2, 9), taken back at 4
    out     +a        -a at 2   +a at 4   -a at 6
    """
    left, right = [lived("a", 1, 9, back=6)], [lived("a", 2, 9, back=4)]
    seen = run(succession(lambda: make("absent", by_negatives)), left, right)
    assert seen == [(1, 1, 9, ("a",)), (-1, 2, 9, ("a",)), (1, 4, 9, ("a",)), (-1, 6, 9, ("a",))]


def test_both_sides_at_one_instant_are_one_change() -> None:
    """What enters on both sides at 1 was never in the answer; what leaves on both at 5 is not brought back."""
    operator = make("absent")
    assert step(operator, [[lived("a", 1, 5)], [lived("a", 1, 5)]], 0, 9) == []


def test_null_equals_null_only_where_rows_are_compared_as_rows() -> None:
    left, right = [lived(None, 1, 9)], [lived(None, 2, 9)]
    kept = [(1, 1, 9, (None,))]
    assert step(make("absent"), [left, right], 0, 3) == [*kept, (-1, 2, 9, (None,))]
    assert step(make("absent", nulls_match=False), [left, right], 0, 3) == kept
    assert step(make("present"), [left, right], 0, 3) == [(1, 2, 9, (None,))]
    assert step(make("present", nulls_match=False), [left, right], 0, 3) == []


def test_keys_beside_the_content(succession) -> None:
    """`v IN (…)` where another column is compared: it is not passed on."""
    left = pa.schema([("v", pa.string()), ("_operand.0", pa.string())])
    spec = MembershipSpec("present", ("v",), ("_operand.0",), ("w",), (9, 9), BY_CLOCK)
    line = succession(lambda: Membership(spec, pa.schema([*left, *SIGNED_FIELDS]), SCHEMAS[1]))
    first = [signed([(1, 1, 9, ("x", "a")), (1, 1, 9, ("y", "b")), (1, 1, 9, ("z", None))], left), signed([], RIGHT)]
    second = [signed([], left), signed([(1, 2, 5, ("a",))], RIGHT)]
    assert changes_of(line.then().process(first, 1)) == []
    assert changes_of(line.then().process(second, 2)) == [(1, 2, 9, ("x",))]
    assert changes_of(line.then().process([signed([], left), signed([], RIGHT)], 6)) == [(-1, 5, 9, ("x",))]


def test_without_keys_any_row_counts(succession) -> None:
    """EXISTS without a condition."""
    spec = MembershipSpec("present", ("v",), (), (), (9, 9), BY_CLOCK)
    line = succession(lambda: Membership(spec, *SCHEMAS))
    assert changes_of(line.then().process([signed([(1, 1, 9, ("x",))], LEFT), signed([], RIGHT)], 1)) == []
    second = [signed([], LEFT), signed([(1, 2, 5, ("other",))], RIGHT)]
    assert changes_of(line.then().process(second, 2)) == [(1, 2, 9, ("x",))]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
@pytest.mark.parametrize("rule", RULES)
def test_a_row_and_its_negative_have_the_same_identity(rule: str, by_negatives: bool, succession) -> None:
    left = [lived("a", 1, 9), lived("a", 2, 7), lived("b", 2, 8), lived("a", 3, 9, back=5)]
    right = [lived("a", 3, 5), lived("b", 3, 4), lived("a", 6, 8)]
    seen = run(succession(lambda: make(rule, by_negatives, ids=("_id.row", "_id.expires"))), left, right)
    assert {values[2] == expires for _, _, expires, values in seen} == {True}
    count: Counter[tuple] = Counter()
    for op, _, _, values in seen:
        count[values] += op
        assert count[values] >= 0
    assert len({values[:2] for values in count}) == 2


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_a_row_that_comes_later_has_an_identity_of_its_own(by_negatives: bool, succession) -> None:
    """Also after a restart, which must not begin to count anew while `a` is there."""
    left = [lived("a", 1, 9), lived("b", 2, 9), lived("c", 3, 9)]
    seen = run(succession(lambda: make("absent", by_negatives, ids=("_id.row", "_id.expires"))), left, [])
    assert len({values[1] for _, _, _, values in seen}) == 3


def test_equal_tuples_must_have_equal_keys_where_they_are_counted() -> None:
    with pytest.raises(AssertionError):
        MembershipSpec("except_all", ("v",), ("other",), ("w",), (9, 9), BY_CLOCK)


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 12), st.integers(1, 9), st.none() | st.integers(1, 8)),
    max_size=10,
).map(
    lambda rows: [
        lived(value, ts, ts + life, ts + after if after is not None and after < life else None)
        for value, ts, life, after in rows
    ]
)
CUTS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("window_us", [9, 64])
@given(left=ROWS, right=ROWS, cuts=CUTS)
@example([lived("a", 1, 7)], [lived("a", 2, 4), lived("a", 2, 5)], [(2, False), (4, True)])
@example([lived("a", 1, 9), lived("a", 2, 4)], [lived("a", 3, 9, back=5)], [(2, True), (3, True), (4, True)])
def test_as_many_pass_as_the_rule_says(rule: str, window_us: int, by_negatives: bool, left, right, cuts) -> None:
    """A block holds tuples that expire within an eighth of the window of each other."""
    operator, seen, last = make(rule, by_negatives, window_us=window_us), [], 0
    for clock, restarts in [*sorted(cuts), (30, False)]:
        seen += step(operator, [left, right], last, clock)
        last = max(last, clock)
        operator = restarted(operator, lambda: make(rule, by_negatives, window_us=window_us)) if restarts else operator
    for instant in range(23):
        held, others = alive_at(left, instant), alive_at(right, instant)
        expected = {values: PASSES[rule](n, others[values]) for values, n in held.items()}
        assert amount_at(seen, instant, by_negatives) == {values: n for values, n in expected.items() if n}
    assert {name: log.n_rows for name, log in operator.logs().items()} == {"left": 0, "right": 0}


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_contents_and_keys_that_are_gone_leave_nothing(by_negatives: bool) -> None:
    """New rows in every step: what is kept follows the windows, not the run."""
    arena, sizes = Memory(), []
    operator = make("absent", by_negatives)
    operator.reset(arena)
    for number in range(30):
        start = 10 * number
        sides = [[lived(f"{number}.{row}", start + 1, start + 5) for row in range(400)] for _ in range(2)]
        assert step(operator, [sides[0], sides[1][:200]], start, start + 9)
        assert operator.logs()["left"].n_rows == operator.logs()["right"].n_rows == 0
        assert operator._contents.n_ids + operator._n_keys <= 1024 + 800
        sizes.append(len(dump(export_live(operator), arena)))
    assert max(sizes[20:]) <= max(sizes[:20]) + 64


def test_many_changes_at_once_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One right tuple takes back more than a call of the kernel has room for."""
    monkeypatch.setattr("sash.operators.membership.CHANGES_PER_CALL", 2)
    operator = make("absent")
    assert len(step(operator, [[lived("a", 1, NEVER)] * 7, []], 0, 1)) == 7
    assert step(operator, [[], [lived("a", 2, 3)]], 1, 2) == [(-1, 2, NEVER, ("a",))] * 7


def test_after_a_restart_no_identity_is_given_twice() -> None:
    """
    left     a [1, 9)                 b [5, 9)        b was known of the right side alone when it restarted
    right    b [1, 4)      restart
    """
    sides = [[lived("a", 1, 9), lived("b", 5, 9)], [lived("b", 1, 4)]]
    operator = make("absent", ids=("_id.content", "_id.expires"))
    ((*_, (_, first, _)),) = step(operator, sides, 0, 2)
    operator = restarted(operator, lambda: make("absent", ids=("_id.content", "_id.expires")))
    ((*_, (value, second, _)),) = step(operator, sides, 2, 5)
    assert value == "b"
    assert first != second
