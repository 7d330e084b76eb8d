"""A script of CREATE STREAM, CREATE TABLE and CREATE QUERY statements, bound and checked before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sash.errors import ParseError, PlanError, SourceError
from sash.io.files import FORMATS, FileSource, list_files
from sash.io.places import real_place
from sash.io.postgres_connection import AddressError
from sash.io.row_ends import with_ends
from sash.io.sink import FileSink
from sash.io.tables import TABLE_FORMATS, TableSource, VersionedSource, declared_table
from sash.io.time_column import time_type
from sash.plan.arrival import arrival_tables
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.runtime.arrival_tables import ArrivalSource
from sash.runtime.job import QueryRun
from sash.runtime.territory import Territories, refuse_name
from sash.sql.bind import bind
from sash.sql.catalog import Catalog, RelationInfo, StreamInfo, Validity
from sash.sql.declared_validity import seen_schema
from sash.sql.parameters import Values
from sash.sql.parse import parse_script
from sash.sql.parsed import ParsedQuery
from sash.sql.statements import CreateQuery, CreateStream, CreateTable

DEFAULT_OUTPUT = "sash-output"


@dataclass(frozen=True, slots=True)
class Script:
    """What a script declares. Paths in it are relative to where the command is run."""

    streams: Mapping[str, FileSource]
    tables: Mapping[str, TableSource]
    plans: Mapping[str, QueryPlan]
    sinks: Mapping[str, FileSink]
    catalog: Catalog
    selects: Mapping[str, ParsedQuery]
    """The queries as they were parsed."""
    texts: Mapping[str, str]
    """The queries as they were written."""
    declarations: Mapping[str, str] = field(default_factory=dict[str, str])
    """The streams and tables as they were written."""

    def runs(self, is_strict: bool = False, is_fixed: bool = False) -> list[QueryRun]:
        """The queries, ready to run: every path has been looked at, every table read, but for those that are read as of
        arrival. `is_fixed`: also these, and none of them changes.
        """
        for source in self.streams.values():
            list_files(source)
        arriving = set[str]() if is_fixed else self._arriving()
        relations = self._read(self.tables.keys() - arriving)
        return [
            QueryRun(
                name,
                plan,
                {stream: self.streams[stream] for stream in plan.streams},
                relations,
                self.sinks[name],
                is_strict,
                text=self.texts[name],
                declarations=tuple(self.declarations[each] for each in plan.reads),
                arrivals={} if is_fixed else {each: self._arrival(each) for each in arrival_tables(Plan.alone(plan))},
            )
            for name, plan in self.plans.items()
        ]

    def relations(self) -> dict[str, pa.Table]:
        """All tables, read."""
        return self._read(self.tables)

    def relation(self, name: str) -> pa.Table:
        """A table, read."""
        return with_ends(name, self.tables[name].read(name), self._validity(name))

    def _read(self, names: Collection[str]) -> dict[str, pa.Table]:
        return {name: self.relation(name) for name in self.tables if name in names}

    def _arriving(self) -> set[str]:
        """The tables that are read as of arrival, and in no other way."""
        lookups = [lookup for plan in self.plans.values() for lookup in plan.lookups]
        fixed = {lookup.source.name for lookup in lookups if not lookup.source.is_arrival}
        return {lookup.source.name for lookup in lookups} - fixed

    def _arrival(self, name: str) -> ArrivalSource:
        source = self.tables[name]
        assert isinstance(source, VersionedSource), "others were refused"
        return ArrivalSource(name, source, self.catalog[name].schema, self._validity(name))

    def _validity(self, name: str) -> Validity | None:
        info = self.catalog[name]
        return info.validity if isinstance(info, RelationInfo) else None


def read_script(path: str | Path, params: Values | None = None) -> Script:
    """The script in a file, with the values of its parameters."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read the script {path}: {error}; check the path") from None
    return bind_script(text, params)


def bind_script(text: str, params: Values | None = None) -> Script:
    """A script's statements, checked as far as they can be without touching data."""
    bound = _BoundStatements(text)
    for statement in parse_script(text, params):
        match statement:
            case CreateStream():
                bound.add_stream(statement)
            case CreateTable():
                bound.add_table(statement)
            case CreateQuery():
                bound.add_query(statement)
    return bound.script()


