"""The first rows of each partition, against sorting what is in the window.

Law: at T, of the tuples in their windows that agree in the partition, those are in the answer whose number is more than
`first`, and at most `last` as the function counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.accumulators.manner import SortKey
from sash.operators.keyed import MIN_DEAD
from sash.operators.operator import export_live
from sash.operators.top_k import TopK, TopKSpec
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.profiles import everyday
from support.steps import Lived, alive_at, amount_at, changes_of, due, restarted, signed

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("w", pa.float64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
WINDOW_US = 6
UP, DOWN = SortKey(), SortKey(is_descending=True)
BY_CLOCK, BY_NEGATIVES = False, True


def spec_of(last: int = 2, by_negatives: bool = BY_CLOCK, **more) -> TopKSpec:
    given = {"columns": ("k", "v", "w"), "partition_by": (), "order": (("v", UP),), "window_us": WINDOW_US, **more}
    return TopKSpec(last=last, expires_by_negatives=by_negatives, **given)


def lived(k: str | None, v: int | None, ts: int, back: int | None = None, w: float | None = 0.5) -> Lived:
    return Lived((k, v, w), ts, ts + WINDOW_US, back)


def run(spec: TopKSpec, lives: list[Lived], clocks: Iterable[int]) -> list:
    operator, seen, last = TopK(spec, SCHEMA), [], 0
    for clock in clocks:
        batch = signed(due(lives, last, clock, spec.expires_by_negatives), COLUMNS)
        seen += changes_of(operator.process([batch], clock))
        last = clock
    return seen


def first_rows(rows: Iterable[tuple], spec: TopKSpec) -> Counter[tuple]:
    """The law, by sorting."""
    partitions: dict[tuple, list[tuple]] = defaultdict(list)
    for row in rows:
        partitions[tuple(row[COLUMNS.get_field_index(name)] for name in spec.partition_by)].append(row)
    found: Counter[tuple] = Counter()
    for members in partitions.values():
        members.sort(key=lambda row: (class_of(row, spec), tuple(rank_of(value, UP) for value in row)))
        classes = [class_of(row, spec) for row in members]
        for place, row in enumerate(members):
            before = [each for each in classes if each < classes[place]]
            number = {"row_number": place, "rank": len(before), "dense_rank": len(set(before))}[spec.function] + 1
            found[row] += place >= spec.first and number <= spec.last
    return Counter({row: n for row, n in found.items() if n})


def class_of(row: tuple, spec: TopKSpec) -> tuple:
    return tuple(rank_of(row[COLUMNS.get_field_index(name)], key) for name, key in spec.order)


def rank_of(value: float | str | None, key: SortKey) -> tuple:
    if value is None:
        return (0 if key.nulls_first else 2,)
    return (1, -value if key.is_descending and not isinstance(value, str) else value)


def test_a_row_that_comes_before_others_takes_their_place() -> None:
    """
    in    5 [1, 7)   3 [2, 8)   7 [3, 9)   1 [4, 10)     LIMIT 2    +5   +3   -5 +1 at 4   7 at 8, when 3 has gone
    """
    lives = [lived("a", v, ts) for v, ts in ((5, 1), (3, 2), (7, 3), (1, 4))]
    assert run(spec_of(), lives, range(1, 12)) == [
        (1, 1, 7, ("a", 5, 0.5)),
        (1, 2, 8, ("a", 3, 0.5)),
        (-1, 4, 7, ("a", 5, 0.5)),
        (1, 4, 10, ("a", 1, 0.5)),
        (1, 8, 9, ("a", 7, 0.5)),
    ]


def test_rows_that_are_equal_in_order_are_placed_by_their_columns() -> None:
    lives = [lived(k, 1, 1, w=w) for k, w in (("b", 0.5), ("a", None), ("a", 2.5), (None, 0.5))]
    seen = run(spec_of(3), lives, [1])
    assert [values for _, _, _, values in seen] == [("a", 1, 2.5), ("a", 1, None), ("b", 1, 0.5)]


def test_of_equal_rows_the_first_to_expire_are_shown() -> None:
    """So one more of them changes nothing, and when one leaves, the next takes its place."""
    lives = [lived("a", 1, 1), lived("a", 1, 3), lived("a", 1, 5)]
    assert run(spec_of(1), lives, range(1, 12)) == [
        (1, 1, 7, ("a", 1, 0.5)),
        (1, 7, 9, ("a", 1, 0.5)),
        (1, 9, 11, ("a", 1, 0.5)),
    ]


@pytest.mark.parametrize(
    ("function", "shown"), [("row_number", [1, 1]), ("rank", [1, 1, 1]), ("dense_rank", [1, 1, 1, 4])]
)
def test_functions_count_rows_equals_and_classes(function: str, shown: list[int]) -> None:
    lives = [lived(k, v, 1) for k, v in (("a", 1), ("b", 1), ("c", 1), ("d", 4), ("e", 5))]
    seen = run(spec_of(2, function=function), lives, [1])
    assert [values[1] for _, _, _, values in seen] == shown


def test_what_comes_and_goes_at_one_instant_does_not_show() -> None:
    """-5 and +5 of one instant, the same row, as the row of a group that comes out the same."""
    operator = TopK(spec_of(1, BY_NEGATIVES, window_us=None), SCHEMA)
    row = ("a", 5, 0.5)
    operator.process([signed([(1, 1, NEVER, row), (1, 1, NEVER, ("a", 7, 0.5))], COLUMNS)], 1)
    assert changes_of(operator.process([signed([(-1, 3, NEVER, row), (1, 3, NEVER, row)], COLUMNS)], 3)) == []


SPECS = st.builds(
    spec_of,
    last=st.integers(3, 5),
    first=st.integers(0, 2),
    by_negatives=st.booleans(),
    partition_by=st.sampled_from([(), ("k",)]),
    order=st.sampled_from(
        [(), (("v", UP),), (("v", DOWN), ("w", SortKey(nulls_first=True))), (("v", SortKey(True, True)),)]
    ),
    function=st.sampled_from(["row_number", "rank", "dense_rank"]),
    id_column=st.sampled_from([None, "_id.row"]),
)
LIVES = st.lists(
    st.builds(
        lambda k, v, w, ts, after: lived(k, v, ts, None if after is None else ts + after, w),
        st.sampled_from(["a", "b"]),
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from([0.5, None]),
        st.integers(1, 14),
        st.none() | st.integers(1, 5),
    ),
    max_size=25,
)
CUTS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5)


@given(spec=SPECS, lives=LIVES, cuts=CUTS)
@example(spec_of(1), [lived("a", 2, 1), lived("a", 1, 2, back=4)], [(3, True), (4, True)])
@example(spec_of(2, function="rank"), [lived("a", 1, 1), lived("a", 2, 1), lived("b", 2, 1), lived("a", 0, 2)], [])
def test_the_answer_is_the_first_rows_of_the_window(spec: TopKSpec, lives: list[Lived], cuts) -> None:
    operator, seen, last = TopK(spec, SCHEMA), [], 0
    for clock, restarts in [*sorted(cuts), (30, False)]:
        batch = signed(due(lives, last, clock, spec.expires_by_negatives), COLUMNS)
        seen += changes_of(operator.process([batch], clock))
        last = max(last, clock)
        operator = restarted(operator, lambda: TopK(spec, SCHEMA)) if restarts else operator
    seen = [(op, ts, expires, values[:3]) for op, ts, expires, values in seen]
    for instant in range(22):
        expected = first_rows(alive_at(lives, instant).elements(), spec)
        assert amount_at(seen, instant, spec.expires_by_negatives) == expected
    assert operator.logs()["window"].n_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("order", everyday([DOWN], [UP, DOWN]))
def test_a_large_partition_is_in_order_at_its_beginning_alone(function: str, order: SortKey) -> None:
    """6,000 rows come, and then leave from either end: most are looked at again when those before them have left."""
    spec = spec_of(3, function=function, order=(("v", order),), window_us=None)
    operator, n_rows = TopK(spec, SCHEMA), 6_000
    rows = [("a", (7_919 * number) % n_rows // 2, 0.5 * (number % 2)) for number in range(n_rows)]
    seen = changes_of(operator.process([signed([(1, 1, NEVER, row) for row in rows], COLUMNS)], 1))
    for step, leaving in enumerate((sorted(rows)[: n_rows // 2], sorted(rows)[n_rows // 2 : n_rows - 50])):
        changes = [(-1, step + 2, NEVER, row) for row in leaving]
        seen += changes_of(operator.process([signed(changes, COLUMNS)], step + 2))
    for instant, left in ((1, rows), (2, sorted(rows)[n_rows // 2 :]), (3, sorted(rows)[n_rows - 50 :])):
        assert amount_at(seen, instant, True) == first_rows(left, spec)


def test_rows_that_are_gone_leave_nothing() -> None:
    """New rows in every step: what is kept follows the window, not the run."""
    arena, sizes = Memory(), []
    operator = TopK(spec_of(partition_by=("k",)), SCHEMA)
    operator.reset(arena)
    for step in range(30):
        lives = [lived(f"{step}.{number % 300}", number, 10 * step + 1) for number in range(500)]
        operator.process([signed(due(lives, 10 * step, 10 * step + 9, False), COLUMNS)], 10 * step + 9)
        assert operator.logs()["window"].n_rows == 0
        assert operator._keys.n_ids <= MIN_DEAD + 500
        sizes.append(len(dump(export_live(operator), arena)))
    assert max(sizes[20:]) <= max(sizes[:20]) + 64
