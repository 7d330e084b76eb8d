"""Functions OVER rows, wherever they may be written: Sash answers as DuckDB does, told the order of equal rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sash

N = 24
ROWS = pa.table(
    {
        "ts": pa.array(range(N), pa.int64()),
        "k": pa.array([("a", "b", None)[number % 3] for number in range(N)], pa.string()),
        "v": pa.array([(7 * number) % 5 if number % 6 else None for number in range(N)], pa.int64()),
        "x": pa.array([0.25 * (number % 4) for number in range(N)], pa.float64()),
    }
)
STREAM = sash.stream(ROWS, time="ts")
TEXTS = (
    "SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) FROM s",
    "SELECT k, k AS other, v + sum(v) OVER (PARTITION BY k) - x AS y FROM s",
    "SELECT DISTINCT k, count(*) OVER (PARTITION BY k) AS n FROM s",
    "SELECT v, rank() OVER (ORDER BY x DESC) AS r FROM s ORDER BY r, v LIMIT 3",
    "SELECT v, k, lag(v) OVER (ORDER BY ts) AS b FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) <= 2",
    "SELECT DISTINCT ON (k) k, dense_rank() OVER (ORDER BY v) AS d FROM s ORDER BY v",
    "SELECT k, sum(v) AS t, sum(sum(v)) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) AS u FROM s GROUP BY k",
    "SELECT k, count(*) AS n FROM s GROUP BY 1 HAVING count(*) > 1 UNION ALL SELECT k, rank() OVER (ORDER BY v) FROM s",
    "SELECT CASE WHEN v > 2 THEN lead(v, 2, 7) OVER (ORDER BY ts) ELSE first_value(v) OVER (ORDER BY v) END FROM s",
    "SELECT lag(v, 1, 0.6) OVER (PARTITION BY k ORDER BY ts) AS y, lag(v, -1) OVER (ORDER BY ts) AS z FROM s",
    "SELECT count(*) FILTER (WHERE v > 1) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS y FROM s",
    "SELECT last_value(x) OVER (ORDER BY v NULLS FIRST RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS y FROM s",
    "SELECT avg(x) OVER (ORDER BY v DESC RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS y FROM s",
    "SELECT min(k) OVER (ORDER BY ts RANGE 3 PRECEDING) AS y, max(k) OVER (PARTITION BY v) AS z FROM s",
    "SELECT a.n, b.v FROM (SELECT k, row_number() OVER (ORDER BY v) AS n FROM s) a JOIN s b ON a.k = b.k WHERE a.n < 3",
    "SELECT v FROM s WHERE v IN (SELECT row_number() OVER (ORDER BY ts) FROM s)",
    "SELECT v FROM s A WHERE EXISTS (SELECT rank() OVER (ORDER BY B.x) FROM s B WHERE B.v = A.v AND B.k = 'a')",
    "SELECT k, (SELECT max(v) FROM s) - v AS y, sum(v) OVER (PARTITION BY k) AS t FROM s",
    "SELECT n FROM (SELECT row_number() OVER (ORDER BY v) AS n FROM s), (SELECT count(*) AS m FROM s) WHERE n = m",
    "SELECT row_number() OVER () AS n FROM (SELECT DISTINCT k FROM s GROUP BY k)",
    "SELECT row_number() OVER () AS n FROM s",
    "SELECT rank() OVER (PARTITION BY k, s.k ORDER BY v, v DESC) AS n FROM s",
    "WITH w AS (SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM s) SELECT * FROM w WHERE r = 1",
    "SELECT A.v, count(B.v) OVER (PARTITION BY A.k ORDER BY A.ts) AS n FROM s A LEFT JOIN s B ON A.v = B.v AND B.x > 0",
)


@pytest.mark.parametrize("text", TEXTS)
def test_wherever_they_stand(text: str) -> None:
    found = sash.verify(f"{text} WINDOW 6 us", s=STREAM)
    assert found, found
    assert found.n_changes > 0


def test_columns_have_the_names_that_duckdb_gives() -> None:
    text = "SELECT v + 1, row_number() over (partition by k order by v desc), sum(v) OVER () + 1 FROM s WINDOW 3 us"
    assert sash.sql(text, s=STREAM).column_names[:3] == [
        "(s.v + 1)",
        "row_number() OVER (PARTITION BY k ORDER BY v DESC)",
        "(sum(v) OVER () + 1)",
    ]


def test_values_are_of_the_types_that_duckdb_gives() -> None:
    text = (
        "SELECT rank() OVER () AS r, sum(v) OVER () AS s, avg(v) OVER () AS a, lag(x) OVER () AS l, max(k) OVER () AS m"
    )
    types = sash.sql(f"{text} FROM s WINDOW 3 us", s=STREAM).schema.types[:5]
    assert types == [pa.int64(), pa.decimal128(38, 0), pa.float64(), pa.float64(), pa.string()]
