"""A bound query means what DuckDB makes of the text: both are run over the same rows, windows apart."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from sash.sql import duck
from sash.sql.bind import bind
from sash.sql.bound_aggregates import Aggregate
from sash.sql.bound_query import Block, BoundQuery, BoundSet, MembershipCondition
from sash.sql.catalog import Catalog, DerivedInfo, Source, StreamInfo
from sash.sql.dialect import Sash
from sash.sql.expressions import to_duckdb
from sash.sql.parse import parse_query

ROWS = {
    "t": pa.table(
        {
            "k": ["a", "a", "b", None, "c", "B"],
            "n": pa.array([1, 2, 2, None, -3, 1], pa.int64()),
            "v": [0.5, 0.5, None, 2.0, 1.5, 1.0],
            "ok": [True, False, None, True, True, False],
            "ts": pa.array(range(6), pa.timestamp("us")),
        }
    ),
    "u": pa.table(
        {
            "k": ["a", "b", "b", "d", None],
            "v": [1.0, 2.0, 2.0, None, 7.0],
            "i": pa.array([1, 2, 3, None, 2], pa.int32()),
            "ts": pa.array(range(5), pa.timestamp("us")),
        }
    ),
}
CATALOG: Catalog = {name: StreamInfo(table.schema, time="ts") for name, table in ROWS.items()}


def render(block: Block) -> str:
    """A bound query as plain SQL."""
    if isinstance(block, BoundSet):
        words = f"{block.operation} {'ALL' if block.is_all else ''}"
        return f"({render(block.left)}) {words} ({render(block.right)})"
    items = ", ".join(f'({render_source(source)}) AS "{source.alias}"' for source in block.sources)
    conditions = [to_duckdb(conjunct) for conjunct in block.conjuncts] + list(map(render_membership, block.memberships))
    rows = f"FROM {items} WHERE {' AND '.join(f'({condition})' for condition in conditions) or 'TRUE'}"
    if block.groups is not None:
        rows = f"FROM ({render_groups(block, rows)}) WHERE {' AND '.join(map(to_duckdb, block.having)) or 'TRUE'}"
    outputs = [f'{to_duckdb(output.expr)} AS "{output.name}"' for output in block.outputs] or ["1"]
    return f"SELECT {'DISTINCT ' if block.is_distinct else ''}{', '.join(outputs)} {rows}"


def render_source(source: Source) -> str:
    columns = ", ".join(f'"{name}" AS "{source.alias}.{name}"' for name in source.info.schema.names)
    rows = f"({render(source.info.block)})" if isinstance(source.info, DerivedInfo) else source.name
    return f"SELECT {columns} FROM {rows}"


def render_membership(membership: MembershipCondition) -> str:
    rows, word = render(membership.block), "NOT " if membership.is_negated else ""
    if not membership.operands:
        return f"{word}EXISTS ({rows})"
    operands = ", ".join(map(to_duckdb, membership.operands))
    found = f"({operands}) IN ({rows})"
    return f"{word}{found}" if membership.is_null_aware else f"{word}coalesce({found}, FALSE)"


def render_groups(block: BoundQuery, rows: str) -> str:
    assert block.groups is not None
    groups = [f'{to_duckdb(group.expr)} AS "_group.{i}"' for i, group in enumerate(block.groups)]
    columns = groups + [f'{render_call(call)} AS "_agg.{i}"' for i, call in enumerate(block.aggregates)]
    by = f" GROUP BY {', '.join(str(i + 1) for i in range(len(groups)))}" if groups else ""
    return f"SELECT {', '.join(columns) or '1'} {rows}{by}"


def render_call(call: Aggregate) -> str:
    argument = "*" if call.argument is None else to_duckdb(call.argument)
    passes = f" FILTER (WHERE {to_duckdb(call.filter)})" if call.filter is not None else ""
    word = "DISTINCT " if call.is_distinct or call.function == "count_distinct" else ""
    function = call.function.removesuffix("_distinct")
    return f"{function}({word}{argument}{render_further(call)}){passes}"


def render_further(call: Aggregate) -> str:
    if call.fraction is not None:
        fraction = 1 - call.fraction if call.is_descending and call.function == "quantile_cont" else call.fraction
        return f", {float(-fraction if call.is_descending and call.function == 'quantile_disc' else fraction)}"
    keys = [to_duckdb(each.expr) for each in call.order]
    if call.function in ("arg_min", "arg_max"):
        return f", {keys[0]}"
    separator = f", '{call.separator}'" if call.function == "string_agg" else ""
    words = [f"{' DESC' if o.is_descending else ''} NULLS {'FIRST' if o.nulls_first else 'LAST'}" for o in call.order]
    return separator + (f" ORDER BY {', '.join(map(str.__add__, keys, words))}" if keys else "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT k, n > 1 FROM t",
        "SELECT k, count(*), count(n), sum(n), avg(v), min(v), max(k) FROM t GROUP BY k",
        "SELECT count(*), sum(n), sum(ok), median(n), stddev(v), count(DISTINCT v) FROM t WHERE n > 100",
        "SELECT count(DISTINCT v), count(v), sum(n), sum(v) FROM t",
        "SELECT k, count(*) FROM t WHERE n > 100 GROUP BY k",
        "SELECT upper(k) AS u, sum(n) // 2, sum(n) % 2 = 0, max(v) - min(v) FROM t GROUP BY u",
        "SELECT n % 2, Upper(K) || count(*) FROM t GROUP BY upper(k), 1",
        "SELECT (n + 1) * 2, sum(n + 1) FROM t GROUP BY (n + 1)",
        "SELECT k FROM t GROUP BY k HAVING sum(n) > 1 OR k IS NULL",
        "SELECT k, sum(n) AS n FROM t GROUP BY k HAVING n > 1 AND count(*) < 3",
        "SELECT n AS k, count(*) AS c FROM t GROUP BY n HAVING k + c > 1",
        "SELECT CASE WHEN count(*) > 1 THEN k ELSE 'one' END FROM t GROUP BY k",
        "SELECT 5 AS five, count(*) + 5 FROM t GROUP BY five",
        "SELECT 5 AS five, count(*) + 5 FROM t WHERE n > 100 GROUP BY five",
        "SELECT 1 FROM t HAVING count(*) > 1",
        "SELECT DISTINCT count(*) FROM t GROUP BY k",
        "SELECT min(DISTINCT n), min(n), mean(v), stddev_samp(n), count() FROM t GROUP BY ()",
        "SELECT count(*) FILTER (WHERE n > 1), sum(n) FILTER (v < 2), count(DISTINCT k) FILTER (WHERE ok) FROM t",
        "SELECT k, 2 * min(n) FILTER (WHERE n > 1), min(n) FROM t GROUP BY k HAVING count(*) FILTER (WHERE ok) > 0",
        "SELECT count_if(ok), countif(n > 1), bool_and(ok), bool_or(n > 1), var_pop(n), variance(v) FROM t",
        "SELECT k, upper(k) AS u, count(*) FROM t GROUP BY ALL HAVING count(*) > 0",
        "SELECT 5 AS five, count(*) FROM t WHERE n > 100 GROUP BY ALL",
        "SELECT k FROM t GROUP BY ALL",
        "SELECT sum(DISTINCT n), sum(n), avg(DISTINCT v) FILTER (WHERE ok), max(DISTINCT k) FROM t",
        "SELECT quantile_cont(n, 0.25), quantile(k, 0.5), CAST(quantile_disc(n, [0.1, 0.9]) AS VARCHAR) FROM t",
        "SELECT percentile_cont(0.2) WITHIN GROUP (ORDER BY n DESC) AS p FROM t",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k) AS p, mode() WITHIN GROUP (ORDER BY k) AS m FROM t "
        "GROUP BY k",
        "SELECT len(quantile_cont(n, [0.1, 0.9])), quantile_disc(v, [0.2]) IS NULL FROM t WHERE n > 100",
        "SELECT mode(DISTINCT k) AS m, arg_min(k, n), max_by(n, k), argmax(n, v) FILTER (WHERE ok) FROM t GROUP BY k",
        "SELECT list(n ORDER BY n)[1], CAST(array_agg(k ORDER BY k DESC NULLS LAST) AS VARCHAR) FROM t",
        "SELECT CAST(list(DISTINCT n ORDER BY n DESC) AS VARCHAR), len(list(n ORDER BY n NULLS FIRST)) FROM t",
        "SELECT string_agg(k, '-' ORDER BY k), group_concat(k ORDER BY k DESC), listagg(DISTINCT k) FROM t GROUP BY k",
        "SELECT first(n ORDER BY n) AS f, last(k ORDER BY k DESC) || 'x' AS l FROM t GROUP BY ok",
        "SELECT t.k, avg(u.v) FROM t JOIN u USING (k) GROUP BY t.k, t.n",
        "SELECT k, n + 1 FROM t GROUP BY (k, n)",
        "SELECT k FROM t UNION SELECT k FROM u",
        "SELECT n FROM t UNION ALL SELECT v FROM u",
        "SELECT n, NULL FROM t UNION ALL SELECT NULL, ok FROM t",
        "SELECT n FROM t UNION SELECT k FROM u",
        "SELECT k FROM t MINUS SELECT k FROM u",
        "SELECT k FROM u EXCEPT ALL SELECT k FROM t",
        "SELECT k FROM u INTERSECT ALL SELECT k FROM u",
        "SELECT k FROM t UNION ALL SELECT k FROM u INTERSECT SELECT k FROM t",
        "(SELECT k FROM t UNION ALL SELECT k FROM u) INTERSECT SELECT k FROM t",
        "SELECT k FROM t EXCEPT SELECT k FROM u EXCEPT SELECT 'c' FROM u",
        "SELECT k FROM t EXCEPT (SELECT k FROM u EXCEPT SELECT 'a' FROM u)",
        "(SELECT DISTINCT n FROM t) UNION ALL SELECT v FROM u",
        "(SELECT DISTINCT 9007199254740992 + n % 2 FROM t) UNION ALL SELECT v FROM u",
        "(SELECT n FROM t EXCEPT SELECT i FROM u) UNION ALL SELECT v FROM u",
        "SELECT k, sum(n) FROM t GROUP BY k UNION ALL SELECT k, max(i) FROM u GROUP BY k",
        "SELECT s.k, s.total + 1 FROM (SELECT k, sum(n) AS total FROM t GROUP BY k) AS s WHERE total > 1",
        "SELECT s.k, u.v FROM (SELECT k FROM t UNION SELECT k FROM u) s, u WHERE s.k = u.k",
        "SELECT max(c) FROM (SELECT count(*) AS c FROM (SELECT DISTINCT k, n FROM t) d GROUP BY k) s",
        'SELECT * FROM (SELECT count(*), upper(k), k AS "a b" FROM t GROUP BY k) s',
        "SELECT k FROM t WHERE k IN (SELECT k FROM u) AND n > 1",
        "SELECT k FROM t WHERE n IN (SELECT v FROM u)",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE k = 'z')",
        "SELECT k FROM t WHERE NOT (NOT (k IN (SELECT k FROM u)))",
        "SELECT k FROM t WHERE n + 0.5 IN (SELECT DISTINCT i - 0.5 FROM u)",
        "SELECT k FROM t WHERE (k, n) IN (SELECT k, i FROM u)",
        "SELECT k FROM t WHERE (k, n) IN (SELECT k, max(i) FROM u GROUP BY k)",
        "SELECT k FROM t WHERE 2 IN (SELECT i FROM u)",
        "SELECT k FROM t WHERE NULL NOT IN (SELECT i FROM u)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v > 1)",
        "SELECT k FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE t.n = u.i AND u.k = t.k)",
        "SELECT k FROM t WHERE NOT EXISTS (SELECT DISTINCT v FROM u WHERE i = n)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i + 1 = t.n * 2)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE v > 100)",
        "SELECT k FROM t WHERE EXISTS (FROM u)",
        "SELECT k FROM t WHERE NOT EXISTS (SELECT k FROM u GROUP BY k HAVING count(*) > 1)",
        "SELECT k FROM t WHERE EXISTS (SELECT k FROM u EXCEPT SELECT k FROM t)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM t x WHERE x.n = u.i))",
        "SELECT k, count(*) FROM t WHERE k IN (SELECT k FROM u) GROUP BY k",
        "WITH s AS (SELECT k, n FROM t WHERE n > 0), r AS (SELECT k FROM s) SELECT s.n FROM s JOIN r ON s.k = r.k",
        "WITH t AS (SELECT k FROM t WHERE n > 0) SELECT k FROM t EXCEPT SELECT k FROM u WHERE k IN (SELECT k FROM t)",
    ],
)  # fmt: skip
def test_meaning_is_that_of_duckdb(text: str) -> None:
    parsed = parse_query(f"{text} WINDOW 1 MINUTE")
    bound = bind(parsed, CATALOG)
    with duck.connect() as connection:
        for name, table in ROWS.items():
            connection.register(name, table)
        expected = connection.sql(parsed.tree.sql(dialect=Sash)).to_arrow_table()
        actual = connection.sql(render(bound)).to_arrow_table()
    assert [output.type for output in bound.outputs] == expected.schema.types
    assert actual.schema.types == expected.schema.types
    assert count_rows(actual) == count_rows(expected)


def count_rows(table: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in table.columns)))
