"""Keys as integers: equal values give equal integers, however the column is stored.

The integers decide partition groups, so those of a release must be those of the next: the last test holds them fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.store.keys import encode_keys, hash_rows, is_exact, is_hashable

VALUES: dict[pa.DataType, st.SearchStrategy] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]) | st.integers(-3, 3),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]),
    pa.float64(): st.sampled_from([0.0, -0.0, 0.1, 1.5, 5e-324, math.inf, -math.inf, math.nan, -math.nan]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(date(1960, 1, 1), date(1980, 1, 1)),
    pa.date64(): st.dates(date(1960, 1, 1), date(1980, 1, 1)),
    pa.timestamp("us"): st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)),
    pa.timestamp("us", "UTC"): st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)),
    pa.time64("us"): st.sampled_from([time(0), time(0, 0, 1), time(23, 59, 59, 999_999)]),
    pa.duration("us"): st.sampled_from([timedelta(0), timedelta(microseconds=-1), timedelta(days=1)]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("9999999.99")]),
    pa.decimal128(18, 0): st.sampled_from([Decimal(0), Decimal(10**18 - 1), Decimal(1 - 10**18)]),
    pa.decimal128(38, 2): st.sampled_from(
        [Decimal("0.25"), Decimal("-0.25"), Decimal(2**64), Decimal(-(2**64)), Decimal(0)]
    ),
    pa.string(): st.sampled_from(["", "a", "A", "é", "aa", "a\0", "long" * 10]),
    pa.large_string(): st.sampled_from(["", "a", "A", "é", "aa", "a\0"]),
    pa.binary(): st.sampled_from([b"", b"\0", b"\0\0", b"\xff", b"a"]),
}


def as_slice(values: list[Any], type: pa.DataType) -> pa.Array:
    return pa.array([*values[:1], None, *values, None], type).slice(len(values[:1]) + 1, len(values))


def as_chunks(values: list[Any], type: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([value], type) for value in values], type)


def as_dictionary(values: list[Any], type: pa.DataType) -> pa.Array:
    return pa.array(values, type).dictionary_encode()


def encode(column: pa.Array | pa.ChunkedArray) -> list[int]:
    return encode_keys(pa.table({"k": column}), ("k",)).tolist()


def are_equal(left: Any, right: Any) -> bool:
    """As SQL has it here: NaN equals NaN."""
    return left == right or (left != left and right != right)


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any]]:
    type = draw(st.sampled_from(list(VALUES)))
    return type, draw(st.lists(VALUES[type], max_size=6))


@settings(max_examples=200)
@given(columns())
def test_integers_are_equal_iff_values_are(column: tuple[pa.DataType, list[Any]]) -> None:
    type, values = column
    keys = encode(pa.array(values, type))
    for value, key in zip(values, keys, strict=True):
        assert [other == key for other in keys] == [are_equal(value, other) for other in values]


@pytest.mark.slow
@pytest.mark.parametrize("stored", [as_slice, as_chunks, as_dictionary])
@settings(max_examples=200)
@given(columns())
def test_integers_do_not_depend_on_how_a_column_is_stored(
    stored: Callable, column: tuple[pa.DataType, list[Any]]
) -> None:
    type, values = column
    assert encode(stored(values, type)) == encode(pa.array(values, type))
    numbers = pa.array(range(len(values)), pa.int64())
    seen, plain = (pa.table({"a": rows, "b": numbers}) for rows in (stored(values, type), pa.array(values, type)))
    assert encode_keys(seen, ("a", "b")).tolist() == encode_keys(plain, ("a", "b")).tolist()


@settings(max_examples=200)
@given(columns(), st.integers(0, 6), st.integers(0, 6))
def test_the_hash_of_a_slice_is_a_slice_of_the_hash(column: tuple[pa.DataType, list[Any]], start: int, n: int) -> None:
    type, values = column
    array = pa.array([None, *values, None], type)
    assert hash_rows([array.slice(start, n)]).tolist() == hash_rows([array])[start : start + n].tolist()


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_no_rows(type: pa.DataType) -> None:
    assert encode(pa.array([], type)) == []
    assert encode(pa.chunked_array([], type)) == []
    assert encode(pa.array([None], type).slice(1)) == []


def test_null_is_a_value_of_its_own_in_a_hash() -> None:
    """It decides the partition group of rows that NULLs hold together, as in PARTITION BY."""
    numbers, texts = pa.array([None, None, 0, 1]), pa.array([None, "", "", None])
    hashes = hash_rows([numbers, texts]).tolist()
    assert len(set(hashes)) == 4
    assert hash_rows([numbers.slice(1, 1), texts.slice(0, 1)]).tolist() == hashes[:1]


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.text("ab", max_size=3)), max_size=8))
@example([("a", "b"), ("ab", ""), ("", "ab"), ("b", "a")])
def test_keys_of_several_columns_keep_them_apart(rows: list[tuple[str, str]]) -> None:
    table = pa.table(
        {"x": pa.array([x for x, _ in rows], pa.string()), "y": pa.array([y for _, y in rows], pa.string())}
    )
    keys = encode_keys(table, ("x", "y")).tolist()
    assert [[a == b for b in keys] for a in keys] == [[a == b for b in rows] for a in rows]


def test_without_columns_all_rows_share_a_key() -> None:
    assert encode_keys(pa.table({"x": [1, 2]}), ()).tolist() == [0, 0]


def test_exact_keys_are_single_and_of_64_bits_at_most() -> None:
    exact = [
        pa.int8(),
        pa.uint64(),
        pa.float64(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.decimal128(18, 3),
    ]
    assert all(is_exact([type]) for type in exact)
    assert not any(is_exact([type]) for type in (pa.string(), pa.binary(), pa.decimal128(19, 0)))
    assert not is_exact([pa.int8(), pa.int8()])


def test_what_cannot_be_hashed() -> None:
    unhashable = [
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.month_day_nano_interval(),
        pa.null(),
        pa.binary(4),
    ]
    assert not any(is_hashable(type) for type in unhashable)
    assert all(is_hashable(type) for type in VALUES)


def test_hashes_of_today_are_those_of_tomorrow() -> None:
    table = pa.table({
        "n": pa.array([1, -1, None], pa.int64()),
        "s": pa.array(["", "sash", None]),
        "d": pa.array([Decimal("0.25"), Decimal(-(2**70)), None], pa.decimal128(38, 2)),
        "f": pa.array([0.5, math.nan, None], pa.float64()),
    })  # fmt: skip
    assert {name: hash_rows([table[name].combine_chunks()]).tolist() for name in table.column_names} == {
        "n": [8841707400507832957, 5476333178966447588, 11400714819323198485],
        "s": [9886184608339236366, 6702773908108773852, 11400714819323198485],
        "d": [5827314821090961464, 10735913685645307262, 11400714819323198485],
        "f": [8757976731105445698, 6880608470335574691, 11400714819323198485],
    }
    assert hash_rows([column.combine_chunks() for column in table.columns]).tolist() == [
        12157666579316515611,
        5558188220822740666,
        10298995721122667840,
    ]
    assert encode_keys(table.slice(0, 2), ("n",)).tolist() == [1, -1]
