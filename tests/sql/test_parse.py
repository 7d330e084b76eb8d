"""What statements and SELECTs are read as."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from sash.errors import Span
from sash.sql.catalog import StreamStatistics
from sash.sql.parse import parse_query, parse_script
from sash.sql.parsed import ParsedQuery, ParsedSelect
from sash.sql.statements import CreateQuery, CreateStream, CreateTable, Into
from sash.sql.window_kinds import RowsWindow, TimeWindow

SCRIPT = """\
-- Rooms that are too warm
CREATE STREAM temperature (location VARCHAR, value DOUBLE, ts TIMESTAMP, "Seq No" BIGINT)
  TIMESTAMP BY TS, "seq no" SLACK 5 SECONDS
  FROM 'in/temperature' FORMAT CSV OPTIONS (header 'true', kafka.bootstrap.servers = 'localhost:9092', 'a b' '1');
CREATE TABLE rooms (location VARCHAR, name VARCHAR) FROM 'rooms.parquet' FORMAT parquet; /* read once */
CREATE QUERY hot AS
  SELECT A.location, A.value AS celsius FROM temperature A WHERE A.value > 30 WINDOW 1 MINUTE
  INTO 'out/hot' FORMAT json OPTIONS (compression 'gzip');
SELECT * FROM temperature;
SELECT location FROM temperature EMIT CHANGES; -- the end
"""


def spelled(select: ParsedQuery, clause: str) -> str:
    span = select.spans[clause]
    return select.text[span.start : span.end]


def test_script() -> None:
    stream, table, hot, first, second = parse_script(SCRIPT)
    assert isinstance(stream, CreateStream)
    assert isinstance(table, CreateTable)
    assert stream.text + ";" in SCRIPT
    assert table.text + ";" in SCRIPT
    assert replace(stream, text="") == CreateStream(
        name="temperature",
        schema=pa.schema(
            [("location", pa.string()), ("value", pa.float64()), ("ts", pa.timestamp("us")), ("Seq No", pa.int64())]
        ),
        time="ts",
        tie=("Seq No",),
        slack_us=5_000_000,
        path="in/temperature",
        format="csv",
        options=(("header", "true"), ("kafka.bootstrap.servers", "localhost:9092"), ("a b", "1")),
        span=Span(41, 52),
    )
    assert isinstance(table, CreateTable)
    assert (table.name, table.path, table.format, table.options) == ("rooms", "rooms.parquet", "parquet", ())
    assert isinstance(hot, CreateQuery)
    assert isinstance(hot.into, Into)
    assert (hot.into.path, hot.into.format, hot.into.options) == ("out/hot", "json", (("compression", "gzip"),))
    assert hot.select.text == SCRIPT
    assert spelled(hot.select, "where") == "A.value > 30"
    assert [query.name for query in (hot, first, second)] == ["hot", "query", "query_2"]
    assert isinstance(second, CreateQuery)
    assert second.select.emit_changes


@pytest.mark.parametrize(
    ("clauses", "rate", "distinct"),
    [
        ("", None, ()),
        ("RATE 500 PER SECOND", 500.0, ()),
        ("rate 90 per minute DISTINCT (K 10)", 1.5, (("k", 10),)),
        ("SLACK 1 SECOND DISTINCT (k 1000, j 1)", None, (("k", 1000), ("j", 1))),
    ],
)
def test_statistics_are_declared(clauses: str, rate: float | None, distinct: tuple) -> None:
    (stream,) = parse_script(
        f"CREATE STREAM s (k INTEGER, j INTEGER, ts TIMESTAMP) TIMESTAMP BY ts {clauses} FROM 'in' FORMAT csv"
    )
    assert isinstance(stream, CreateStream)
    assert stream.statistics == StreamStatistics(rate, distinct)


def test_an_unnamed_query_avoids_names_that_are_taken() -> None:
    script = "SELECT 1 FROM a; CREATE QUERY query AS SELECT 2 FROM a; SELECT 3 FROM a"
    assert [statement.name for statement in parse_script(script)] == ["query_2", "query", "query_3"]


@pytest.mark.parametrize("text", ["", ";;", "-- only a comment", "/* only */ ;"])
def test_a_script_may_be_empty(text: str) -> None:
    assert parse_script(text) == ()


@pytest.mark.parametrize(
    ("declared", "arrow"),
    [
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMPTZ", pa.timestamp("us", tz="UTC")),
        ("timestamp with time zone", pa.timestamp("us", tz="UTC")),
        ("STRING", pa.string()),
        ("VARCHAR(10)", pa.string()),
        ("INT", pa.int32()),
        ("DOUBLE PRECISION", pa.float64()),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("DATE", pa.date32()),
        ("BLOB", pa.binary()),
        ("STRUCT(a INTEGER, b VARCHAR)", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("INTEGER[]", pa.list_(pa.int32())),
    ],
)
def test_types_are_those_of_duckdb(declared: str, arrow: pa.DataType) -> None:
    (table,) = parse_script(f"CREATE TABLE t (a {declared}) FROM 'x' FORMAT csv")
    assert isinstance(table, CreateTable)
    assert table.schema.field("a").type == arrow


def test_select() -> None:
    select = parse_query(
        "SELECT /*+ WNL, buckets(100) */ A.location, B.value + 1 AS humid FROM temperature A, humidity B [ROWS 5] "
        "JOIN rooms AS R USING (location) CROSS JOIN floors WHERE A.value > 30 EMIT CHANGES WINDOW 1 MINUTE"
    )
    assert isinstance(select, ParsedSelect)
    assert [output.sql() for output in select.outputs] == ["A.location", "B.value + 1 AS humid"]
    assert [source.name.name for source in select.sources] == ["temperature", "humidity", "rooms", "floors"]
    assert [source.alias and source.alias.name for source in select.sources] == ["A", "B", "R", None]
    assert [source.window and source.window.window for source in select.sources] == [None, RowsWindow(5), None, None]
    assert [name.name for name in select.sources[2].using] == ["location"]
    assert select.where is not None
    assert select.where.sql() == "A.value > 30"
    assert select.window is not None
    assert select.window.window == TimeWindow(60_000_000)
    assert select.hints == ("wnl", "buckets(100)")
    assert select.emit_changes
    assert spelled(select, "select") == "A.location, B.value + 1 AS humid"
    assert spelled(select, "window") == "1 MINUTE"
    assert spelled(select, "hint") == "/*+ WNL, buckets(100) */"


def test_joins_may_nest_and_from_may_come_first() -> None:
    nested = parse_query("SELECT 1 FROM a JOIN b JOIN c ON b.x = c.x ON a.x = b.x WINDOW 1 s")
    assert isinstance(nested, ParsedSelect)
    assert [source.name.name for source in nested.sources] == ["a", "b", "c"]
    assert sorted(condition.sql() for condition in nested.on) == ["a.x = b.x", "b.x = c.x"]
    first = parse_query("FROM a [ROWS 5] x, b y [NOW] SELECT x.i WHERE x.i > 3")
    assert isinstance(first, ParsedSelect)
    assert [source.window is not None for source in first.sources] == [True, True]
    short = parse_query("FROM a")
    assert isinstance(short, ParsedSelect)
    assert short.outputs[0].sql() == "*"


def test_brackets_in_expressions_are_subscripts_and_lists() -> None:
    select = parse_query("SELECT xs[1], [1, 2], xs[1:2], s['a'] FROM t [ROWS 5] WHERE xs[n] = 1")
    assert isinstance(select, ParsedSelect)
    assert [output.sql(dialect="sash") for output in select.outputs] == ["xs[1]", "[1, 2]", "xs[1:2]", "s['a']"]


def test_a_keyword_of_sash_can_still_be_a_name() -> None:
    select = parse_query('SELECT emit, slack, now, since, "window" FROM emit dwindow WINDOW 1 s')
    assert isinstance(select, ParsedSelect)
    assert [output.name for output in select.outputs] == ["emit", "slack", "now", "since", "window"]
    assert select.sources[0].alias is not None
    assert select.sources[0].alias.name == "dwindow"
