"""Parquet files: columns by name, casts that lose nothing, whole-file errors."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.errors import SourceError
from sash.io import FileSource, parquet, read_file


def read(directory, table: pa.Table, schema: pa.Schema, **write_options) -> pa.Table:
    path = str(directory / "f.parquet")
    pq.write_table(table, path, **write_options)
    chunks = list(read_file(FileSource(str(directory), "parquet", schema), path))
    assert all(records.rows.schema == schema and not len(records.rejects) for records in chunks)
    return pa.concat_tables([schema.empty_table(), *(records.rows for records in chunks)])


def test_columns_are_found_by_name_in_any_order_and_case(tmp_path):
    table = pa.table({"B": ["x"], "other": [1.5], "a": [1]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert read(tmp_path, table, schema).to_pylist() == [{"a": 1, "b": "x"}]


def test_rows_come_in_batches_and_are_numbered_from_one(tmp_path):
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"a": range(10)}), path, row_group_size=4)
    source = FileSource(path, "parquet", pa.schema([("a", pa.int64())]))
    with mock.patch.object(parquet, "BATCH_ROWS", 3):
        chunks = list(read_file(source, path))
    assert max(len(records.rows) for records in chunks) == 3
    assert [line for records in chunks for line in records.lines] == list(range(1, 11))
    assert [value for records in chunks for value in records.rows["a"].to_pylist()] == list(range(10))


@pytest.mark.parametrize(
    ("column", "dtype", "value"),
    [
        (pa.array([1], pa.int8()), pa.int64(), 1),
        (pa.array([1], pa.int64()), pa.int8(), 1),
        (pa.array([2.0]), pa.int64(), 2),
        (pa.array([0.5]), pa.float32(), 0.5),
        (pa.array([1], pa.int32()), pa.decimal128(12, 2), Decimal("1.00")),
        (pa.array([Decimal("1.50")]), pa.float64(), 1.5),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array(["x"], pa.large_string()), pa.string(), "x"),
        (pa.array([b"x"]), pa.string(), "x"),
        (pa.array([1000], pa.timestamp("ns")), pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (pa.array([1], pa.timestamp("ms", "Europe/Oslo")), pa.timestamp("us"), datetime(1970, 1, 1, 0, 0, 0, 1000)),
        (pa.array([1], pa.date32()), pa.timestamp("us"), datetime(1970, 1, 2)),
        (pa.array([86_400_000_000], pa.timestamp("us")), pa.date32(), date(1970, 1, 2)),
        (pa.nulls(1), pa.int64(), None),
        (pa.array([[1]], pa.list_(pa.int32())), pa.list_(pa.int64()), [1]),
        (pa.array([{"x": 1}]), pa.struct([("x", pa.int64())]), {"x": 1}),
    ],
)
def test_cast_without_loss(tmp_path, column, dtype, value):
    assert read(tmp_path, pa.table({"a": column}), pa.schema([("a", dtype)])).to_pylist() == [{"a": value}]


def test_nan_is_no_loss(tmp_path):
    table = read(tmp_path, pa.table({"a": [float("nan"), None]}), pa.schema([("a", pa.float32())]))
    assert str(table["a"].to_pylist()) == "[nan, None]"


def test_old_spark_timestamps_span_all_years(tmp_path):
    moment = datetime(9999, 12, 31, 23, 59, 59)
    schema = pa.schema([("a", pa.timestamp("us"))])
    table = pa.table({"a": [moment]}, schema=schema)
    assert read(tmp_path, table, schema, use_deprecated_int96_timestamps=True)["a"].to_pylist() == [moment]


@pytest.mark.parametrize(
    ("column", "dtype", "reason"),
    [
        (pa.array([300]), pa.int8(), "is int64 but declared as int8, and loses values: Integer value 300 not in range"),
        (pa.array([1.5]), pa.int64(), "is double but declared as int64, and loses values: Float value 1.5"),
        (
            pa.array([0.1]),
            pa.float32(),
            "is double but declared as float, and loses digits; declare the column as double",
        ),
        (
            pa.array(["1"]),
            pa.int64(),
            "is string but declared as int64, which is of another kind; declare the column as",
        ),
        (pa.array([1]), pa.timestamp("us"), "is int64 but declared as timestamp[us], which is of another kind"),
        (pa.array([1], pa.timestamp("us")), pa.date32(), "is timestamp[us] but declared as date32[day], and loses"),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), "is timestamp[ns] but declared as timestamp[us], and"),
        (pa.array([2**53 + 1]), pa.float64(), "is int64 but declared as double, and loses values"),
        (pa.array([b"\xff"]), pa.string(), "is binary but declared as string, and loses values"),
        (
            pa.array([Decimal("1.239")]),
            pa.decimal128(10, 2),
            "is decimal128(4, 3) but declared as decimal128(10, 2), and",
        ),
    ],
)
def test_a_file_that_would_lose_something_is_an_error(tmp_path, column, dtype, reason):
    with pytest.raises(SourceError) as error:
        read(tmp_path, pa.table({"a": column}), pa.schema([("a", dtype)]))
    assert str(error.value).startswith(f"file `{tmp_path}/f.parquet`: column `a` {reason}")


def test_a_missing_column_is_an_error(tmp_path):
    with pytest.raises(SourceError) as error:
        read(tmp_path, pa.table({"name": [1]}), pa.schema([("nam", pa.int64())]))
    assert str(error.value) == f"file `{tmp_path}/f.parquet` has no column `nam`; did you mean `name`?"


def test_a_column_spelt_in_two_ways_is_an_error(tmp_path):
    with pytest.raises(SourceError, match="has column `a` 2 times"):
        read(tmp_path, pa.table([[1], [2]], names=["A", "A"]), pa.schema([("a", pa.int64())]))


DAMAGES = {
    "empty": lambda data: b"",
    "other": lambda data: b"id,name\n1,a\n",
    "cut off": lambda data: data[:-9],
    "shifted": lambda data: data[9:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_an_error(tmp_path, damage):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(1000)}), path)
    path.write_bytes(damage(path.read_bytes()))
    source = FileSource(str(tmp_path), "parquet", pa.schema([("a", pa.int64())]))
    with pytest.raises(
        SourceError, match=r"^file `.*f\.parquet` cannot be read as `parquet`: .*; repair it where it is, or put"
    ):
        list(read_file(source, str(path)))


def test_a_flipped_bit_in_a_page_is_an_error(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(1000)}), path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    source = FileSource(str(tmp_path), "parquet", pa.schema([("a", pa.int64())]))
    with pytest.raises(SourceError, match="cannot be read as `parquet`"):
        list(read_file(source, str(path)))
