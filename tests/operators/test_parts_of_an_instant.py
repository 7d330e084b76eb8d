"""The tuples of one instant may come in parts: what becomes of a group is what would become of it at once.

whole   +a 5  +b 1  +a 7  -c 2                            out   +a 12  +b 1  -c 2
parts   +a 5  +b 1 │ +a 7 │ -c 2, and what expires        out                              the same, at the end
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.group_by import GroupBy, GroupBySpec
from sash.operators.grouping import Call
from sash.store.batch import SIGNED_FIELDS
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


def in_parts(operator: GroupBy, batch: pa.Table, instant: int, cuts: Sequence[int]) -> list:
    """What enters comes in parts; then what leaves."""
    nothing = batch.slice(0, 0)
    seen = changes_of(operator.process([nothing], instant - 1))
    enters = pc.greater(batch["_op"], 0)
    entering, bounds = batch.filter(enters), sorted({0, *cuts})
    for first, last in pairwise(bounds):
        operator.take(entering.slice(first, last - first), instant)
    rest = pa.concat_tables([entering.slice(bounds[-1]), batch.filter(pc.invert(enters))])
    return seen + changes_of(operator.process([rest.combine_chunks()], instant))


def check(parts: GroupBy, whole: GroupBy, lives: list[Lived], cuts: list[int]) -> None:
    for clock in range(1, END):
        batch = signed(due(lives, clock - 1, clock, False), COLUMNS)
        expected = changes_of(whole.process([batch], clock))
        assert sorted(in_parts(parts, batch, clock, cuts), key=repr) == sorted(expected, key=repr)
        for name in ("has_started", "next_identity"):
            assert parts.registers()[name] == whole.registers()[name]


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
    check(GroupBy(spec, SCHEMA), GroupBy(spec, SCHEMA), lives, cuts)
