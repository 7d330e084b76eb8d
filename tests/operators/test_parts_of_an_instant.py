"""The tuples of one instant may come in parts: what becomes of a group is what would become of it at once.

whole   +a 5  +b 1  +a 7  -c 2                            out   +a 12  +b 1  -c 2
parts   +a 5  +b 1 │ +a 7 │ -c 2, and what expires        out                              the same, at the end
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.distinct import Distinct, DistinctSpec
from sash.operators.group_by import GroupBy, GroupBySpec
from sash.operators.grouping import Call
from sash.operators.membership import RULES, Membership, MembershipSpec
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.store.batch import SIGNED_FIELDS, sorted_by_time
from sash.store.timed_turns import Instants, OrderedTuples, in_turns
from support.steps import Lived, changes_of, due, signed

COLUMNS = pa.schema([("k", pa.string()), ("x", pa.int64()), ("d", pa.float64()), ("time", pa.int64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
END = 9
CALLS = (
    Call("count", None, "n", pa.int64()),
    Call("sum", "x", "total", pa.decimal128(38, 0)),
    Call("avg", "d", "mean", pa.float64()),
    Call("min", "x", "least", pa.int64()),
    Call("last", "x", "newest", pa.int64()),
    Call("median", "x", "middle", pa.float64()),
    Call("count_distinct", "x", "kinds", pa.int64()),
)

LIVES = st.lists(
    st.builds(
        lambda k, x, ts, life, back: Lived((k, x, None if x is None else x / 3, ts), ts, ts + life, back and ts + back),
        st.sampled_from(["a", "b", None]),
        st.none() | st.integers(-3, 3),
        st.integers(1, 4),
        st.integers(2, 4),
        st.none() | st.just(1),
    ),
    max_size=20,
)
CUTS = st.lists(st.integers(0, 12), max_size=4)


Taker: TypeAlias = GroupBy | Distinct | Membership


def in_parts(operator: Taker, batches: Sequence[pa.Table], instant: int, cuts: Sequence[int]) -> list:
    """What enters comes in parts; then what leaves."""
    seen = changes_of(operator.process([batch.slice(0, 0) for batch in batches], instant - 1))
    enters = [pc.greater(batch["_op"], 0) for batch in batches]
    entering, bounds = [batch.filter(mask) for batch, mask in zip(batches, enters)], sorted({0, *cuts})
    for first, last in pairwise(bounds):
        operator.take([each.slice(first, last - first) for each in entering], instant)
    leaving = [batch.filter(pc.invert(mask)) for batch, mask in zip(batches, enters)]
    rest = [pa.concat_tables([each.slice(bounds[-1]), more]) for each, more in zip(entering, leaving)]
    return seen + changes_of(operator.process([each.combine_chunks() for each in rest], instant))


def check(
    parts: Taker, whole: Taker, sides: Sequence[list[Lived]], cuts: list[int], schemas: Sequence[pa.Schema], told: bool
) -> None:
    for clock in range(1, END):
        batches = [signed(due(lives, clock - 1, clock, told), columns) for lives, columns in zip(sides, schemas)]
        expected = changes_of(whole.process(batches, clock))
        assert sorted(in_parts(parts, batches, clock, cuts), key=repr) == sorted(expected, key=repr)
        assert parts.registers() == whole.registers() | {name: parts.registers()[name] for name in parts.logs()}


@given(LIVES, CUTS, st.sampled_from([("k",), ()]), st.booleans(), st.sampled_from([None, "n > 1", "total > 0"]))
@example([Lived(("a", 1, 0.0, 1), 1, 3, None), Lived(("a", -1, 0.0, 1), 1, 3, None)], [1], ("k",), True, None)
def test_a_group_changes_once(
    lives: list[Lived], cuts: list[int], keys: tuple[str, ...], retracts: bool, having: str | None
) -> None:
    spec = GroupBySpec(
        keys=keys,
        calls=CALLS,
        having=having,
        retracts=retracts,
        time="time",
        id_column="_id.g",
        window_us=4,
        expires_by_negatives=False,
    )
    check(GroupBy(spec, SCHEMA), GroupBy(spec, SCHEMA), [lives], cuts, [COLUMNS], told=False)


VALUES, OTHERS = pa.schema([("v", pa.string())]), pa.schema([("w", pa.string())])
ROWS = st.lists(
    st.builds(
        lambda v, ts, life, back: Lived((v,), ts, ts + life, back and ts + back),
        st.sampled_from(["a", "b", None]),
        st.integers(1, 4),
        st.integers(2, 4),
        st.none() | st.just(1),
    ),
    max_size=14,
)


@given(ROWS, CUTS, st.booleans())
@example([Lived(("a",), 1, 3, None), Lived(("a",), 1, 5, None)], [1], False).via("the last one that comes is shown")
@example([Lived(("a",), 1, 4, 2), Lived(("a",), 2, 4, None)], [1], False).via("another takes its place at once")
def test_a_row_is_shown_once(lives: list[Lived], cuts: list[int], told: bool) -> None:
    spec = DistinctSpec(("v",), 4, told, ("_id.row", "_id.expires"))
    schema = pa.schema([*VALUES, *SIGNED_FIELDS])
    check(Distinct(spec, schema), Distinct(spec, schema), [lives], cuts, [VALUES], told)


@pytest.mark.parametrize("rule", RULES)
@given(ROWS, ROWS, CUTS, st.booleans())
@example([Lived(("a",), 1, 5, None)], [Lived(("a",), 1, 5, None)], [0, 1], False).via("both come at one instant")
@example([Lived(("a",), 1, 5, None)], [Lived(("a",), 1, 4, 2), Lived(("a",), 2, 4, None)], [1], False)
def test_what_passes_changes_once(
    rule: str, left: list[Lived], right: list[Lived], cuts: list[int], told: bool
) -> None:
    spec = MembershipSpec(rule, ("v",), ("v",), ("w",), (4, 4), told, nulls_match=rule.endswith("_all"))
    schemas = [pa.schema([*columns, *SIGNED_FIELDS]) for columns in (VALUES, OTHERS)]
    parts, whole = Membership(spec, *schemas), Membership(spec, *schemas)
    check(parts, whole, [left, right], cuts, [VALUES, OTHERS], told)


PAIRED = [pa.schema([(f"{side}.k", pa.int64()), (f"_id.{side}", pa.int64())]) for side in "AB"]
MEMBERS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 5), st.integers(2, 4), st.none() | st.integers(1, 3)), max_size=12
)


def members_of(drawn: list[tuple]) -> list[Lived]:
    """Each with an identity of its own."""
    return [
        Lived((k, number), ts, ts + life, ts + back if back and back < life else None)
        for number, (k, ts, life, back) in enumerate(drawn)
    ]


def leaving_first(join: WindowJoin, batches: Sequence[pa.Table], instant: int, n_rows: int) -> list:
    """What leaves on the left, then on the right, then what enters; some rows at a time."""
    inputs = []
    for batch in batches:
        ordered = sorted_by_time(batch, with_ties=False, leaving_first=True)
        pieces = [ordered.slice(first, n_rows) for first in range(0, ordered.num_rows, n_rows)]
        inputs.append(OrderedTuples(pieces, batch.schema))
    seen = []
    for tables, until, is_part in in_turns(inputs, instant, 1, Instants.LEAVING_FIRST):
        seen += changes_of(join.process(tables, until - is_part))
    return seen


@given(MEMBERS, MEMBERS, st.integers(1, 3), st.booleans())
@example([(0, 1, 4, 2)], [(0, 2, 4, 1), (0, 3, 4, None)], 1, False).via("both members leave, and another one comes")
@example([(0, 1, 4, None)] * 2, [(0, 1, 4, None), (0, 5, 4, None)], 1, True).via("told that all expire")
def test_a_pair_comes_and_goes_once(left: list, right: list, n_rows: int, told: bool) -> None:
    spec = WindowJoinSpec((("A.k", "B.k"),), None, (4, 4), expires_by_negatives=told, has_identities=True)
    schemas = [pa.schema([*columns, *SIGNED_FIELDS]) for columns in PAIRED]
    parts, whole, sides = WindowJoin(spec, *schemas), WindowJoin(spec, *schemas), (members_of(left), members_of(right))
    for clock in range(1, END):
        batches = [signed(due(lives, clock - 1, clock, told), columns) for lives, columns in zip(sides, PAIRED)]
        expected = changes_of(whole.process(batches, clock))
        assert sorted(leaving_first(parts, batches, clock, n_rows), key=repr) == sorted(expected, key=repr)
