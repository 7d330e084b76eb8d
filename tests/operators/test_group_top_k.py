"""The first of rows that groups have, against sorting what is there.

Law: at T, those are in the answer whose number among the rows of all groups is more than `first`, and at most `last` as
the function counts. A group has one row at most, which is taken back by its key.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators import front_rows, group_top_k, keyed
from sash.operators.accumulators.manner import SortKey
from sash.operators.group_top_k import GroupTopK, serves
from sash.operators.operator import export_live
from sash.operators.row_order import LeadingColumn
from sash.operators.top_k import TopKSpec
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.steps import Change, amount_at, changes_of, restarted, signed

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("w", pa.float64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
UP, DOWN = SortKey(), SortKey(is_descending=True)
GONE = None
END = 12


def spec_of(last: int = 2, **more) -> TopKSpec:
    given = {"columns": ("k", "v", "w"), "partition_by": (), "order": (("v", UP),), "unique_by": ("k",), **more}
    return TopKSpec(last=last, window_us=None, expires_by_negatives=True, **given)


def changes_from(rows: Iterable[tuple[int, str, tuple | None]]) -> list[Change]:
    """Signed tuples of what the rows of keys are at times: the values beside the key, or GONE."""
    now: dict[str, tuple] = {}
    changes: list[Change] = []
    for ts, k, values in sorted(rows, key=lambda row: row[:2]):
        if k in now:
            changes.append((-1, ts, NEVER, (k, *now.pop(k))))
        if values is not None:
            now[k] = values
            changes.append((1, ts, NEVER, (k, *values)))
    return changes


def run(spec: TopKSpec, changes: Sequence[Change], clocks: Iterable[int]) -> list[Change]:
    operator, seen, last = GroupTopK(spec, SCHEMA), [], 0
    for clock in clocks:
        batch = [change for change in changes if last < change[1] <= clock]
        seen += changes_of(operator.process([signed(batch, COLUMNS)], clock))
        last = clock
    return seen


def first_rows(rows: Iterable[tuple], spec: TopKSpec) -> Counter[tuple]:
    """The law, by sorting."""
    members = sorted(rows, key=lambda row: (class_of(row, spec), tuple(rank_of(value, UP) for value in row)))
    classes = [class_of(row, spec) for row in members]
    firsts = {each: place for place, each in reversed(list(enumerate(classes)))}
    numbers = [place if spec.function == "row_number" else firsts[each] for place, each in enumerate(classes)]
    return Counter(row for place, row in enumerate(members) if place >= spec.first and numbers[place] < spec.last)


def class_of(row: tuple, spec: TopKSpec) -> tuple:
    return tuple(rank_of(row[COLUMNS.get_field_index(name)], key) for name, key in spec.order)


def rank_of(value: float | str | None, key: SortKey) -> tuple:
    if value is None:
        return (0 if key.nulls_first else 2,)
    return (1, -value if key.is_descending and not isinstance(value, str) else value)


def there_at(changes: Sequence[Change], instant: int) -> list[tuple]:
    return list(amount_at(changes, instant, True).elements())


def test_a_row_that_comes_before_others_takes_their_place() -> None:
    """
    in    +a 5 at 1   +b 3 at 2   -a 5 +a 2 at 4   b gone at 6     LIMIT 1
    """
    changes = changes_from([(1, "a", (5, 0.5)), (2, "b", (3, 0.5)), (4, "a", (2, 0.5)), (6, "b", GONE)])
    assert run(spec_of(1), changes, [3, 9]) == [
        (1, 1, NEVER, ("a", 5, 0.5)),
        (-1, 2, NEVER, ("a", 5, 0.5)),
        (1, 2, NEVER, ("b", 3, 0.5)),
        (-1, 4, NEVER, ("b", 3, 0.5)),
        (1, 4, NEVER, ("a", 2, 0.5)),
    ]


def test_a_row_that_comes_out_the_same_does_not_show() -> None:
    """As behind a projection that leaves nothing of what has changed; at another instant it shows."""
    row = ("a", 5, 0.5)
    operator = GroupTopK(spec_of(1), SCHEMA)
    operator.process([signed([(1, 1, NEVER, row), (1, 1, NEVER, ("b", 7, 0.5))], COLUMNS)], 1)
    again = [(-1, 3, NEVER, row), (1, 3, NEVER, row), (-1, 4, NEVER, row), (1, 4, NEVER, row), (-1, 5, NEVER, row)]
    assert changes_of(operator.process([signed(again, COLUMNS)], 5)) == [
        (-1, 5, NEVER, row),
        (1, 5, NEVER, ("b", 7, 0.5)),
    ]


def test_what_goes_may_stand_behind_what_comes() -> None:
    """As GROUP BY puts it out: first all that is taken back, then all that is new; or the other way round."""
    rows = changes_from((ts, k, (ts, 0.5)) for ts in range(1, 6) for k in "abc")
    for arrival in (sorted(rows, key=lambda row: row[0]), sorted(rows, key=lambda row: -row[0]), rows[::-1]):
        assert changes_of(GroupTopK(spec_of(), SCHEMA).process([signed(arrival, COLUMNS)], 9)) == run(
            spec_of(), rows, [9]
        )


def test_zeros_are_shown_alike() -> None:
    seen = run(spec_of(), [(1, 1, NEVER, ("a", 1, -0.0))], [1])
    assert str(seen[0][3][2]) == "0.0"


@pytest.mark.parametrize(
    ("more", "is_served"),
    [
        ({}, True),
        ({"function": "rank"}, True),
        ({"function": "dense_rank"}, False),
        ({"partition_by": ("k",)}, False),
        ({"unique_by": ()}, False),
    ],
)
def test_who_is_served(more: dict, is_served: bool) -> None:
    assert serves(spec_of(**more)) == is_served


SPECS = st.builds(
    spec_of,
    last=st.integers(2, 4),
    first=st.integers(0, 1),
    order=st.sampled_from(
        [
            (),
            (("v", UP),),
            (("v", DOWN), ("w", SortKey(nulls_first=True))),
            (("v", SortKey(True, True)),),
            (("w", DOWN),),
            (("k", UP),),
        ]
    ),
    function=st.sampled_from(["row_number", "rank"]),
    id_column=st.sampled_from([None, "_id.row"]),
)
VALUES = st.tuples(st.sampled_from([1, 2, 3, 4, 5, None]), st.sampled_from([-1.5, 0.5, None]))
ROWS = st.dictionaries(
    st.tuples(st.integers(1, END), st.sampled_from("abcdefghijklmn")), st.none() | VALUES, min_size=20, max_size=70
)
CUTS = st.lists(st.tuples(st.integers(0, END), st.booleans()), max_size=6)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence moves, and numbers are given anew, among a handful of rows."""
    monkeypatch.setattr(group_top_k, "LEAST_IN_FRONT", 1)
    monkeypatch.setattr(group_top_k, "N_TIMES_SHOWN", 1)
    monkeypatch.setattr(group_top_k, "MAX_BLOCKS", 3)
    for module in (group_top_k, front_rows, keyed):
        monkeypatch.setattr(module, "MIN_DEAD", 2)


