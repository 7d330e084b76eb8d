"""What aggregates, set operations and subqueries are bound to, windows above all."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from sqlglot import exp

from sash.sql.bind import bind
from sash.sql.bound_query import Block, BoundQuery, BoundSet
from sash.sql.catalog import Catalog, DerivedInfo
from sash.sql.expressions import to_duckdb
from sash.sql.parse import parse_query
from sash.sql.window_kinds import RowsWindow, SinceWindow, TimeWindow, UnboundedWindow

SECOND = TimeWindow(1_000_000)
MINUTE = TimeWindow(60_000_000)


def bind_select(text: str, catalog: Catalog) -> BoundQuery:
    bound = bind(parse_query(text), catalog)
    assert isinstance(bound, BoundQuery)
    return bound


def bind_set(text: str, catalog: Catalog) -> BoundSet:
    bound = bind(parse_query(text), catalog)
    assert isinstance(bound, BoundSet)
    return bound


def windows_of(block: Block) -> Iterator[tuple[str, object]]:
    """Every stream with its window, in the order of the text."""
    if isinstance(block, BoundSet):
        yield from windows_of(block.left)
        yield from windows_of(block.right)
        return
    for source in block.sources:
        if isinstance(source.info, DerivedInfo):
            assert source.window is None
            yield from windows_of(source.info.block)
        else:
            yield source.name, source.window
    for membership in block.memberships:
        yield from windows_of(membership.block)


def test_a_select_that_aggregates_is_written_over_groups_and_aggregates(catalog: Catalog) -> None:
    bound = bind_select(
        "SELECT location, 2 * AVG(value) AS twice, count(*) FROM temperature GROUP BY location, n "
        "HAVING COUNT(*) > 5 AND twice < 3 WINDOW 1 MINUTE",
        catalog,
    )
    assert bound.groups is not None
    assert [(group.name, to_duckdb(group.expr), group.type) for group in bound.groups] == [
        ("location", '"temperature.location"', pa.string()),
        ("n", '"temperature.n"', pa.int64()),
    ]
    assert [(call.function, call.argument and to_duckdb(call.argument), call.type) for call in bound.aggregates] == [
        ("avg", '"temperature.value"', pa.float64()),
        ("count", None, pa.int64()),
    ]
    assert [(output.name, to_duckdb(output.expr), output.type) for output in bound.outputs] == [
        ("location", '"_group.0"', pa.string()),
        ("twice", '2 * "_agg.0"', pa.float64()),
        ("count_star()", '"_agg.1"', pa.int64()),
    ]
    assert [to_duckdb(condition) for condition in bound.having] == ['"_agg.1" > 5', '(2 * "_agg.0") < 3']


def test_a_rewritten_column_remembers_its_place(catalog: Catalog) -> None:
    text = "SELECT 1 + sum(n) FROM temperature WINDOW 1 MINUTE"
    column = bind_select(text, catalog).outputs[0].expr.find(exp.Column)
    assert column is not None
    assert (column.table, column.name) == ("_agg", "0")
    assert text[column.meta["start"] : column.meta["end"] + 1] == "sum(n)"


def test_equal_aggregates_and_groups_are_there_once(catalog: Catalog) -> None:
    bound = bind_select(
        "SELECT min(n), MIN(DISTINCT N), min(temperature.n) + 1 FROM temperature "
        "GROUP BY upper(location), UPPER(location) HAVING min(n) > 1 WINDOW 1 MINUTE",
        catalog,
    )
    assert [call.function for call in bound.aggregates] == ["min"]
    assert bound.groups is not None
    assert len(bound.groups) == 1


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("SELECT location FROM temperature", None),
        ("SELECT count(*) FROM temperature", []),
        ("SELECT 1 FROM temperature HAVING count(*) > 1", []),
        ("SELECT count(*) FROM temperature GROUP BY ()", []),
        ("SELECT n AS location FROM temperature GROUP BY location, n", ['"temperature.location"', '"temperature.n"']),
        ("SELECT n + 1 AS more FROM temperature GROUP BY more", ['"temperature.n" + 1']),
        ("SELECT value, n FROM temperature GROUP BY 2, 1", ['"temperature.n"', '"temperature.value"']),
        ("SELECT place.room FROM temperature GROUP BY 1", ['"temperature.place"."Room"']),
    ],
)
def test_groups(text: str, groups: list[str] | None, catalog: Catalog) -> None:
    bound = bind_select(f"{text} WINDOW 1 MINUTE", catalog)
    assert (None if bound.groups is None else [to_duckdb(group.expr) for group in bound.groups]) == groups


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("sum(n)", pa.decimal128(38, 0)),
        ("sum(n::DECIMAL(10, 2))", pa.decimal128(38, 2)),
        ("sum(ok)", pa.decimal128(38, 0)),
        ("avg(n)", pa.float64()),
        ("median(n)", pa.float64()),
        ("stddev_samp(value)", pa.float64()),
        ("max(ts)", pa.timestamp("us")),
        ("first(location)", pa.string()),
        ("last(n::TINYINT)", pa.int8()),
        ("count(tags)", pa.int64()),
    ],
)
def test_aggregates_have_the_types_of_duckdb(call: str, type_: pa.DataType, catalog: Catalog) -> None:
    bound = bind_select(f"SELECT {call} FROM temperature WINDOW 1 MINUTE", catalog)
    assert bound.aggregates[0].type == type_
    assert bound.outputs[0].type == type_


def test_intersect_binds_tighter_and_others_go_left_to_right(catalog: Catalog) -> None:
    selects = [f"SELECT {number} FROM temperature" for number in range(4)]
    bound = bind_set("{} UNION ALL {} INTERSECT {} MINUS ALL {} WINDOW 1 MINUTE".format(*selects), catalog)
    assert (bound.operation, bound.is_all) == ("except", True)
    assert isinstance(bound.left, BoundSet)
    assert (bound.left.operation, bound.left.is_all) == ("union", True)
    assert isinstance(bound.left.right, BoundSet)
    assert (bound.left.right.operation, bound.left.right.is_all) == ("intersect", False)


def test_a_set_has_the_names_of_its_left_side_and_the_types_of_both(catalog: Catalog) -> None:
    bound = bind_set("SELECT n, location AS l FROM temperature UNION ALL SELECT value, 'x' FROM humidity", catalog)
    assert [(output.name, to_duckdb(output.expr), output.type) for output in bound.outputs] == [
        ("n", '"n"', pa.float64()),
        ("l", '"l"', pa.string()),
    ]
    assert isinstance(bound.left, BoundQuery)
    assert to_duckdb(bound.left.outputs[0].expr) == 'CAST("temperature.n" AS DOUBLE)'
    assert [output.type for output in bound.left.outputs] == [output.type for output in bound.right.outputs]


def test_clauses_of_the_statement_are_those_of_the_set(catalog: Catalog) -> None:
    text = "SELECT /*+ wnl */ n FROM temperature UNION SELECT n FROM temperature WINDOW 1 MINUTE EMIT CHANGES"
    bound = bind_set(text, catalog)
    assert bound.hints == ("wnl",)
    assert bound.emit_changes
    assert text[bound.spans["window"].start : bound.spans["window"].end] == "1 MINUTE"
    assert bound.left.hints == bound.right.hints == ()


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("SELECT n FROM temperature UNION ALL SELECT value FROM humidity", [None, None]),
        ("SELECT n FROM temperature [NOW] UNION SELECT value FROM humidity WINDOW 1 MINUTE", [TimeWindow(1), MINUTE]),
        ("(SELECT n FROM temperature WINDOW 1 s) UNION SELECT value FROM humidity WINDOW 1 m", [SECOND, MINUTE]),
        ("SELECT n FROM temperature UNION (SELECT value FROM humidity WINDOW 1 s) WINDOW 1 m", [MINUTE, SECOND]),
        ("SELECT s.n FROM (SELECT n FROM temperature) s", [None]),
        ("SELECT s.n FROM (SELECT n FROM temperature WINDOW 1 s) s, humidity B WINDOW 1 m", [SECOND, MINUTE]),
        ("SELECT s.n FROM (SELECT DISTINCT n FROM temperature) s, humidity B [ROWS 5] WINDOW 1 m",
         [MINUTE, RowsWindow(5)]),
        ("SELECT n FROM temperature WHERE n IN (SELECT value FROM humidity WINDOW 1 s) WINDOW 1 m", [MINUTE, SECOND]),
        ("SELECT n FROM temperature WHERE EXISTS (SELECT 1 FROM humidity) WINDOW 1 m", [MINUTE, MINUTE]),
        ("SELECT count(*) FROM temperature [UNBOUNDED]", [UnboundedWindow()]),
        ("SELECT DISTINCT n FROM temperature [SINCE '1970-01-01']", [SinceWindow(0)]),
        ("WITH hot AS (SELECT n FROM temperature) SELECT a.n FROM hot a, hot b WINDOW 1 m", [MINUTE, MINUTE]),
    ],
)  # fmt: skip
def test_windows_reach_inward(text: str, windows: list[object], catalog: Catalog) -> None:
    assert [window for _, window in windows_of(bind(parse_query(text), catalog))] == windows


def test_a_subquery_is_a_source_of_its_own(catalog: Catalog) -> None:
    text = "SELECT S.total FROM (SELECT sum(n) AS total, location FROM temperature GROUP BY 2) AS S WINDOW 1 MINUTE"
    (source,) = bind_select(text, catalog).sources
    assert (source.name, source.alias, source.window, source.is_stream) == ("s", "S", None, True)
    assert isinstance(source.info, DerivedInfo)
    assert source.info.schema == pa.schema([("total", pa.decimal128(38, 0)), ("location", pa.string())])
    assert text[source.span.start : source.span.end].startswith("(SELECT sum(n)")
    assert text[source.span.start : source.span.end].endswith(") AS S")


@pytest.mark.parametrize(
    ("condition", "operands", "outputs", "is_negated", "is_null_aware"),
    [
        ("A.location IN (SELECT location FROM humidity)", ['"A.location"'], ['"humidity.location"'], False, False),
        ("n NOT IN (SELECT Value FROM humidity)", ['CAST("A.n" AS DOUBLE)'], ['"humidity.Value"'], True, True),
        ("NOT EXISTS (SELECT 1 FROM humidity B WHERE A.location = B.location)",
         ['"A.location"'], ['"B.location"'], True, False),
        ("EXISTS (SELECT * FROM humidity B WHERE B.value = A.n + 1 AND upper(B.location) = A.location AND B.value > 1)",
         ['CAST("A.n" + 1 AS DOUBLE)', '"A.location"'], ['"B.Value"', 'upper("B.location")'], False, False),
        ("EXISTS (SELECT 1 FROM humidity)", [], [], False, False),
        ("EXISTS (FROM humidity)", [], [], False, False),
        ("EXISTS (SELECT max(value) FROM humidity)", [], [], False, False),
    ],
)  # fmt: skip
def test_memberships(
    condition: str, operands: list[str], outputs: list[str], is_negated: bool, is_null_aware: bool, catalog: Catalog
) -> None:
    text = f"SELECT 1 FROM temperature A WHERE ok AND {condition} WINDOW 1 MINUTE"
    bound = bind_select(text, catalog)
    (membership,) = bound.memberships
    assert [to_duckdb(operand) for operand in membership.operands] == operands
    assert isinstance(membership.block, BoundQuery)
    assert [to_duckdb(output.expr) for output in membership.block.outputs] == outputs
    assert (membership.is_negated, membership.is_null_aware) == (is_negated, is_null_aware)
    assert text[membership.span.start : membership.span.end] == condition
    assert [to_duckdb(conjunct) for conjunct in bound.conjuncts] == ['"A.ok"']


def test_the_tree_is_kept_with_its_windows() -> None:
    parsed = parse_query("SELECT n FROM t [ROWS 5] MINUS SELECT n FROM (SELECT n FROM u) s WINDOW 1 MINUTE")
    assert parsed.tree.sql() == "SELECT n FROM t EXCEPT SELECT n FROM (SELECT n FROM u) AS s"
    assert parsed.tree.meta["window"].window == MINUTE
    assert [table.meta["window"].window for table in parsed.tree.find_all(exp.Table) if "window" in table.meta] == [
        RowsWindow(5)
    ]


def test_minus_can_still_be_a_name() -> None:
    parsed = parse_query("SELECT minus, 1 AS minus FROM minus minus MINUS SELECT minus, minus (1) FROM minus")
    assert parsed.tree.sql() == (
        "SELECT minus, 1 AS minus FROM minus AS minus EXCEPT SELECT minus, MINUS(1) FROM minus"
    )
