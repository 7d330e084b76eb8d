"""Tables as text."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.oracle.row_keys import row_keys
from sash.testing import draw, stream_of
from sash.testing.strategies import TIME_TYPES, schemas, tables


def test_a_column_has_the_type_that_fits_its_cells() -> None:
    table = stream_of("""
        ts | k    | x    | b     | d          | at
        1  | a    | 1    | true  | 2026-01-31 | 2026-01-31 12:00:00
        2  | NULL | -2.5 | false | NULL       | 1969-12-31 23:59:59.999999
    """)
    assert table.schema == pa.schema({
        "ts": pa.int64(), "k": pa.string(), "x": pa.float64(), "b": pa.bool_(), "d": pa.date32(),
        "at": pa.timestamp("us"),
    })  # fmt: skip
    assert table.to_pylist()[0] == {
        "ts": 1, "k": "a", "x": 1.0, "b": True, "d": date(2026, 1, 31), "at": datetime(2026, 1, 31, 12),
    }  # fmt: skip
    assert table.to_pylist()[1]["k"] is None


def test_quotes_make_text_of_anything() -> None:
    table = stream_of("""
        k
        '1'
        'NULL'
        'a | b'
        'it''s'
        ''
        plain words
    """)
    assert table.column("k").to_pylist() == ["1", "NULL", "a | b", "it's", "", "plain words"]


def test_given_types_overrule() -> None:
    table = stream_of("ts | k | z\n 1 | 0.5 | 2026-01-31 00:00:00+00:00", ts="TIMESTAMP", k="DECIMAL(9,2)")
    assert table.schema.types == [pa.timestamp("us"), pa.decimal128(9, 2), pa.timestamp("us", "UTC")]
    row = table.to_pylist()[0]
    assert (row["ts"], row["k"]) == (datetime(1970, 1, 1, 0, 0, 0, 1), Decimal("0.50"))
    assert row["z"] == datetime(2026, 1, 31, tzinfo=UTC)
    assert stream_of("k", k=pa.int32()).schema == pa.schema({"k": pa.int32()})


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="row 2 has 1 cells where the head names 2: 7"):
        stream_of("a | b\n 1 | 2\n 7")


families = st.tuples(*[st.sampled_from(("number", "string", "instant", "boolean"))] * 2)


@given(st.tuples(families, st.sampled_from(TIME_TYPES)).flatmap(lambda drawn: schemas(*drawn)).flatmap(tables))
def test_a_drawn_table_reads_back(table: pa.Table) -> None:
    again = stream_of(draw(table), **{field.name: field.type for field in table.schema})
    assert again.schema == table.schema
    assert row_keys(again) == row_keys(table)