@pytest.mark.usefixtures("few_are_many")
def test_the_answer_is_the_first_rows_that_are_there() -> None:
    moved: Counter[str] = Counter()

    class Watched(GroupTopK):
        def _move_back(self, n_missing: int) -> None:
            moved["back"] += 1
            super()._move_back(n_missing)

        def _move_forth(self) -> None:
            before = self._fence
            super()._move_forth()
            moved["forth"] += self._fence != before

    @given(spec=SPECS, rows=ROWS, cuts=CUTS)
    @example(
        spec_of(2), {(1, k): (5, None) for k in "abcdefgh"} | {(2, "h"): (1, None), (3, "h"): (5, None)}, [(2, True)]
    )
    def check(spec: TopKSpec, rows: dict, cuts: list[tuple[int, bool]]) -> None:
        changes = changes_from((ts, k, values) for (ts, k), values in rows.items())
        operator, seen, last = Watched(spec, SCHEMA), [], 0
        for clock, restarts in [*sorted(cuts), (END, False)]:
            batch = [change for change in changes if last < change[1] <= clock]
            seen += changes_of(operator.process([signed(batch, COLUMNS)], clock))
            last = max(last, clock)
            operator = restarted(operator, lambda: Watched(spec, SCHEMA)) if restarts else operator
        seen = [(op, ts, expires, values[:3]) for op, ts, expires, values in seen]
        for instant in range(END + 1):
            assert amount_at(seen, instant, True) == first_rows(there_at(changes, instant), spec)
        assert all(abs(n) == 1 for n in Counter((ts, values) for _, ts, _, values in seen).values())

    check()
    assert moved["back"] > 0
    assert moved["forth"] > 0


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("order", [(), (("v", UP),)])
def test_rows_of_one_rank_are_on_one_side_of_the_fence(order: tuple) -> None:
    """Nine rows of rank 1, of which one comes later than the others: no tie may place it behind the fence."""
    spec = spec_of(2, function="rank", order=order)
    changes = changes_from([*((1, k, (5, 0.5)) for k in "abcdefgh"), (2, "z", (5, 0.5))])
    assert amount_at(run(spec, changes, [1, 2]), 2, True) == first_rows(there_at(changes, 2), spec)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["row_number", "rank"])
