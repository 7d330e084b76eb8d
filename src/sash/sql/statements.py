"""The statements of a script, and how they are read.

What is in brackets may be left out:

    CREATE STREAM name (column TYPE, …) TIMESTAMP BY ts [, tie …] [UNIT SECONDS] [SLACK 5 SECONDS]
        [AHEAD 1 HOUR | AHEAD UNLIMITED] [RATE 500 PER SECOND] [DISTINCT (column 1000, …)]
        FROM 'dir' FORMAT f [OPTIONS (…)]
    CREATE TABLE name (column TYPE, …) [VALID FROM column TO column | VALID FROM column KEY (column, …)]
        FROM 'path' FORMAT f [OPTIONS (…)]
    CREATE QUERY name AS SELECT … [INTO 'dir' FORMAT f [OPTIONS (…)]]
    SELECT …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from sash.errors import ParseError, Span
from sash.sql import duck
from sash.sql.catalog import NO_STATISTICS, SqlTypes, StreamStatistics, Validity
from sash.sql.declared_columns import check_is_time, declared_name
from sash.sql.declared_times import DEFAULT_AHEAD_US, UNIT_NAMES, UNLIMITED, choose_ahead
from sash.sql.declared_validity import parse_validity
from sash.sql.dialect import Sash
from sash.sql.grammar import SashParser
from sash.sql.parsed import ParsedQuery
from sash.sql.read_query import read_query
from sash.sql.windows import parse_interval, parse_length

Options: TypeAlias = tuple[tuple[str, str], ...]
HUGEINT = "HUGEINT"
"""The one type that Arrow has no name for of which every value can be read that may travel in its place."""


@dataclass(frozen=True, slots=True)
class CreateStream:
    """A stream of files or messages. `tie` orders tuples with equal `time`; `span` is where the name stands."""

    name: str
    schema: pa.Schema
    time: str
    tie: tuple[str, ...]
    slack_us: int
    path: str
    format: str
    options: Options
    span: Span
    statistics: StreamStatistics = NO_STATISTICS
    sql_types: SqlTypes = ()
    unit: str | None = None
    """What integers in the time column count, if that was said: `s`, `ms`, `us` or `ns`."""
    ahead_us: int | None = DEFAULT_AHEAD_US
    """By how much a row may be newer than all before it, unless the next one confirms it; None: by any."""
    text: str = ""
    """As it was written."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A relation that does not change while queries run."""

    name: str
    schema: pa.Schema
    path: str
    format: str
    options: Options
    span: Span
    sql_types: SqlTypes = ()
    text: str = ""
    """As it was written."""
    validity: Validity | None = None


@dataclass(frozen=True, slots=True)
class Into:
    """Where a query's changes are written."""

    path: str
    format: str
    options: Options
    span: Span


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """A continuous query. A bare SELECT is one too, named by its place in the script."""

    name: str
    select: ParsedQuery
    into: Into | None
    span: Span
    text: str = ""
    """Its SELECT, as it was written."""


Statement: TypeAlias = CreateStream | CreateTable | CreateQuery
Declaration = TypeVar("Declaration", CreateStream, CreateTable)


def parse_statement(parser: SashParser) -> Statement:
    """The next statement. A bare SELECT comes back with an empty name."""
    start = parser.index
    if not parser.take("CREATE"):
        return _parse_query(parser, "", start)
    if parser.take("STREAM"):
        return _with_text(_parse_stream(parser), parser, start)
    if parser.take("TABLE"):
        return _with_text(_parse_table(parser), parser, start)
    if parser.take("QUERY"):
        name_at = parser.index
        name = parser.name("the query's name").name
        parser.expect("AS")
        return _parse_query(parser, name, name_at)
    parser.fail("expected `STREAM`, `TABLE` or `QUERY` after `CREATE`")


def _with_text(made: Declaration, parser: SashParser, start: int) -> Declaration:
    written = parser.span_since(start)
    return replace(made, text=parser.sql[written.start : written.end])


def _parse_query(parser: SashParser, name: str, start: int) -> CreateQuery:
    span = parser.span_since(start)
    start = parser.index
    select = read_query(parser.query(), parser.sql)
    written = parser.span_since(start)
    into = _parse_into(parser) if parser.at("INTO") else None
    return CreateQuery(name, select, into, span, parser.sql[written.start : written.end])


def _parse_into(parser: SashParser) -> Into:
    start = parser.index
    path, format_, options = _parse_location(parser, "INTO")
    return Into(path, format_, options, parser.span_since(start))


def _parse_stream(parser: SashParser) -> CreateStream:
    start = parser.index
    name = parser.name("the stream's name").name
    span = parser.span_since(start)
    schema, types = _parse_columns(parser)
    parser.expect("TIMESTAMP", "BY")
    ordering = parser.names("the stream's time column")
    time, *tie = (declared_name(column, schema, parser.sql) for column in ordering)
    unit = _parse_unit(parser) if parser.take("UNIT") else None
    check_is_time(ordering[0], schema.field(time), unit, parser.sql)
    slack_us = parse_length(parser, "the slack", "leave `SLACK` out to have none") if parser.take("SLACK") else 0
    ahead_us = _parse_ahead(parser, slack_us)
    statistics = _parse_statistics(parser, schema)
    path, format_, options = _parse_location(parser, "FROM")
    return CreateStream(
        name, schema, time, tuple(tie), slack_us, path, format_, options, span, statistics, types, unit, ahead_us
    )


