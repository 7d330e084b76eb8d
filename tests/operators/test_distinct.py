"""Every row once, against the set of the tuples in the window.

Law: a row is in the answer at T, once, iff a tuple equal to it is in its window at T.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.distinct import Distinct, DistinctSpec
from sash.operators.keyed import MIN_DEAD
from sash.operators.operator import export_live
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.steps import Lived, alive_at, amount_at, changes_of, due, restarted, signed

COLUMNS = pa.schema([("v", pa.string())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
WINDOW_US = 6
BY_CLOCK, BY_NEGATIVES = False, True


def make(by_negatives: bool = BY_CLOCK, window_us: int | None = WINDOW_US, ids: tuple[str, ...] = ()) -> Distinct:
    return Distinct(DistinctSpec(("v",), window_us, by_negatives, ids), SCHEMA)


def lived(value: str | None, ts: int, back: int | None = None) -> Lived:
    return Lived((value,), ts, ts + WINDOW_US, back)


FIGURE_5 = [lived(value, ts) for value, ts in [("a", 2), ("d", 4), ("a", 6), ("d", 7), ("a", 8), ("e", 9)]]
"""Stream S1: the text names <a, 2>, <a, 6>, <a, 8>, <d, 4> and <d, 7>; of <e> only that it is there at 10."""


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_figure_5_of_pipelines(by_negatives: bool, succession) -> None:
    """
    clock      2        4        8          9        10            13       14
    in        +a       +d       +a         +e
    leaves                      a of 2               d of 4        d of 7   a of 8
    out       +a       +d       +a to 14   +e       +d to 13

    At 8 there are <a, 6> and <a, 8>: the one that expires last is shown, so that no change is needed at 12.
    At 10, <d, [7, 10]>: the tuple of 7, shown from 10 on.
    """
    line, seen = succession(lambda: make(by_negatives)), []
    for clock in range(1, 16):
        batch = signed(due(FIGURE_5, clock - 1, clock, by_negatives), COLUMNS)
        seen += changes_of(line.then().process([batch], clock))
    entering = [change for change in seen if change[0] > 0]
    assert entering == [
        (1, 2, 8, ("a",)),
        (1, 4, 10, ("d",)),
        (1, 8, 14, ("a",)),
        (1, 9, 15, ("e",)),
        (1, 10, 13, ("d",)),
    ]
    leaving = [(-1, expires, expires, values) for _, _, expires, values in entering]
    told = [] if not by_negatives else sorted(leaving, key=lambda change: change[1])
    assert [change for change in seen if change[0] < 0] == told


def test_equal_tuples_show_once_and_the_first_stays() -> None:
    """
    in    a [1, 7)   a [3, 9)        out   +a [1, 7)   then +a [7, 9)
    """
    operator = make()
    assert changes_of(operator.process([signed(due([lived("a", 1), lived("a", 3)], 0, 3, False), COLUMNS)], 3)) == [
        (1, 1, 7, ("a",))
    ]
    assert changes_of(operator.process([signed([], COLUMNS)], 7)) == [(1, 7, 9, ("a",))]
    assert changes_of(operator.process([signed([], COLUMNS)], 9)) == []
    assert {name: log.n_rows for name, log in operator.logs().items()} == {"window": 0, "answer": 0}


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_an_early_negative_of_the_shown_one_is_passed_on_and_replaced(by_negatives: bool, succession) -> None:
    """
    in    a [1, 7)   a [3, 9)   -a of 1 at 5         out   +a [1, 7)   at 5: -a, +a [5, 9)
    """
    lives = [lived("a", 1, back=5), lived("a", 3)]
    line, seen = succession(lambda: make(by_negatives)), []
    for clock in range(1, 10):
        batch = signed(due(lives, clock - 1, clock, by_negatives), COLUMNS)
        seen += changes_of(line.then().process([batch], clock))
    last = [] if not by_negatives else [(-1, 9, 9, ("a",))]
    assert seen == [(1, 1, 7, ("a",)), (-1, 5, 7, ("a",)), (1, 5, 9, ("a",)), *last]


def test_an_early_negative_of_one_that_is_not_shown_is_kept_quiet() -> None:
    operator = make()
    operator.process([signed(due([lived("a", 1), lived("a", 3)], 0, 3, False), COLUMNS)], 3)
    assert changes_of(operator.process([signed([(-1, 5, 9, ("a",))], COLUMNS)], 5)) == []
    assert changes_of(operator.process([signed([], COLUMNS)], 20)) == []


def test_null_is_a_value() -> None:
    operator = make()
    batch = signed(due([lived(None, 1), lived(None, 2), lived("", 2)], 0, 2, False), COLUMNS)
    assert changes_of(operator.process([batch], 2)) == [(1, 1, 7, (None,)), (1, 2, 8, ("",))]


def test_what_comes_and_goes_at_one_instant_does_not_show() -> None:
    """-a and +a of one instant, the same row: nothing changes."""
    operator = make(BY_NEGATIVES, None)
    operator.process([signed([(1, 1, NEVER, ("a",))], COLUMNS)], 1)
    both = signed([(-1, 3, NEVER, ("a",)), (1, 3, NEVER, ("a",))], COLUMNS)
    assert changes_of(operator.process([both], 3)) == []


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_a_row_keeps_its_identity_as_long_as_it_is_there(by_negatives: bool, succession) -> None:
    """`_id.row` is that of the key, `_id.expires` tells apart what is shown of it one after the other."""
    lives = [lived("a", 1), lived("b", 2, back=4), lived("a", 5), lived("b", 5)]
    line, seen = succession(lambda: make(by_negatives, ids=("_id.row", "_id.expires"))), []
    for clock in range(1, 9):
        batch = signed(due(lives, clock - 1, clock, by_negatives), COLUMNS)
        seen += changes_of(line.then().process([batch], clock))
    ids = {(value, row) for _, _, _, (value, row, _) in seen if value == "a"}
    assert len(ids) == 1
    for op, ts, expires, values in seen:
        assert values[2] == expires
        if op < 0:
            assert any(change[0] > 0 and change[1] <= ts and change[2:] == (expires, values) for change in seen)


LIVES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 14), st.none() | st.integers(1, 5)), max_size=12
).map(lambda rows: [lived(value, ts, None if after is None else ts + after) for value, ts, after in rows])
CUTS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=6)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
@pytest.mark.parametrize("window_us", [WINDOW_US, 64])
@given(lives=LIVES, cuts=CUTS)
@example([lived("a", 1, back=3), lived("a", 2)], [(2, True), (3, True)])
@example([lived("a", 1), lived("b", 2)], [(2, False), (7, True)])
def test_the_answer_is_the_set_of_the_window(window_us: int, by_negatives: bool, lives: list[Lived], cuts) -> None:
    """A block holds tuples that expire within an eighth of the window of each other."""
    operator, seen, last = make(by_negatives, window_us), [], 0
    for clock, restarts in [*sorted(cuts), (30, False)]:
        seen += changes_of(operator.process([signed(due(lives, last, clock, by_negatives), COLUMNS)], clock))
        last = max(last, clock)
        operator = restarted(operator, lambda: make(by_negatives, window_us)) if restarts else operator
    for instant in range(22):
        assert amount_at(seen, instant, by_negatives) == dict.fromkeys(alive_at(lives, instant), 1)
    assert {name: log.n_rows for name, log in operator.logs().items()} == {"window": 0, "answer": 0}


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_keys_that_are_gone_leave_nothing(by_negatives: bool) -> None:
    """New keys in every step: what is kept follows the window, not the run."""
    arena, sizes = Memory(), []
    operator = make(by_negatives)
    operator.reset(arena)
    for step in range(30):
        lives = [lived(f"{step}.{number}", 10 * step + 1) for number in range(500)]
        operator.process([signed(due(lives, 10 * step, 10 * step + 9, by_negatives), COLUMNS)], 10 * step + 9)
        assert operator.logs()["window"].n_rows == operator.logs()["answer"].n_rows == 0
        assert operator._keys.n_ids <= MIN_DEAD + 500
        sizes.append(len(dump(export_live(operator), arena)))
    assert max(sizes[20:]) <= max(sizes[:20]) + 64
