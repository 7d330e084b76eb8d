"""Values of different types meet as they do in DuckDB: whole queries against DuckDB over the same rows.

The window is longer than the streams, so after the last row the answer is that of the plain query over all rows.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

import sash
from sash.errors import BindError, PlanError
from sash.runtime.script import bind_script
from sash.sql import duck
from sash.sql.bind import bind
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.parse import parse_query

TIMES = pa.array([1, 2, 3, 4], pa.int64())
ROWS = {
    "t": pa.table(
        {
            "k": pa.array([1, 2, 3, None], pa.int32()),
            "d": pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("6.00"), None], pa.decimal128(9, 2)),
            "h": pa.array([Decimal(1), Decimal(2), Decimal(6), None], pa.decimal128(38, 0)),
            "b": [True, False, None, True],
            "l": pa.array([[1], [2, 3], None, []], pa.list_(pa.int32())),
            "s": ["a", "b", None, '"_agg.0"'],
            "ts": TIMES,
        }
    ),
    "u": pa.table(
        {
            "k": pa.array([1, 2, 2, 6], pa.int64()),
            "d": pa.array([Decimal("1.500"), Decimal("2.001"), Decimal("6.000"), None], pa.decimal128(18, 3)),
            "b": [False, None, True, False],
            "l": pa.array([[1], [2], None, [2, 3]], pa.list_(pa.int64())),
            "ts": TIMES,
        }
    ),
}
CATALOG: Catalog = {name: StreamInfo(table.schema, time="ts") for name, table in ROWS.items()}
SUMS = "(SELECT b, SUM(k) AS s FROM t GROUP BY b) q"

DIGITS = (
    "SELECT t.k, u.k AS j FROM t, u WHERE CAST(t.k AS DECIMAL(9,2)) = u.d",
    "SELECT t.k, u.k AS j FROM t, u WHERE t.d = u.d",
    "SELECT t.k, u.k AS j FROM t, u WHERE CAST(t.d AS DECIMAL(9,2)) = CAST(u.d AS DECIMAL(18,3))",
    "SELECT CAST(k AS DECIMAL(9,2)) AS d FROM t UNION SELECT d FROM u",
    "SELECT CAST(k AS DECIMAL(9,2)) AS d FROM t INTERSECT SELECT CAST(k AS DECIMAL(18,3)) FROM u",
    "SELECT CAST(k AS DECIMAL(9,2)) AS d FROM t EXCEPT SELECT CAST(k AS DECIMAL(18,3)) FROM u",
    "SELECT k FROM t WHERE CAST(k AS DECIMAL(9,2)) IN (SELECT d FROM u)",
    "SELECT k FROM t WHERE CAST(k AS DECIMAL(9,2)) NOT IN (SELECT d FROM u WHERE d > 1)",
    "SELECT k FROM t WHERE EXISTS (SELECT * FROM u WHERE u.d = CAST(t.d AS DECIMAL(5,1)))",
    "SELECT h FROM t WHERE EXISTS (SELECT * FROM u WHERE u.d = t.h)",
    "SELECT h FROM t WHERE h IN (SELECT d FROM u)",
    "SELECT CAST(l AS INTEGER[]) AS l FROM t UNION ALL SELECT l FROM u",
    "SELECT t.k FROM t, u WHERE CAST(t.l AS INTEGER[]) = u.l",
)
HUGE = (
    "SELECT 1.5 AS x FROM t UNION ALL SELECT SUM(k) FROM t",
    "SELECT d FROM t UNION SELECT SUM(k) FROM t",
    "SELECT d FROM t INTERSECT SELECT SUM(k) FROM t",
    "SELECT d FROM t EXCEPT SELECT SUM(k) FROM t",
    "SELECT d FROM t WHERE d IN (SELECT SUM(k) FROM u)",
    "SELECT d FROM t WHERE d + 0.5 IN (SELECT s FROM (SELECT SUM(k) AS s FROM t GROUP BY b) q)",
    "SELECT d FROM t WHERE d NOT IN (SELECT SUM(k) FROM t)",
    "SELECT d FROM t WHERE EXISTS (SELECT * FROM (SELECT SUM(k) AS s FROM t GROUP BY b) q WHERE q.s = t.d)",
    f"SELECT s, typeof(s) AS t, s // 2 AS half, s + 0.5 AS more, coalesce(s, 1.5) AS c FROM {SUMS}",
    f"SELECT greatest(s, 1.5) AS g, CASE WHEN b THEN s ELSE 2.5 END AS e, s = 1.5 AS is_equal FROM {SUMS}",
    f"SELECT typeof(s) AS t, n FROM (SELECT s, COUNT(*) AS n FROM {SUMS} GROUP BY s HAVING s / 2 < 1.5) p",
    f"SELECT * FROM (SELECT MAX(s) + 0.5 AS m, SUM(s) // 4 AS n, MIN(s) AS o FROM {SUMS}) p",
    f"WITH w AS (SELECT s FROM {SUMS} UNION SELECT 7 FROM t) SELECT s, coalesce(s, 1.5) AS c FROM w",
    "WITH w AS (SELECT SUM(k) AS s FROM t), x AS (SELECT * FROM w) SELECT s * 1.5 AS p, typeof(s) AS t FROM x",
    "SELECT DISTINCT typeof(x) AS t, coalesce(x, 0.5) AS c FROM (SELECT CAST(k AS HUGEINT) AS x FROM t) q",
    "SELECT typeof(x) AS t, coalesce(x, 0.5) AS c FROM (SELECT CAST(k AS UHUGEINT) AS x FROM t) q",
    "SELECT typeof(x) AS t, coalesce(x[1], 0.5) AS c FROM (SELECT [CAST(k AS HUGEINT)] AS x FROM t) q",
    "SELECT typeof(x.a) AS t, coalesce(x.a, 0.5) AS c FROM (SELECT {'a': CAST(k AS HUGEINT)} AS x FROM t) q",
    "SELECT typeof(h) AS t, coalesce(h, 1.5) AS c FROM (SELECT h FROM t) q",
    "SELECT typeof(h) AS t, c FROM (SELECT h, COUNT(*) AS c FROM t GROUP BY h) q",
    "SELECT h FROM t UNION ALL SELECT 1.5 FROM t",
    "SELECT h FROM t INTERSECT SELECT SUM(k) FROM t",
    f"SELECT t.k, q.s FROM t, {SUMS} WHERE t.d = q.s",
    f"SELECT t.k, q.s FROM t, {SUMS} WHERE t.h = q.s AND q.b IS NULL",
    "SELECT coalesce(x, 'none') AS c, typeof(x) AS t FROM (SELECT NULL AS x FROM t) q",
    "SELECT x FROM (SELECT NULL AS x FROM t) q UNION SELECT s FROM t",
)
COLLATIONS = (
    "SELECT t.k, r.k AS j FROM t, t r WHERE t.s COLLATE NOCASE = upper(r.s)",
    "SELECT CASE WHEN s COLLATE NOCASE = 'A' THEN 'yes' ELSE s END AS x FROM t",
    "SELECT k FROM t WHERE s COLLATE NOCASE IN ('A', 'B')",
)
BRACKETS = (
    "SELECT k FROM t WHERE (NOT b) NOT IN (SELECT b FROM u WHERE b)",
    "SELECT k FROM t WHERE (NOT b) NOT IN (SELECT b FROM u WHERE b IS NOT NULL)",
    "SELECT k FROM t WHERE (b OR k > 1) NOT IN (SELECT b FROM u WHERE NOT b)",
    "SELECT k FROM t WHERE (k = 1 AND b) NOT IN (SELECT b FROM u WHERE NOT b)",
    "SELECT k FROM t WHERE (k BETWEEN 1 AND 2) NOT IN (SELECT b FROM u WHERE NOT b)",
    "SELECT k FROM t WHERE (b IS NULL) IN (SELECT b FROM u)",
    "SELECT k FROM t WHERE (NOT b) IN (SELECT NOT b OR b FROM u)",
    "SELECT k FROM t WHERE EXISTS (SELECT * FROM u WHERE (u.b OR u.k > 1) = (NOT t.b))",
    "SELECT t.k FROM t, u WHERE (NOT t.b) = (u.b OR u.k > 2)",
    "SELECT x AND k = 1 AS y FROM (SELECT k, b OR k > 1 AS x FROM t) q",
    "SELECT n FROM (SELECT k > 1 OR b AS x, COUNT(*) AS n FROM t GROUP BY x HAVING NOT x) q",
    "SELECT n * 2 AS m FROM (SELECT COUNT(*) AS n FROM t HAVING COUNT(*) - (COUNT(k) - COUNT(b)) = 4) q",
    "SELECT n FROM (SELECT COUNT(*) AS n, SUM(k) AS x FROM t HAVING '\"_agg.0\"' = '\"_agg.' || '0\"') q",
)


@pytest.mark.parametrize("text", [*DIGITS, *HUGE, *COLLATIONS, *BRACKETS])
def test_answer_is_that_of_duckdb(text: str) -> None:
    frames = {name: sash.stream(table, time="ts") for name, table in ROWS.items()}
    changes = sash.sql(f"{text} WINDOW 1 DAY", **frames)
    with duck.connect() as connection:
        for name, table in ROWS.items():
            connection.register(name, table)
        expected = connection.sql(text).to_arrow_table()
    answer = changes.drop_columns(["_op", "_ts", "_expires"])
    assert answer.schema.names == expected.schema.names
    assert answer.schema.types == expected.schema.types
    assert +count_rows(answer, changes.column("_op").to_pylist()) == count_rows(expected)


def count_rows(table: pa.Table, signs: list[int] | None = None) -> Counter:
    rows: Counter = Counter()
    for number, row in enumerate(table.to_pylist()):
        rows[repr(tuple(row.values()))] += signs[number] if signs else 1
    return rows


@pytest.mark.parametrize("text", HUGE)
def test_types_in_the_words_of_duckdb(text: str) -> None:
    outputs = bind(parse_query(f"{text} WINDOW 1 DAY"), CATALOG).outputs
    with duck.connect() as connection:
        for name, table in ROWS.items():
            connection.register(name, table)
        assert [output.sql_type for output in outputs] == list(map(str, connection.sql(text).types))


def test_a_declared_hugeint_is_one_and_a_declared_decimal_is_not() -> None:
    script = """
        CREATE STREAM s (x {}, ts BIGINT) TIMESTAMP BY ts FROM 'data' FORMAT csv;
        SELECT x, coalesce(x, 1.5) AS c FROM s;
    """
    for declared, common in (("HUGEINT", "decimal128(38, 1)"), ("DECIMAL(38,0)", "decimal128(38, 0)")):
        (plan,) = bind_script(script.format(declared)).plans.values()
        assert [str(type_) for _, type_ in plan.outputs] == ["decimal128(38, 0)", common]


@pytest.mark.parametrize(
    ("condition", "types"),
    [
        ("d NOT IN (SELECT b FROM u)", "DECIMAL(9,2) and BOOLEAN"),
        ("CAST(s AS TIMESTAMPTZ) IN (SELECT CAST('2026-01-01' AS TIMESTAMP_NS) FROM u)", "and TIMESTAMP_NS"),
    ],
)
def test_what_duckdb_does_not_compare_is_refused(condition: str, types: str) -> None:
    with pytest.raises(BindError, match=types.replace("(", r"\(").replace(")", r"\)")):
        bind(parse_query(f"SELECT k FROM t WHERE {condition} WINDOW 1 DAY"), CATALOG)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT s COLLATE NOCASE AS x FROM t",
        "SELECT k FROM (SELECT k, s COLLATE NOCASE AS x FROM t) q WHERE x = 'A'",
        "SELECT MIN(s COLLATE NOCASE) AS x FROM t",
        "SELECT COUNT(*) AS n FROM t GROUP BY s COLLATE NOCASE",
        "SELECT k FROM t WHERE s COLLATE NOCASE IN (SELECT s FROM t)",
        "SELECT k FROM t WHERE EXISTS (SELECT * FROM t r WHERE r.s COLLATE NOCASE = t.s)",
    ],
)
def test_a_collation_that_would_get_lost_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="a collation reaches no further than a comparison"):
        bind(parse_query(f"{text} WINDOW 1 DAY"), CATALOG)


def test_a_column_without_a_name_is_refused() -> None:
    catalog: Catalog = {"t": StreamInfo(pa.schema({"": pa.int64(), "ts": pa.int64()}), time="ts")}
    with pytest.raises(BindError, match="a column of `t` has an empty name"):
        bind(parse_query("SELECT * FROM t"), catalog)


def test_integers_with_and_without_a_sign_meet_in_a_wider_one() -> None:
    rows = pa.table({"ts": pa.array([1], pa.int64()), "k": pa.array([1], pa.int64()), "u": pa.array([1], pa.uint64())})
    text = "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t r WHERE r.u = t.k) WINDOW 5 us"
    assert sash.sql(text, t=sash.stream(rows, time="ts")).column("k").to_pylist() == [1]
