"""Tuples held back until the clock has passed them.

Law: at clock T exactly the tuples with ts <= T have been released, in total order, whatever the batches.
"""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.reorder import Reorder, ReorderSpec
from sash.store.batch import NEVER, OP, SIGNED_FIELDS, TS

SCHEMA = pa.schema([*SIGNED_FIELDS, ("A.v", pa.int64()), ("A.seq", pa.int64())])
TOTAL = ReorderSpec(is_total=True)

Row = tuple[int, int | None, int]


def tuples(rows: list[Row]) -> pa.Table:
    """Rows of (ts, v, seq)."""
    ts, v, seq = ([row[idx] for row in rows] for idx in range(3))
    n_rows = len(rows)
    return pa.table([ts, [NEVER] * n_rows, [1] * n_rows, v, seq], schema=SCHEMA)


def rows_of(batch: pa.Table) -> list[Row]:
    return list(zip(batch[TS].to_pylist(), batch["A.v"].to_pylist(), batch["A.seq"].to_pylist(), strict=True))


def restart(operator: Reorder) -> Reorder:
    fresh = Reorder(operator.spec, SCHEMA)
    fresh.restore({name: log.entries() for name, log in operator.logs().items()}, operator.registers())
    return fresh


def test_a_tuple_is_released_when_the_clock_reaches_it() -> None:
    """
    arrives   3   1   2        clock 0     clock 2     clock 3
    released                   -           1 2         3
    """
    operator = Reorder(TOTAL, SCHEMA)
    assert rows_of(operator.process([tuples([(3, 0, 0), (1, 0, 0), (2, 0, 0)])], 0)) == []
    assert rows_of(operator.process([tuples([])], 2)) == [(1, 0, 0), (2, 0, 0)]
    assert rows_of(operator.process([tuples([])], 2)) == []
    assert rows_of(operator.process([tuples([])], 3)) == [(3, 0, 0)]
    assert operator.logs()["held"].n_rows == 0


def test_tuples_of_one_instant_come_by_content_null_first() -> None:
    operator = Reorder(TOTAL, SCHEMA)
    assert rows_of(operator.process([tuples([(1, 7, 0), (1, None, 9), (1, 7, -1), (1, -7, 5)])], 1)) == [
        (1, None, 9),
        (1, -7, 5),
        (1, 7, -1),
        (1, 7, 0),
    ]


def test_declared_tie_breakers_come_before_content() -> None:
    operator = Reorder(ReorderSpec(is_total=True, tie=("A.seq",)), SCHEMA)
    assert rows_of(operator.process([tuples([(1, 1, 3), (1, 2, 1), (1, 3, 2), (0, 9, 9)])], 1)) == [
        (0, 9, 9),
        (1, 2, 1),
        (1, 3, 2),
        (1, 1, 3),
    ]


def test_identities_are_given_once_and_go_on_after_a_restart() -> None:
    spec = ReorderSpec(is_total=False, id_column="_id.A")
    operator = Reorder(spec, SCHEMA)
    first = operator.process([tuples([(1, 0, 0), (2, 0, 0), (5, 0, 0)])], 2)
    assert first.schema == operator.schema
    assert first["_id.A"].to_pylist() == [0, 1]
    assert restart(operator).process([tuples([])], 5)["_id.A"].to_pylist() == [2]


def test_what_is_due_at_once_is_never_held() -> None:
    operator = Reorder(TOTAL, SCHEMA)
    operator.process([tuples([(1, 0, 0), (2, 0, 0)])], 2)
    assert operator.logs()["held"].take_changes() == ({}, [])


@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 2), st.integers(0, 2)), max_size=12),
    cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), st.booleans()), max_size=5),
    spec=st.sampled_from([TOTAL, ReorderSpec(is_total=True, tie=("A.seq",)), ReorderSpec(is_total=False)]),
)
@example([(1, 0, 0), (1, None, 0)], [(1, 0, True)], TOTAL)
def test_releases_do_not_depend_on_batches(
    rows: list[Row], cuts: list[tuple[int, int, bool]], spec: ReorderSpec
) -> None:
    """Rows come in parts, each followed by a clock; a row that the clock has passed would be late, so it stays away."""
    operator, clock, first = Reorder(spec, SCHEMA), -1, 0
    released, taken = [], []
    for upto, next_clock, restarts in [*sorted(cuts), (len(rows), 9, False)]:
        part = [row for row in rows[first : max(first, upto)] if row[0] > clock]
        first, clock = max(first, upto), max(clock, next_clock)
        taken += part
        batch = operator.process([tuples(part)], clock)
        released += rows_of(batch)
        assert [row[0] for row in released] == sorted(row[0] for row in taken if row[0] <= clock)
        operator = restart(operator) if restarts else operator
    if spec.is_total:
        whole = Reorder(spec, SCHEMA).process([tuples(taken)], 9)
        assert released == rows_of(whole)
    assert sorted(released, key=repr) == sorted(taken, key=repr)


def test_signs_travel_along() -> None:
    batch = tuples([(2, 0, 0), (1, 0, 0)]).set_column(2, OP, pa.array([-1, 1], pa.int8()))
    assert Reorder(TOTAL, SCHEMA).process([batch], 5)[OP].to_pylist() == [1, -1]


def test_zeros_of_either_sign_are_equal_and_nan_is_greatest() -> None:
    """What decides between equal zeros is the rest of the row; between rows that are equal altogether, the sign."""
    schema = pa.schema([*SIGNED_FIELDS, ("A.x", pa.float64()), ("A.seq", pa.int64())])
    rows = [(-1.0, 9), (-0.0, 1), (0.0, 1), (0.0, 2), (-0.0, 3), (math.inf, 0), (math.nan, 0), (-math.nan, 1)]
    for order in (rows, rows[::-1]):
        n_rows = len(rows)
        columns = [[1] * n_rows, [NEVER] * n_rows, [1] * n_rows, [x for x, _ in order], [seq for _, seq in order]]
        released = Reorder(TOTAL, schema).process([pa.table(columns, schema=schema)], 1)
        seen = zip(released["A.x"].to_pylist(), released["A.seq"].to_pylist(), strict=True)
        assert [(repr(abs(x) if x != x else x), seq) for x, seq in seen] == [
            (repr(abs(x) if x != x else x), seq) for x, seq in rows
        ]