class _BoundStatements:
    """What a script has declared so far, for the statements that come after."""

    def __init__(self, text: str):
        self._text = text
        self._catalog: Catalog = {}
        self._streams: dict[str, FileSource] = {}
        self._tables: dict[str, TableSource] = {}
        self._declarations: dict[str, str] = {}
        self._plans: dict[str, QueryPlan] = {}
        self._sinks: dict[str, FileSink] = {}
        self._queries: dict[str, CreateQuery] = {}
        self._territories = Territories(text)

    def add_stream(self, made: CreateStream) -> None:
        name = made.name.lower()
        refuse_name(made.name, "stream", "its late rows", self._text, made.span)
        self._streams[name] = _stream_source(made, self._text)
        self._declarations[name] = made.text
        self._catalog[name] = _stream_info(made)

    def add_table(self, made: CreateTable) -> None:
        name = made.name.lower()
        self._tables[name] = _table_source(made, self._text)
        self._declarations[name] = made.text
        self._catalog[name] = RelationInfo(
            seen_schema(made.schema, made.validity),
            made.sql_types,
            validity=made.validity,
            no_versions=self._tables[name].no_versions,
        )

    def add_query(self, made: CreateQuery) -> None:
        name = made.name
        self._plans[name] = plan_query(bind(made.select, self._catalog))
        self._sinks[name] = _sink(made, self._text)
        self._territories.add(name, self._sinks[name], made.into.span if made.into else made.span)
        self._queries[name] = made

    def script(self) -> Script:
        """All of it. Raises if nothing is asked, or a query would write to what is read."""
        if not self._plans:
            raise ParseError("the script asks nothing; add CREATE QUERY name AS SELECT ...")
        sources = {**self._streams, **self._tables}
        self._territories.refuse_sources([(name, source.path) for name, source in sources.items() if source.path])
        return Script(
            self._streams,
            self._tables,
            self._plans,
            self._sinks,
            self._catalog,
            selects={name: made.select for name, made in self._queries.items()},
            texts={name: made.text for name, made in self._queries.items()},
            declarations=self._declarations,
        )


def _stream_info(made: CreateStream) -> StreamInfo:
    """Of a stream as queries see it: integers with a unit are timestamps."""
    place = made.schema.get_field_index(made.time)
    seen = made.schema.set(place, pa.field(made.time, time_type(made.schema.field(place).type, made.unit)))
    return StreamInfo(
        seen, made.time, made.slack_us, made.tie, made.statistics, made.sql_types, made.unit, made.ahead_us
    )


def _stream_source(made: CreateStream, text: str) -> FileSource:
    try:
        if made.format in TABLE_FORMATS.keys() - FORMATS.keys():
            raise PlanError(f"`{made.format}` holds tables, and no streams; write CREATE TABLE")
        return FileSource(made.path, made.format, made.schema, made.options)
    except PlanError as error:
        raise PlanError(f"`{made.name}`: {error.reason}", text, made.span) from None


def _table_source(made: CreateTable, text: str) -> TableSource:
    try:
        return declared_table(made.path, made.format, made.schema, made.options)
    except AddressError as error:
        raise AddressError(f"`{made.name}`: {error.reason}") from None
    except PlanError as error:
        raise PlanError(f"`{made.name}`: {error.reason}", text, made.span) from None


def _sink(made: CreateQuery, text: str) -> FileSink:
    into = made.into
    if into is None:
        refuse_name(made.name, "query", "its changes", text, made.span)
        return FileSink(real_place(f"{DEFAULT_OUTPUT}/{made.name}"), "parquet")
    if into.options:
        raise PlanError("INTO takes no options; leave OPTIONS out", text, into.span)
    try:
        return FileSink(real_place(into.path), into.format)
    except PlanError as error:
        raise PlanError(error.reason, text, into.span) from None
    except SourceError as error:
        raise PlanError(str(error), text, into.span) from None
