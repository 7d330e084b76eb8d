"""Which texts denote a value of which type, and that it matters not what else stands in the column."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.io import values

UTC_US = pa.timestamp("us", "UTC")
TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 0),
    pa.date32(),
    pa.timestamp("us"),
    UTC_US,
]


def convert_one(text: str, dtype: pa.DataType):
    schema = pa.schema([("x", dtype)])
    table, reasons = values.convert(pa.table({"x": [text]}), schema)
    return "rejected" if reasons else table["x"][0].as_py()


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("7", pa.int64(), 7),
        ("+7", pa.int64(), 7),
        (" 7 ", pa.int64(), 7),
        ("007", pa.int64(), 7),
        ("7.000", pa.int64(), 7),
        ("9223372036854775807.0", pa.int64(), 2**63 - 1),
        ("18446744073709551615", pa.uint64(), 2**64 - 1),
        ("1.5e3", pa.int64(), 1500),
        ("1.5", pa.float64(), 1.5),
        (".5", pa.float64(), 0.5),
        ("1e-3", pa.float64(), 0.001),
        ("-inf", pa.float64(), float("-inf")),
        ("Infinity", pa.float32(), float("inf")),
        ("1.20", pa.decimal128(10, 2), Decimal("1.20")),
        ("1.2000", pa.decimal128(10, 2), Decimal("1.20")),
        ("-.5", pa.decimal128(10, 2), Decimal("-0.50")),
        ("0E-10", pa.decimal128(10, 2), Decimal("0.00")),
        ("123e-2", pa.decimal128(10, 2), Decimal("1.23")),
        ("TRUE", pa.bool_(), True),
        ("0", pa.bool_(), False),
        ("2024-02-29", pa.date32(), date(2024, 2, 29)),
        ("2024-01-01", pa.timestamp("us"), datetime(2024, 1, 1)),
        ("2024-01-01 10:00", pa.timestamp("us"), datetime(2024, 1, 1, 10)),
        ("2024-01-01T10:00:00.000001", pa.timestamp("us"), datetime(2024, 1, 1, 10, 0, 0, 1)),
        ("2024-01-01T10:00:00+02:00", pa.timestamp("us"), datetime(2024, 1, 1, 8)),
        ("2024-01-01T10:00:00-0530", UTC_US, datetime(2024, 1, 1, 15, 30, tzinfo=UTC)),
        ("2024-01-01 10:00:00Z", UTC_US, datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01 10:00:00", UTC_US, datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ],
)
def test_text_converts(text, dtype, value):
    assert convert_one(text, dtype) == value


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("1.5", pa.int64()),
        ("1.5e0", pa.int64()),
        ("1e999", pa.int64()),
        ("1_000", pa.int64()),
        ("0x1F", pa.int64()),
        ("", pa.int64()),
        ("9223372036854775808", pa.int64()),
        ("-1", pa.uint64()),
        ("128", pa.int8()),
        ("1e400", pa.float64()),
        ("1e39", pa.float32()),
        ("1_0.5", pa.float64()),
        ("nan(x)", pa.float64()),
        ("1.239", pa.decimal128(10, 2)),
        ("123456789.5", pa.decimal128(10, 2)),
        ("123e-3", pa.decimal128(10, 2)),
        (".", pa.decimal128(10, 2)),
        ("yes", pa.bool_()),
        ("2024-02-30", pa.date32()),
        ("2024-1-3", pa.date32()),
        ("2024-01-01 00:00:00", pa.date32()),
        ("2024-01-01 10:00:00.1234567", pa.timestamp("us")),
        ("2024-01-01 10", pa.timestamp("us")),
        ("2024-01-01 24:00:00", pa.timestamp("us")),
        ("2024-01-01 10:00:00+25:00", pa.timestamp("us")),
        ("2024-01-01 10:00:00 CET", pa.timestamp("us")),
        ("1704067200", pa.timestamp("us")),
        ("infinity", pa.timestamp("us")),
        ("epoch", pa.timestamp("us")),
    ],
)
def test_text_does_not_convert(text, dtype):
    assert convert_one(text, dtype) == "rejected"


def test_nan_converts():
    assert convert_one("NaN", pa.float64()) != convert_one("NaN", pa.float64())


def test_a_row_names_each_text_that_does_not_convert():
    texts = pa.table({"a": ["1", "x", None], "b": ["2024-01-01", "y", "2024-01-01"]})
    table, reasons = values.convert(texts, pa.schema([("a", pa.int64()), ("b", pa.date32())]))
    assert reasons == {1: "field `a`: 'x' is not a BIGINT; field `b`: 'y' is not a DATE"}
    assert table["a"].to_pylist() == [1, None, None]


def test_a_long_text_is_shown_in_part():
    field = pa.field("a", pa.decimal128(10, 2))
    assert values.describe_misfit(field, "z" * 500) == f"field `a`: '{'z' * 80}…' is not a DECIMAL(10, 2)"


def test_threads_and_forked_processes_have_connections_of_their_own():
    own = values.connection()
    assert values.connection() is own
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(values.connection).result() is not own
    with mock.patch("os.getpid", return_value=-1):
        assert values.connection() is not own
    assert values.connection() is own


NUMBER_TEXTS = st.text("0123456789+-.eExX_ ", max_size=24) | st.integers().map(str) | st.decimals().map(str)
TIME_TEXTS = (
    st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([ T][0-9:.]{0,15}(Z|[+-][0-9:]{0,5})?)?\Z")
    | st.datetimes(timezones=st.timezones() | st.none()).map(str)
    | st.datetimes().map(datetime.isoformat)
)
TEXTS = NUMBER_TEXTS | TIME_TEXTS | st.sampled_from(["true", "NaN", "inf", "-Infinity", "nan(1)", "T", "1"])


@given(st.lists(TEXTS | st.none(), max_size=4), st.sampled_from(TYPES))
@example(["2024-01-01 10+02:00"], UTC_US)
@example(["0000-01-01 00:00:00"], UTC_US)
@example(["0x1F", "12"], pa.int64())
@example(["12345"], pa.decimal128(38, 36))
def test_arrow_is_trusted_only_where_it_agrees_with_sql(texts, dtype):
    column = pa.chunked_array([pa.array(texts, pa.string())])
    plain = values._cast_plain(column, dtype)
    if plain is not None:
        assert plain.equals(values._cast_each(column, dtype))


@given(NUMBER_TEXTS, st.sampled_from([pa.int8(), pa.int64(), pa.uint64()]))
def test_integers_are_exact(text, dtype):
    value = convert_one(text, dtype)
    if value != "rejected":
        assert value == Decimal(text.strip())
    elif re.fullmatch(r" *[+-]?[0-9]+(\.0*)? *", text):
        exact = int(text.strip().partition(".")[0])
        n_values = 2**dtype.bit_width
        low = 0 if dtype == pa.uint64() else -n_values // 2
        assert not low <= exact < low + n_values


@given(NUMBER_TEXTS, st.integers(1, 38), st.data())
def test_decimals_are_exact(text, precision, data):
    scale = data.draw(st.integers(0, precision))
    value = convert_one(text, pa.decimal128(precision, scale))
    if value != "rejected":
        assert value == Decimal(text.strip())
    elif re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
        n_fraction_digits = len(text.partition(".")[2].rstrip("0"))
        assert n_fraction_digits > scale or abs(Decimal(text)) >= Decimal(10) ** (precision - scale)


@given(st.datetimes(timezones=st.none() | st.timezones()))
def test_timestamps_are_exact(moment):
    assumed = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    offset = assumed.utcoffset()
    if offset.total_seconds() % 60 == 0 and 1 < moment.year < 9999:
        assert convert_one(moment.isoformat(), UTC_US) == assumed.astimezone(UTC)