def _parse_ahead(parser: SashParser, slack_us: int) -> int | None:
    start = parser.index
    if not parser.take("AHEAD"):
        return choose_ahead(None, slack_us)
    if parser.take(UNLIMITED.upper()):
        return choose_ahead(UNLIMITED, slack_us)
    declared = parse_length(parser, "the limit", "leave `AHEAD` out for 366 days")
    try:
        return choose_ahead(declared, slack_us)
    except ValueError as error:
        raise ParseError(str(error), parser.sql, parser.span_since(start)) from None


def _parse_unit(parser: SashParser) -> str:
    start = parser.index
    word = parser.word("a unit, as in `UNIT SECONDS`,").lower()
    for unit, name in UNIT_NAMES.items():
        if word in (unit, name, name.removesuffix("s")):
            return unit
    reason = f"`{word}` is no unit of integer times; use one of {', '.join(UNIT_NAMES.values())}"
    raise ParseError(reason, parser.sql, parser.span_since(start))


def _parse_statistics(parser: SashParser, schema: pa.Schema) -> StreamStatistics:
    rate = _parse_rate(parser) if parser.take("RATE") else None
    return StreamStatistics(rate, tuple(_parse_distinct(parser, schema)) if parser.take("DISTINCT") else ())


def _parse_rate(parser: SashParser) -> float:
    """Rows per second."""
    start = parser.index
    n_rows = parser.number("a number of rows, as in `RATE 500 PER SECOND`,")
    if n_rows <= 0:
        reason = f"a rate must be more than zero, not `{n_rows}`; leave `RATE` out if it is not known"
        raise ParseError(reason, parser.sql, parser.span_since(start))
    parser.expect("PER")
    start = parser.index
    unit = parser.word("a unit of time, as in `RATE 500 PER SECOND`,")
    try:
        return float(n_rows) * 1e6 / parse_interval(f"1 {unit}")
    except ParseError as error:
        raise ParseError(error.reason, parser.sql, parser.span_since(start)) from None


def _parse_distinct(parser: SashParser, schema: pa.Schema) -> Iterator[tuple[str, int]]:
    parser.expect("(")
    named: set[str] = set()
    while True:
        start = parser.index
        name = declared_name(parser.name("a column's name"), schema, parser.sql)
        if name in named:
            raise ParseError(f"`{name}` stands twice in `DISTINCT`; remove one", parser.sql, parser.span_since(start))
        named.add(name)
        start = parser.index
        number = parser.number(f"how many values `{name}` has, as in `{name} 1000`,")
        if number < 1 or number != int(number):
            reason = (
                f"a column has a whole number of values, at least one, not `{number}`; leave `{name}` out if unsure"
            )
            raise ParseError(reason, parser.sql, parser.span_since(start))
        yield name, int(number)
        if not parser.take(","):
            return parser.expect(")")


def _parse_table(parser: SashParser) -> CreateTable:
    start = parser.index
    name = parser.name("the table's name").name
    span = parser.span_since(start)
    schema, types = _parse_columns(parser)
    validity = parse_validity(parser, schema) if parser.take("VALID") else None
    return CreateTable(name, schema, *_parse_location(parser, "FROM"), span, types, validity=validity)


def _parse_columns(parser: SashParser) -> tuple[pa.Schema, SqlTypes]:
    parser.expect("(")
    fields: dict[str, pa.Field] = {}
    types: list[tuple[str, str]] = []
    while True:
        start = parser.index
        name = parser.name("a column's name").name
        if name.lower() in fields:
            raise ParseError(f"column `{name}` is declared twice; rename one", parser.sql, parser.span_since(start))
        type_, sql_type = _parse_type(parser)
        fields[name.lower()] = pa.field(name, type_)
        if sql_type == HUGEINT:
            types.append((name, sql_type))
        if not parser.take(","):
            parser.expect(")")
            return pa.schema(fields.values()), tuple(types)


def _parse_type(parser: SashParser) -> tuple[pa.DataType, str]:
    """A type in Arrow's words and in DuckDB's."""
    start = parser.index
    tree = parser.data_type()
    try:
        return duck.arrow_type(tree.sql(dialect=Sash)), str(duck.type_named(tree.sql(dialect=Sash)))
    except duckdb.Error:
        span = parser.span_since(start)
        reason = f"`{parser.sql[span.start : span.end]}` is not a type; use one of DuckDB's, such as BIGINT or VARCHAR"
        raise ParseError(reason, parser.sql, span) from None


def _parse_location(parser: SashParser, preposition: str) -> tuple[str, str, Options]:
    parser.expect(preposition)
    path = parser.string("a quoted path")
    parser.expect("FORMAT")
    format_ = parser.word("a format, such as csv, json or parquet,").lower()
    return path, format_, tuple(_parse_options(parser)) if parser.take("OPTIONS") else ()


def _parse_options(parser: SashParser) -> Iterator[tuple[str, str]]:
    parser.expect("(")
    while True:
        key = _parse_option_key(parser)
        parser.take("=")
        yield key, parser.string("a quoted value")
        if not parser.take(","):
            return parser.expect(")")


def _parse_option_key(parser: SashParser) -> str:
    """A key may be dotted, as Kafka's are."""
    if parser.at_string():
        return parser.string("an option's name")
    words = [parser.word("an option's name")]
    while parser.take("."):
        words.append(parser.word("an option's name"))
    return ".".join(words)
