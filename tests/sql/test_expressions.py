"""Expressions reach DuckDB with the meaning they have there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.sql import duck
from sash.sql.bind import bind
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.expressions import span_of, to_duckdb
from sash.sql.parse import parse_query
from sash.sql.parsed import ParsedSelect

ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, -3], pa.int64()),
        "j": pa.array([2, None, 0, 5], pa.int64()),
        "s": pa.array(["ab", "B", None, "x%"]),
        "b": pa.array([True, False, None, True]),
        "l": pa.array([[1, 2], [], None, [3, None]], pa.list_(pa.int64())),
        "st": pa.array([{"f": 1}, None, {"f": None}, {"f": 3}]),
        "ts": pa.array([0, 10**12, None, 5 * 10**15], pa.timestamp("us")),
    }
)
EXPRESSIONS = [
    "i % 3 ^ 2",
    "-i ^ 2",
    "2 ^ 3 ^ 2",
    "i - (j - 1)",
    "i // 2 * 3 - -1",
    "i & 3 | j << 1",
    "1_000 + 1e3 + .5",
    "NOT i = j",
    "i NOT IN (1, 2) = b",
    "s NOT LIKE 'a%' = b",
    "b IS NOT TRUE AND i IS NOT NULL",
    "i = j IS NULL",
    "i BETWEEN 1 AND 2 AND b",
    "i IS DISTINCT FROM j",
    "s || 'x' = 'abx'",
    "s ~ 'a' OR s !~ 'b'",
    "s LIKE 'x!%' ESCAPE '!'",
    "s ^@ 'a'",
    "l[1] + l[-1]",
    "l[1:1]",
    "s[1]",
    "[x + i for x in l if x > 1]",
    "list_transform(l, lambda x: x + i)",
    "list_transform(l, lambda age: age + 1)",
    "list_sort(l, 'desc')",
    "2 IN l",
    "st.f + t.st.f",
    "st['f']",
    "{'a': i}.a",
    "struct_pack(a := i)",
    "map {'a': i}['a']",
    "DATE '2026-01-31'::VARCHAR",
    "TIMESTAMP '2026-01-31 10:00:00'::DATE",
    "ts + INTERVAL '1 day 2 hours' - INTERVAL 5 MINUTES",
    "INTERVAL '3' DAY",
    "date_trunc('month', ts)",
    "EXTRACT(year FROM ts)",
    "strftime(ts, '%Y-%m')",
    "ts AT TIME ZONE 'Asia/Tokyo'",
    "CASE i WHEN 1 THEN 'one' ELSE s END",
    "IF(b, i, j)",
    "coalesce(NULL, i, j)",
    "CAST(i AS DECIMAL(5, 1))",
    "TRY_CAST(s AS INTEGER)",
    "SUBSTRING(s FROM 1 FOR 1)",
    "TRIM(BOTH 'a' FROM s)",
    "POSITION('b' IN s)",
    "json '{\"a\": 1}' ->> '$.a'",
    "(i, j) = (1, 2)",
    "$$it's$$",
    "'it''s'",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_meaning_is_that_of_duckdb(expression: str) -> None:
    catalog: Catalog = {"t": StreamInfo(ROWS.schema, time="ts")}
    (output,) = bind(parse_query(f"SELECT {expression} FROM t"), catalog).outputs
    flat = ROWS.rename_columns([f"t.{name}" for name in ROWS.column_names])
    with duck.connect() as connection:
        connection.register("t", ROWS)
        connection.register("flat", flat)
        expected = connection.sql(f"SELECT {expression} AS value FROM t").to_arrow_table()
        actual = connection.sql(f"SELECT {to_duckdb(output.expr)} AS value FROM flat").to_arrow_table()
    assert actual == expected
    assert output.type == expected.schema.field("value").type


def test_names_with_quotes_and_dots() -> None:
    schema = pa.schema([('a "b".c', pa.int64()), ("ts", pa.timestamp("us"))])
    bound = bind(parse_query('SELECT "A ""B"".c" + 1 FROM s "the s"'), {"s": StreamInfo(schema, time="ts")})
    assert to_duckdb(bound.outputs[0].expr) == '"the s.a ""b"".c" + 1'
    assert bound.outputs[0].name == '(the s.a "b".c + 1)'


@pytest.mark.parametrize(
    "expression",
    ["a", "t.a", "a + 1", "upper(a)", "(a)", "CASE WHEN a THEN 1 END", "CAST(a AS INT)", "a::INT", "a IN (1, 2)",
     "a IS NOT NULL", "[1, a]", "a[1]", "{'b': a}", "INTERVAL 5 MINUTES", "'x'", "NULL", "TRUE", "-a", "NOT a",
     "DATE '2026-01-31'", "a BETWEEN 1 AND 2", "f(g(a), h(b))", "count(*)"],
)  # fmt: skip
def test_span_of_is_the_whole_expression(expression: str) -> None:
    text = f"SELECT 1 + 1, {expression}, 2 FROM t"
    select = parse_query(text)
    assert isinstance(select, ParsedSelect)
    span = span_of(select.outputs[1])
    assert span is not None
    assert text[span.start : span.end] == expression
