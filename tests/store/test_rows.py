"""Rows in vectors against plain Arrow tables, of every type that a stream can have, in memory and in files."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store.directory import Directory
from sash.store.rows import Rows
from sash.store.vector import Memory, dump, load

WHOLE = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=5)
VALUES: dict[pa.DataType, st.SearchStrategy] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(0, 99_999),
    pa.timestamp("us", "UTC"): WHOLE,
    pa.decimal128(18, 2): st.decimals(-100, 100, places=2),
    pa.decimal256(60, 2): st.decimals(-100, 100, places=2),
    pa.month_day_nano_interval(): st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.binary(): st.binary(max_size=5),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.null(): st.none(),
    pa.list_(pa.string()): st.lists(st.none() | TEXT, max_size=3),
    pa.large_list(pa.int16()): st.lists(st.integers(0, 9), max_size=3),
    pa.list_(pa.list_(pa.bool_())): st.lists(st.none() | st.lists(st.booleans(), max_size=2), max_size=2),
    pa.list_(pa.int32(), 2): st.lists(WHOLE, min_size=2, max_size=2),
    pa.list_(pa.string(), 2): st.lists(TEXT, min_size=2, max_size=2),
    pa.map_(pa.string(), pa.int32()): st.lists(st.tuples(TEXT, st.none() | WHOLE), max_size=2),
    pa.struct([("a", pa.string()), ("b", pa.map_(pa.int8(), pa.list_(pa.binary())))]): st.fixed_dictionaries(
        {
            "a": st.none() | TEXT,
            "b": st.none()
            | st.lists(st.tuples(st.integers(0, 3), st.lists(st.binary(max_size=2), max_size=2)), max_size=2),
        }
    ),
}


@pytest.mark.parametrize("in_files", [False, True], ids=["in memory", "in files"])
@pytest.mark.parametrize("type", VALUES, ids=str)
@given(data=st.data())
def test_rows_are_read_as_they_came(type: pa.DataType, in_files: bool, data) -> None:
    schema = pa.schema([("value", type), ("number", pa.int64())])
    columns = st.lists(st.none() | VALUES[type] if data.draw(st.booleans()) else VALUES[type], max_size=12)
    with TemporaryDirectory() as directory:
        arena = Directory(Path(directory)) if in_files else Memory()
        rows, kept = Rows(schema, arena), schema.empty_table()
        for _ in range(data.draw(st.integers(1, 5))):
            values = data.draw(columns)
            table = pa.table({"value": pa.array(values, type), "number": pa.array(range(len(values)))}, schema=schema)
            table = table.slice(data.draw(st.integers(0, len(values))))
            rows.append(table)
            kept = pa.concat_tables([kept, table])
            n_gone = data.draw(st.integers(0, kept.num_rows))
            rows.drop_before(rows.base + n_gone)
            kept = kept.slice(n_gone)
            if in_files and data.draw(st.booleans()):
                rows = load(dump(rows, arena), Directory(Path(directory)))
                arena = rows._columns["number"].items._arena
            check(rows, kept, data)


def check(rows: Rows, kept: pa.Table, data) -> None:
    assert rows.n_rows == kept.num_rows
    assert same(rows.read(rows.base, rows.n_rows), kept)
    assert rows.int64("number")[: rows.n_rows].tolist() == kept["number"].to_pylist()
    if rows.n_rows:
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, rows.n_rows)] * 2)))
        assert same(rows.read(rows.base + start, stop - start), kept.slice(start, stop - start))
        wanted = np.array(data.draw(st.lists(st.integers(0, rows.n_rows - 1), max_size=6)), np.int64)
        assert same(rows.take(wanted + rows.base), kept.take(pa.array(wanted)))


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    ours.validate(full=True)
    return ours.schema.equals(theirs.schema) and repr(ours.to_pylist()) == repr(theirs.to_pylist())


def test_cleared_rows_start_again_from_a_number() -> None:
    rows = Rows(pa.schema([("name", pa.string()), ("price", pa.decimal128(9, 2))]), Memory())
    rows.append(pa.table({"name": ["a", None], "price": [Decimal("1.00"), None]}, schema=rows.schema))
    rows.clear(7)
    rows.append(pa.table({"name": ["b"], "price": [Decimal("2.50")]}, schema=rows.schema))
    assert rows.read(7, 1).to_pylist() == [{"name": "b", "price": Decimal("2.50")}]