@pytest.mark.parametrize("order", [UP, DOWN])
def test_many_groups(function: str, order: SortKey) -> None:
    """5,000 groups, whose rows go up and down and leave from either end: the fence moves back and forth."""
    rng, n_groups = np.random.default_rng(7), 5_000
    spec = spec_of(3, function=function, order=(("v", order),))
    first = {(1, f"{k}"): (int(rng.integers(0, 4000)), 0.5) for k in range(n_groups)}
    rows: dict[tuple[int, str], tuple | None] = dict(first)
    for ts in range(2, 8):
        rows |= {(ts, f"{k}"): (int(rng.integers(0, 4000)), 0.5) for k in rng.integers(0, n_groups, 1_500)}
    by_value = sorted(range(n_groups), key=lambda k: first[1, f"{k}"])
    rows |= {(8, f"{k}"): GONE for k in by_value[: n_groups // 2]} | {(9, f"{k}"): GONE for k in by_value[2600:4990]}
    changes = changes_from((ts, k, values) for (ts, k), values in rows.items())
    seen = run(spec, changes, range(1, 10))
    for instant in range(1, 10):
        assert amount_at(seen, instant, True) == first_rows(there_at(changes, instant), spec)


def test_rows_that_are_gone_leave_nothing() -> None:
    """New groups in every step: what is kept follows what is there, not the run."""
    arena, sizes = Memory(), []
    operator = GroupTopK(spec_of(), SCHEMA)
    operator.reset(arena)
    for step in range(30):
        rows = {(10 * step + 1, f"{step}.{number}"): (number, 0.5) for number in range(500)}
        rows |= {(10 * step + 5, k): GONE for _, k in rows}
        batch = changes_from((ts, k, values) for (ts, k), values in rows.items())
        operator.process([signed(batch, COLUMNS)], 10 * step + 9)
        assert operator.logs()["window"].n_rows == 0
        sizes.append(len(dump(export_live(operator), arena)))
    assert operator._keys.n_ids <= keyed.MIN_DEAD + 500
    assert operator._front.n_entries <= keyed.MIN_DEAD + 500
    assert max(sizes[20:]) <= max(sizes[:20]) + 64


@pytest.mark.parametrize(
    "values",
    [
        [None, -(2**40), -1, 0, 1, 2**40],
        [None, float("-inf"), -2.5, 0.0, 1e300, float("inf"), float("nan")],
        [None, "", "a", "aa", "aaaaaaaaa", "aaaaaaaab", "b", "ä"],
        [None, False, True],
        pa.array([None, -(10**30), -5, 0, 7, 2**63, 10**30], pa.decimal128(38, 0)),
        pa.array([None, 0, 2**63, 2**64 - 1], pa.uint64()),
    ],
    ids=["integers", "floats", "strings", "booleans", "decimals", "unsigned"],
)
@pytest.mark.parametrize("key", [SortKey(a, b) for a, b in itertools.product([False, True], repeat=2)])
def test_words_are_in_the_order_of_rows(values: list | pa.Array, key: SortKey) -> None:
    """NULL first, then upwards, is how the values stand here."""
    column = pa.array(values)
    table = pa.table({"x": column})
    words = LeadingColumn((("x", key),), (), table.schema).words(table).tolist()
    ordered = words[:0:-1] if key.is_descending else words[1:]
    ordered = [words[0], *ordered] if key.nulls_first else [*ordered, words[0]]
    assert ordered == sorted(ordered)
    assert len(set(words)) >= len(words) - 2


def test_a_column_without_any_value_leaves_the_order_to_the_next() -> None:
    table = pa.table({"x": pa.nulls(2), "y": [2, 1]})
    assert LeadingColumn((("x", UP),), ("y",), table.schema).words(table).tolist() == [2, 1]
    assert LeadingColumn((), ("x",), table.schema).words(table).tolist() == [0, 0]
