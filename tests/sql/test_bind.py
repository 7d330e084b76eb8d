"""What queries mean: names as declared, types, windows, conjuncts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp

from sash.sql.bind import bind
from sash.sql.bound_query import Block, BoundQuery
from sash.sql.catalog import Catalog
from sash.sql.expressions import to_duckdb
from sash.sql.parse import parse_query
from sash.sql.window_kinds import RowsWindow, TimeWindow, UnboundedWindow

MINUTE = TimeWindow(60_000_000)


def names_of(bound: Block) -> list[str]:
    return [output.name for output in bound.outputs]


def conjuncts_of(bound: Block) -> list[str]:
    assert isinstance(bound, BoundQuery)
    return [to_duckdb(conjunct) for conjunct in bound.conjuncts]


def test_the_query_of_the_readme(catalog: Catalog) -> None:
    bound = bind(
        parse_query(
            "SELECT A.location, A.value AS celsius, B.VALUE AS humidity FROM Temperature A, humidity B "
            "WHERE a.location = b.LOCATION AND A.value > 30 WINDOW 1 MINUTE"
        ),
        catalog,
    )
    assert isinstance(bound, BoundQuery)
    assert [(source.name, source.alias, source.window) for source in bound.sources] == [
        ("temperature", "A", MINUTE),
        ("humidity", "B", MINUTE),
    ]
    assert [(output.name, to_duckdb(output.expr), output.type) for output in bound.outputs] == [
        ("location", '"A.location"', pa.string()),
        ("celsius", '"A.value"', pa.float64()),
        ("humidity", '"B.Value"', pa.float64()),
    ]
    assert conjuncts_of(bound) == ['"A.location" = "B.location"', '"A.value" > 30']


def test_every_column_is_quoted_and_remembers_its_place(catalog: Catalog) -> None:
    text = "SELECT A.VALUE * 2 FROM temperature A"
    (output,) = bind(parse_query(text), catalog).outputs
    column = output.expr.find(exp.Column)
    assert column is not None
    assert column == exp.Column(this=exp.to_identifier("value", quoted=True), table=exp.to_identifier("A", quoted=True))
    assert text[column.meta["start"] : column.meta["end"] + 1] == "A.VALUE"


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ("value, VALUE, value AS Value", ["value", "value_1", "Value_2"]),
        ("value + 1, upper(location)", ["(temperature.value + 1)", "upper(temperature.location)"]),
        ("temperature.place.room, place.floor.level", ["Room", "level"]),
        ("'x' AS \"an x\", 1", ["an x", "1"]),
        ("*", ["location", "value", "ts", "n", "ok", "tags", "place"]),
        ("n, temperature.*", ["n", "location", "value", "ts", "n_1", "ok", "tags", "place"]),
        ("n, n AS n_1, n", ["n", "n_1", "n_2"]),
    ],
)
def test_output_names(outputs: str, names: list[str], catalog: Catalog) -> None:
    assert names_of(bind(parse_query(f"SELECT {outputs} FROM temperature"), catalog)) == names


@pytest.mark.parametrize(
    ("output", "type_"),
    [
        ("n + 1", pa.int64()),
        ("n / 2", pa.float64()),
        ("ts - INTERVAL 1 HOUR", pa.timestamp("us")),
        ("ts::DATE", pa.date32()),
        ("tags[1]", pa.string()),
        ("place.floor.level", pa.int32()),
        ("CASE WHEN ok THEN 'a' END", pa.string()),
        ("len(list_filter(tags, lambda tag: tag = location))", pa.int64()),
        ("[tag || location for tag in tags][1]", pa.string()),
        ("CAST(n AS DECIMAL(10, 2))", pa.decimal128(10, 2)),
    ],
)
def test_output_types(output: str, type_: pa.DataType, catalog: Catalog) -> None:
    assert bind(parse_query(f"SELECT {output} FROM temperature"), catalog).outputs[0].type == type_


@pytest.mark.parametrize(
    ("condition", "conjuncts"),
    [
        ("ok", ['"t.ok"']),
        ("ok AND n = 1 AND TRUE", ['"t.ok"', '"t.n" = 1']),
        ("(ok AND (n = 1 AND (value > 2)))", ['"t.ok"', '"t.n" = 1', '"t.value" > 2']),
        ("ok OR n = 1 AND ok", ['"t.ok" OR "t.n" = 1 AND "t.ok"']),
        ("(TRUE)", []),
    ],
)
def test_conjuncts(condition: str, conjuncts: list[str], catalog: Catalog) -> None:
    assert conjuncts_of(bind(parse_query(f"SELECT n FROM temperature t WHERE {condition}"), catalog)) == conjuncts


def test_on_and_using_are_conjuncts_too(catalog: Catalog) -> None:
    bound = bind(
        parse_query(
            "SELECT A.location FROM humidity A JOIN rooms R USING (LOCATION) JOIN temperature T ON T.ok AND T.n = 1 "
            "WHERE name = 'x' WINDOW 5 ROWS"
        ),
        catalog,
    )
    assert conjuncts_of(bound) == ['"A.location" = "R.location"', '"T.ok"', '"T.n" = 1', "\"R.name\" = 'x'"]


def test_a_column_of_using_stands_once(catalog: Catalog) -> None:
    bound = bind(parse_query("SELECT *, location FROM humidity A JOIN rooms R USING (location)"), catalog)
    assert names_of(bound) == ["location", "Value", "ts", "name", "built", "location_1"]
    assert to_duckdb(bound.outputs[-1].expr) == '"A.location"'


def test_a_window_in_brackets_wins_over_that_of_the_query(catalog: Catalog) -> None:
    bound = bind(
        parse_query(
            "SELECT 1 FROM temperature A [PARTITION BY LOCATION, N ROWS 3], humidity B, rooms R, "
            "humidity C [UNBOUNDED] WINDOW 1 MINUTE"
        ),
        catalog,
    )
    assert isinstance(bound, BoundQuery)
    windows = [source.window for source in bound.sources]
    assert windows == [RowsWindow(3, ("location", "n")), MINUTE, None, UnboundedWindow()]


def test_one_stream_needs_no_window(catalog: Catalog) -> None:
    bound = bind(parse_query("SELECT 1 FROM temperature A, rooms R WHERE A.location = R.location"), catalog)
    assert isinstance(bound, BoundQuery)
    assert [source.window for source in bound.sources] == [None, None]


@pytest.mark.parametrize(
    "condition",
    [
        "A.ts > '2026-01-31'",
        "A.ts < B.ts",
        "A.ts > TIMESTAMP '2026-01-31 12:00:00'",
        "A.ts::DATE = built",
        "built < A.ts",
        "A.value = '1.5'",
        "n = A.value",
        "ok = (n = 1)",
        "A.location IN ('north', name)",
        "tags = ['a']",
        "n = NULL",
        "name LIKE 'x%' AND name IS NOT NULL",
        "age(A.ts, A.ts) < INTERVAL 1 DAY",
    ],
)
def test_types_that_compare(condition: str, catalog: Catalog) -> None:
    text = f"SELECT 1 FROM temperature A, humidity B, rooms R WHERE {condition} WINDOW 1 MINUTE"
    assert conjuncts_of(bind(parse_query(text), catalog))
