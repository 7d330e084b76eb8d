"""Functions OVER rows, against what they say of the sorted rows that are in the window.

Law: at T, each tuple in its window is in the answer, with the values of its functions over the tuples that are there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.operators import over
from sash.operators.accumulators.manner import SortKey
from sash.operators.keyed import MIN_DEAD
from sash.operators.operator import export_live
from sash.operators.over import Over, OverSpec
from sash.operators.row_frames import ALL_BEFORE, Frame, OverCall
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.vector import Memory, dump
from support.profiles import volume
from support.steps import Lived, alive_at, amount_at, changes_of, due, restarted, signed

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
WINDOW_US = 6
UP, DOWN, DOWN_FIRST = SortKey(), SortKey(is_descending=True), SortKey(is_descending=True, nulls_first=True)
NULLS_FIRST = SortKey(nulls_first=True)
BY_CLOCK, BY_NEGATIVES = False, True
NUMBER = OverCall("row_number", None, "n", pa.int64())
LAG = OverCall("lag", "v", "before", pa.int64(), n_rows=1)


def call_of(function: str, frame: Frame = ALL_BEFORE, name: str = "x") -> OverCall:
    types = {"sum": pa.decimal128(38, 0), "avg": pa.float64()}
    return OverCall(function, "v", name, types.get(function, pa.int64()), frame)


def spec_of(*calls: OverCall, by_negatives: bool = BY_CLOCK, **more) -> OverSpec:
    given = {"columns": ("k", "v"), "ties": ("k", "v"), "partition_by": (), "order": (("v", UP),), **more}
    return OverSpec(calls=calls, window_us=WINDOW_US, expires_by_negatives=by_negatives, **given)


def lived(k: str | None, v: int | None, ts: int, back: int | None = None) -> Lived:
    return Lived((k, v), ts, ts + WINDOW_US, back)


def run(spec: OverSpec, lives: list[Lived], clocks: Iterable[int]) -> list:
    operator, seen, last = Over(spec, SCHEMA), [], 0
    for clock in clocks:
        batch = signed(due(lives, last, clock, spec.expires_by_negatives), COLUMNS)
        seen += changes_of(operator.process([batch], clock))
        last = clock
    return seen


def say(rows: Iterable[tuple], spec: OverSpec) -> Counter[tuple]:
    """The law, row by row."""
    partitions: dict[tuple, list[tuple]] = defaultdict(list)
    for row in rows:
        partitions[tuple(row[COLUMNS.get_field_index(name)] for name in spec.partition_by)].append(row)
    found: Counter[tuple] = Counter()
    for members in partitions.values():
        members.sort(key=lambda row: (class_of(row, spec), tuple(rank_of(value, UP) for value in row)))
        for place, row in enumerate(members):
            found[(*row, *(value_of(call, members, place, spec) for call in spec.calls))] += 1
    return found


def value_of(call: OverCall, members: list[tuple], place: int, spec: OverSpec) -> object:
    classes = [class_of(row, spec) for row in members]
    before = [each for each in classes if each < classes[place]]
    if call.function in ("row_number", "rank", "dense_rank"):
        return {"row_number": place, "rank": len(before), "dense_rank": len(set(before))}[call.function] + 1
    if call.function in ("lag", "lead"):
        at = place + (call.n_rows if call.function == "lead" else -call.n_rows)
        default = members[place][0] if call.default == "k" else None
        return members[at][1] if 0 <= at < len(members) else default
    values = [row[1] for at, row in enumerate(members) if is_in(call.frame, at, place, members, classes, spec)]
    if call.function in ("first_value", "last_value"):
        return values[0 if call.function == "first_value" else -1] if values else None
    values = [value for value in values if value is not None]
    if call.function == "count":
        return len(values)
    mean = float(Fraction(sum(values), len(values))) if values else None
    return {"sum": sum, "min": min, "max": max}.get(call.function, lambda _: mean)(values) if values else None


def is_in(frame: Frame, at: int, place: int, members: list[tuple], classes: list[tuple], spec: OverSpec) -> bool:
    start, end = frame.start, frame.end
    if not frame.is_range:
        return (start is None or at >= place + start) and (end is None or at <= place + end)
    apart = (classes[at] > classes[place]) - (classes[at] < classes[place])
    own, other = members[place][1], members[at][1]
    if own is not None and other is not None and spec.order:
        sign = -1 if spec.order[0][1].is_descending else 1
        apart = sign * (other - own)
    elif spec.order:
        # Those without a value have each other; only what has no bound reaches over.
        return own == other or (start is None and apart < 0) or (end is None and apart > 0)
    return (start is None or apart >= start) and (end is None or apart <= end)


def class_of(row: tuple, spec: OverSpec) -> tuple:
    return tuple(rank_of(row[COLUMNS.get_field_index(name)], key) for name, key in spec.order)


def rank_of(value: float | str | None, key: SortKey) -> tuple:
    if value is None:
        return (0 if key.nulls_first else 2,)
    return (1, -value if key.is_descending and not isinstance(value, str) else value)


def test_rows_behind_one_that_comes_are_numbered_anew() -> None:
    """
    in    5 [1, 7)   3 [2, 8)   7 [3, 9)        out   +(5, 1)    -(5, 1) +(3, 1) +(5, 2)    +(7, 3)
    """
    lives = [lived("a", v, ts) for v, ts in ((5, 1), (3, 2), (7, 3))]
    assert run(spec_of(NUMBER), lives, range(1, 10)) == [
        (1, 1, 7, ("a", 5, 1)),
        (-1, 2, 7, ("a", 5, 1)),
        (1, 2, 7, ("a", 5, 2)),
        (1, 2, 8, ("a", 3, 1)),
        (1, 3, 9, ("a", 7, 3)),
        (-1, 7, 9, ("a", 7, 3)),
        (1, 7, 9, ("a", 7, 2)),
        (-1, 8, 9, ("a", 7, 2)),
        (1, 8, 9, ("a", 7, 1)),
    ]


def test_only_neighbours_change_where_functions_look_no_further() -> None:
    """
    in    2 4 6 8 [1, 7)    5 [2, 8)             LAG(v)    4, 6 and 8 stay; 6 has 5 before it, and again 4 at 8
    """
    lives = [*(lived("a", v, 1) for v in (2, 4, 6, 8)), lived("a", 5, 2)]
    assert run(spec_of(LAG), lives, [1, 2, 6])[4:] == [
        (-1, 2, 7, ("a", 6, 4)),
        (1, 2, 7, ("a", 6, 5)),
        (1, 2, 8, ("a", 5, 4)),
    ]


def test_the_row_behind_one_that_goes_has_another_before_it() -> None:
    lives = [*(lived("a", v, 1) for v in (2, 6, 8)), lived("a", 4, 1, back=3)]
    assert run(spec_of(LAG), lives, [1, 2, 3])[4:] == [
        (-1, 3, 7, ("a", 4, 2)),
        (-1, 3, 7, ("a", 6, 4)),
        (1, 3, 7, ("a", 6, 2)),
    ]


def test_a_range_of_keys_has_no_rows_without_one() -> None:
    lives = [lived("a", v, 1) for v in (None, None, 0, 1)]
    spec = spec_of(OverCall("count", "k", "n", pa.int64(), Frame(True, -1, 0)), order=(("v", NULLS_FIRST),))
    assert sorted(values[2] for *_, values in run(spec, lives, [1])) == [1, 2, 2, 2]


def test_what_comes_out_the_same_stays() -> None:
    lives = [lived("a", 1, 1), lived("a", 9, 2), lived("a", 5, 3)]
    assert run(spec_of(call_of("min")), lives, [3]) == [
        (1, 1, 7, ("a", 1, 1)),
        (1, 2, 8, ("a", 9, 1)),
        (1, 3, 9, ("a", 5, 1)),
    ]


def test_equal_rows_have_numbers_of_their_own() -> None:
    lives = [lived("a", 5, 1), lived("a", 5, 1), lived("a", 5, 1, back=3)]
    spec = spec_of(NUMBER, copy_column="_copy", id_column="_id.row")
    seen = run(spec, lives, range(1, 4))
    assert [(sign, ts, values[:3]) for sign, ts, _, values in seen] == [
        *((1, 1, ("a", 5, number)) for number in (1, 2, 3)),
        (-1, 3, ("a", 5, 3)),
    ]
    assert len({values[3:] for _, _, _, values in seen}) == 3


def test_a_row_that_comes_and_goes_at_once_says_nothing() -> None:
    lives = [lived("a", 5, 1), lived("a", 3, 2, back=2)]
    assert run(spec_of(NUMBER), lives, [5]) == [(1, 1, 7, ("a", 5, 1))]


BOUNDS = st.sampled_from([None, -2, -1, 0, 1, 2])
FRAMES = st.builds(Frame, st.booleans(), BOUNDS, BOUNDS).filter(
    lambda frame: frame.start is None or frame.end is None or frame.start <= frame.end
)
CALLS = st.one_of(
    st.builds(
        lambda function: replace(NUMBER, function=function), st.sampled_from(["row_number", "rank", "dense_rank"])
    ),
    st.builds(
        lambda word, n: replace(LAG, function=word, n_rows=n), st.sampled_from(["lag", "lead"]), st.integers(0, 3)
    ),
    st.builds(
        call_of,
        st.sampled_from(["count", "sum", "avg", "min", "max", "first_value", "last_value"]),
        FRAMES,
    ),
)
LIVES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(0, 5)),
        st.integers(1, 12),
        st.one_of(st.none(), st.integers(0, 5)),
    ).map(lambda drawn: lived(*drawn[:3], back=None if drawn[3] is None else drawn[2] + drawn[3])),
    max_size=14,
)


@given(
    lives=LIVES,
    calls=st.lists(CALLS, min_size=1, max_size=3),
    partition_by=st.sampled_from([(), ("k",)]),
    order=st.sampled_from([(("v", UP),), (("v", DOWN),), (("v", DOWN_FIRST),), ()]),
    by_negatives=st.booleans(),
    cuts=st.lists(st.integers(1, 20), max_size=5),
    restart_at=st.integers(0, 20),
    rows_per_call=st.sampled_from([1, 3, over.ROWS_PER_CALL]),
)
@settings(max_examples=volume(dev=30, ci=150, deep=2000))
@example([lived("a", 1, 1), lived("a", 1, 1)], [NUMBER, LAG], (), (("v", UP),), False, [], 0, 1)
def test_the_law(lives, calls, partition_by, order, by_negatives, cuts, restart_at, rows_per_call) -> None:
    calls = [replace(call, name=f"x{place}") for place, call in enumerate(calls)]
    if not order:
        calls = [replace(call, frame=ALL_BEFORE) if call.frame.is_range else call for call in calls]
    spec = spec_of(*calls, by_negatives=by_negatives, partition_by=partition_by, order=order)
    operator, seen, last = Over(spec, SCHEMA), [], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over, "ROWS_PER_CALL", rows_per_call)
        for clock in sorted({*cuts, 20}):
            if last <= restart_at < clock:
                operator = restarted(operator, lambda: Over(spec, SCHEMA))
            batch = signed(due(lives, last, clock, by_negatives), COLUMNS)
            seen += changes_of(operator.process([batch], clock))
            last = clock
    for instant in range(1, 21):
        rows = alive_at(lives, instant).elements()
        assert amount_at(seen, instant, by_negatives) == say(rows, spec), instant


def test_no_instant_takes_back_what_it_puts_out() -> None:
    lives = [lived("a", v % 4, 1 + v % 7) for v in range(30)]
    seen = run(spec_of(NUMBER, call_of("sum"), partition_by=("k",)), lives, [4, 9, 20])
    changed = Counter((ts, expires, values) for _, ts, expires, values in seen)
    equal = [values[:2] for (_, _, values), n in changed.items() if n > 1]
    assert not equal


def test_rows_that_have_gone_are_forgotten() -> None:
    operator = Over(spec_of(NUMBER, partition_by=("v",)), SCHEMA)
    for turn in range(6):
        lives = [lived("a", turn * MIN_DEAD + v, 1 + 10 * turn) for v in range(MIN_DEAD)]
        batch = signed(due(lives, 10 * turn, 10 * turn + 9, BY_CLOCK), COLUMNS)
        operator.process([batch], 10 * turn + 9)
    assert operator._keys.n_ids <= 3 * MIN_DEAD
    assert len(dump(export_live(operator), Memory())) > 0


def test_frames_by_a_difference_reach_as_far_as_numbers_do() -> None:
    least, most = -(2**63), 2**63 - 1
    frame = Frame(is_range=True, start=-1, end=1)
    lives = [lived("a", v, 1) for v in (least, least + 1, 0, most - 1, most)]
    seen = run(spec_of(call_of("count", frame)), lives, [1])
    assert sorted(values[1:] for *_, values in seen) == [(least, 2), (least + 1, 2), (0, 1), (most - 1, 2), (most, 2)]
    frame = Frame(is_range=True, start=1, end=None)
    seen = run(spec_of(call_of("count", frame)), lives, [1])
    assert sorted(values[1:] for *_, values in seen)[-2:] == [(most - 1, 1), (most, 0)]


def test_nothing_expires_where_nothing_ends() -> None:
    spec = replace(spec_of(NUMBER), window_us=None)
    operator = Over(spec, SCHEMA)
    seen = changes_of(operator.process([signed([(1, 1, NEVER, ("a", 2)), (1, 2, NEVER, ("a", 1))], COLUMNS)], 2))
    assert [(sign, ts, expires, values) for sign, ts, expires, values in seen] == [
        (1, 1, NEVER, ("a", 2, 1)),
        (-1, 2, NEVER, ("a", 2, 1)),
        (1, 2, NEVER, ("a", 1, 1)),
        (1, 2, NEVER, ("a", 2, 2)),
    ]
