"""What DuckDB reads in the text of an expression is what Sash reads, or it is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.errors import ParseError
from sash.sql.bind import bind
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.parse import parse_query

FIELDS = {
    "a": pa.int64(),
    "b": pa.int64(),
    "c": pa.int64(),
    "p": pa.bool_(),
    "q": pa.bool_(),
    "s": pa.string(),
    "r": pa.string(),
    "l": pa.list_(pa.int64()),
    "d": pa.float64(),
    "at": pa.int64(),
    "ts": pa.timestamp("us"),
}
CATALOG: Catalog = {"t": StreamInfo(pa.schema(FIELDS), time="ts")}


def bind_item(expr: str) -> None:
    bind(parse_query(f"SELECT {expr} AS x FROM t WINDOW 1 DAY"), CATALOG)


@pytest.mark.parametrize(
    "expr",
    [
        "NOT a IS NULL", "a IS NULL = p", "(a = b) IS NULL", "a IS NOT NULL", "a NOTNULL", "a ISNULL", "p IS NOT TRUE",
        "-2 ^ 2", "-a ** b", "2 ^ -1", "a ^ b ^ c", "a ** b ** c", "a // b // c", "a % b * c", "a - (b - c)",
        "s || r = s", "s || r || s", "a BETWEEN b AND c AND p", "NOT a BETWEEN 1 AND 2", "NOT a IN (1, 2)",
        "a NOT IN (1, 2) = p", "a IN (1) = p", "(NOT p) = q", "NOT p = q", "p = NOT q", "p AND q OR p",
        "a::int[1]", "s::int[]", "(s::int[])[1]", "l[1]::int", "-l[1]", "-a::int", "-1::INT", "a::DECIMAL(9, 2)::INT",
        "s::VARCHAR || r", "a & b | c", "a << 2 + 1", "a << b >> c", "~a + b", "- - a", "+a", "- 2", "(a < b) = p",
        "s COLLATE NOCASE = r", "ts AT TIME ZONE 'UTC'", "ts + INTERVAL 1 DAY", "ts + INTERVAL '1' DAY", "@a", "a == b",
        "ts + INTERVAL (a) DAY", "list_transform(l, x -> x + 1)", "list_transform(l, lambda x: x + 1)",
        "[x + 1 for x in l if x > 2]", "list_filter(l, x -> x > 1 AND x < 3)", "a IS DISTINCT FROM b", "s ~ r",
        "s LIKE r || s", "s NOT LIKE r", "s LIKE 'x' ESCAPE '!'", "s ILIKE r", "s SIMILAR TO r", "s ~~ r", "s ^@ r",
        "CASE WHEN p THEN a ELSE b END + 1", "CASE a WHEN 1 THEN 2 END IS NULL", "if(p, a, b)", "{'x': a}.x",
        "(a, b) = (b, c)", "(a, b) IN ((1, 2))", "position('a' in s)", "substring(s from 2 for 3)", "a IN l",
        "trim(both 'x' from s)", "extract(year from ts)", "a IN [1, 2]", "a NOT IN [1, 2]", "MAP {'a': 1}['a']",
        "ifnull(a, b)", "nullif(a, b)", "DATE '2026-01-01' + 1", "1_000", ".5", "1e5", "E'a\\nb'", "$$it$$", "l[1:2]",
        "s /* a remark */ || -- another\n r", "\"a\" + t.\"b\"", "s -> 'x'", "(s -> 'a.b') = r", "s ->> 'x' = r",
        "'ä' || s", "sum(a) // 2", "count(DISTINCT a)",
    ],
)  # fmt: skip
def test_what_both_read_alike(expr: str) -> None:
    bind_item(expr)


@pytest.mark.parametrize("expr", ["at", "t.at + 1", 'at IN (1, 2) OR "at" > a', "list_transform(l, x -> x + at)"])
def test_a_column_may_be_called_what_is_a_word_to_duckdb(expr: str) -> None:
    bind_item(expr)


@pytest.mark.parametrize(
    ("expr", "underlined"),
    [
        ("a < b < c", "a < b < c"),
        ("a = b = p", "a = b = p"),
        ("s LIKE '%a%' IN ('x')", "IN"),
        ("'ä' || s LIKE r LIKE s", "LIKE"),
        ("a + NOT p", "p"),
        ("a BETWEEN SYMMETRIC b AND c", "SYMMETRIC"),
        ("'a' 'b'", "'b'"),
        ("ts + INTERVAL a DAY", "DAY"),
        ("s -> 'x' = 'y'", "s -> 'x' = 'y'"),
        ("s -> 'x' ->> 'y' = 'z'", "s -> 'x' ->> 'y' = 'z'"),
        ("a <=> b", "a <=> b"),
        ("!p", "!p"),
    ],
)
def test_what_duckdb_reads_otherwise_or_not_at_all(expr: str, underlined: str) -> None:
    with pytest.raises(ParseError) as refused:
        bind_item(expr)
    _, line, carets = str(refused.value).split("\n")
    start = carets.index("^")
    assert line[start : start + carets.count("^")] == underlined


@pytest.mark.parametrize(
    "clause",
    [
        "WHERE a < b < c WINDOW 1 DAY",
        "JOIN t u ON t.a < u.b < t.c WINDOW 1 DAY",
        "GROUP BY t.a, (a < b < c) WINDOW 1 DAY",
        "GROUP BY t.a HAVING t.a < count(*) < 3 WINDOW 1 DAY",
        "WHERE p = q NOT IN (SELECT p FROM t) = p WINDOW 1 DAY",
        "WHERE s LIKE 'a' IN (SELECT p FROM t) WINDOW 1 DAY",
        "WHERE a IN (SELECT a FROM t WHERE a < b < c) WINDOW 1 DAY",
    ],
)
def test_every_clause_is_read(clause: str) -> None:
    with pytest.raises(ParseError):
        bind(parse_query(f"SELECT t.a FROM t {clause}"), CATALOG)


@pytest.mark.parametrize(
    "condition",
    [
        "a IN (SELECT a FROM t [RANGE 5 SECONDS]) AND NOT p",
        "a NOT IN (SELECT a FROM t WHERE s = ')' WINDOW 1 DAY) /* ( */ AND p",
        "(a, b) IN ((SELECT a, b FROM t) UNION SELECT b, a FROM t) AND NOT p",
        "NOT EXISTS (FROM t) AND EXISTS (SELECT * FROM t u WHERE u.a = t.a) AND p",
    ],
)
def test_subqueries_are_read_by_themselves(condition: str) -> None:
    bind(parse_query(f"SELECT a FROM t WHERE {condition} WINDOW 1 DAY"), CATALOG)
