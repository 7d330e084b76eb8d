"""The order of tuples: by time, sign and content, so that it never tells how they came."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.kernels.ties import sort_runs
from sash.store.batch import (
    EXPIRES,
    NEVER,
    OP,
    TS,
    arrive,
    concat,
    content_order,
    int64_column,
    signs,
    sorted_by_time,
    with_columns,
)


@pytest.mark.parametrize(
    ("type", "ordered"),
    [
        (pa.int64(), [None, -5, 0, 7]),
        (pa.int8(), [None, -5, 0, 7]),
        (pa.uint64(), [None, 0, 2**63, 2**64 - 1]),
        (pa.float64(), [None, -math.inf, -1.5, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan]),
        (pa.float32(), [None, -math.inf, -0.0, 0.0, 1.5, math.nan]),
        (pa.bool_(), [None, False, True]),
        (pa.string(), [None, "", "A", "a", "ab", "é"]),
        (pa.binary(), [None, b"", b"\0", b"\xff"]),
        (pa.date32(), [None, date(1969, 12, 31), date(1970, 1, 1)]),
        (pa.decimal128(20, 2), [None, Decimal("-1.50"), Decimal("0.00"), Decimal("1.50")]),
        (pa.timestamp("us", "UTC"), [None, -1, 0, 1]),
        (pa.list_(pa.int64()), [None, [1], [2]]),
        (pa.struct([("a", pa.int64())]), [None, {"a": 1}, {"a": 2}]),
        (pa.dictionary(pa.int8(), pa.string()), [None, "a", "b"]),
        (pa.month_day_nano_interval(), [None, pa.MonthDayNano([0, 1, 0]), pa.MonthDayNano([1, 0, 0])]),
    ],
    ids=str,
)
def test_every_type_has_an_order(type: pa.DataType, ordered: list[Any]) -> None:
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(len(ordered))
        table = pa.table({"x": pa.array([ordered[place] for place in shuffled], type)})
        assert shuffled[content_order(table, [])].tolist() == list(range(len(ordered)))


def test_leading_columns_decide_first_then_the_others_from_left_to_right() -> None:
    table = pa.table({"a": [1, 0, 0, 0], "b": [0, 1, 0, 0], "c": [0, 0, 9, 5]})
    assert content_order(table, []).tolist() == [3, 2, 1, 0]
    assert content_order(table, ["b"]).tolist() == [3, 2, 0, 1]
    assert content_order(pa.table({"n": pa.nulls(2), "a": [2, 1]}), []).tolist() == [1, 0]


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([1, -1]), st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.0])),
    max_size=10,
)


def tuples(rows: list[tuple[int, int, float | None]]) -> pa.Table:
    ts, op, x = ([row[idx] for row in rows] for idx in range(3))
    return pa.table({"x": pa.array(x, pa.float64()), OP: pa.array(op, pa.int8()), TS: pa.array(ts, pa.int64())})


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_never_tells_how_tuples_came(rows: list, random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    one, other = sorted_by_time(tuples(rows)), sorted_by_time(tuples(shuffled))
    assert repr(one.to_pylist()) == repr(other.to_pylist()), "repr: NaN does not equal itself"
    assert [(row[TS], row[OP]) for row in one.to_pylist()] == sorted((ts, op) for ts, op, _ in rows)


@st.composite
def crowds(draw: st.DrawFn) -> list[tuple[int, int, int, int | None, str]]:
    """Many rows of few instants, of lengths at which another way of sorting begins; columns decide early or late."""
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.sampled_from([1, 2, 3, 23, 24, 25, 47, 48, 49, 97, 200]), min_size=1, max_size=4))
    ts = np.repeat(np.arange(len(lengths)), lengths)
    n_values = [draw(st.sampled_from([1, 2, 5, 1000])) for _ in range(4)]
    op, a, b, c = (seed.integers(0, n, len(ts)).tolist() for n in n_values)
    rows = [
        (int(ts[i]), 1 - 2 * (op[i] % 2), a[i] - 2, None if b[i] == 1 else b[i], f"{c[i]:03}") for i in range(len(ts))
    ]
    return draw(
        st.sampled_from(
            [rows, sorted(rows, key=by_content, reverse=True), [rows[i] for i in seed.permutation(len(rows))]]
        )
    )


def by_content(row: tuple[int, int, int, int | None, str]) -> tuple:
    return (*row[:3], -math.inf if row[3] is None else row[3], row[4])


@given(crowds(), st.integers(0, 300))
def test_crowds_of_one_instant_come_by_sign_and_then_column_by_column(rows: list, cut: int) -> None:
    """Also if the table is in two chunks."""
    ts, op, a, b, c = zip(*rows)
    columns = {"a": pa.array(a, pa.int64()), TS: pa.array(ts, pa.int64()), "b": pa.array(b, pa.int32())}
    table = pa.table({**columns, "c": c, OP: pa.array(op, pa.int8())})
    found = sorted_by_time(pa.concat_tables([table.slice(0, cut), table.slice(cut)]))
    ordered = [(row[TS], row[OP], row["a"], row["b"], row["c"]) for row in found.to_pylist()]
    assert ordered == sorted(rows, key=by_content)
    assert sorted_by_time(found).equals(found)


@given(st.lists(st.integers(0, 3), max_size=60), st.sampled_from([1, 2, 9]))
def test_rows_of_equal_keys_keep_their_order(values: list[int], n_values: int) -> None:
    keys, order = np.array(values, np.int64) % n_values, np.arange(len(values))[::-1].copy()
    before = order.tolist()
    lows, highs, is_changed = sort_runs(np.array([0]), np.array([len(values)]), keys, order)
    assert order.tolist() == sorted(before, key=lambda row: keys[row])
    assert is_changed == (order.tolist() != before)
    runs = [list(range(low, high)) for low, high in zip(lows, highs)]
    by_key = [[at for at, row in enumerate(order) if keys[row] == key] for key in range(n_values)]
    assert runs == [run for run in by_key if len(run) > 1]


def test_rows_in_order_are_not_copied() -> None:
    table = pa.table({TS: [1, 1, 1, 2], "a": [1, 1, 2, 0], OP: pa.array([-1, 1, 1, 1], pa.int8())})
    assert sorted_by_time(table) is table


def test_rows_that_arrive_become_positive_tuples() -> None:
    batch = arrive(pa.table({"A.x": ["a", "b"]}), np.array([1, 2]), np.array([4, NEVER]))
    assert batch.column_names == ["A.x", TS, EXPIRES, OP]
    assert signs(batch).tolist() == [1, 1]
    assert signs(batch).dtype == np.int8
    assert int64_column(batch, EXPIRES).tolist() == [4, NEVER]


def test_columns_are_replaced_in_place_or_appended() -> None:
    table = with_columns(pa.table({"a": [1], "b": [2]}), a=np.array([9]), c=np.array([3]))
    assert table.to_pydict() == {"a": [9], "b": [2], "c": [3]}


def test_chunks_are_put_together() -> None:
    chunked = concat([pa.table({"a": [1]}), pa.table({"a": [2]})])
    assert chunked["a"].num_chunks == 1
    assert int64_column(pa.table({"a": pa.chunked_array([[1], [2]])}), "a").tolist() == [1, 2]
    assert int64_column(pa.table({"a": pa.chunked_array([], pa.int64())}), "a").tolist() == []
