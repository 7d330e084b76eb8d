"""Columns whose names are words of DuckDB's grammar."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sash

STREAM = sash.stream(pa.table({"at": pa.array([1, 2], pa.int64()), "left": [1, 2], "end": [5, 6]}), time="at")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT at, x.at + 1 AS next, left FROM s x WHERE left > 1 WINDOW 3 us",
        "SELECT at, at + 1 AS next, left FROM s WHERE at IN (SELECT at FROM s WHERE left > 1) WINDOW 3 us",
    ],
)
def test_a_word_may_name_a_column(text: str) -> None:
    (row,) = sash.sql(text, s=STREAM).drop_columns(["_op", "_ts", "_expires"]).to_pylist()
    assert row == {"at": 2, "next": 3, "left": 2}


def test_such_a_column_is_read_where_it_stands() -> None:
    with pytest.raises(sash.ParseError, match="comparison of comparisons"):
        sash.sql("SELECT at < 3 < 4 AS q FROM s WINDOW 3 us", s=STREAM)
