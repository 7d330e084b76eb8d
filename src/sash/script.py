"""A script of CREATE STREAM, CREATE TABLE and CREATE QUERY statements, bound and checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.errors import ParseError, PlanError, SourceError
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.run import QueryRun
from sash.sources.files import FileSource, list_files, read_file
from sash.sources.sink import FileSink
from sash.sql.bind import bind
from sash.sql.parse import parse_script
from sash.sql.parsed import ParsedQuery
from sash.sql.query import Catalog, RelationInfo, StreamInfo
from sash.sql.statements import CreateQuery, CreateStream, CreateTable

DEFAULT_OUTPUT = "sash-output"


@dataclass(frozen=True, slots=True)
class Script:
    """What a script declares. Paths in it are relative to where the command is run."""

    streams: Mapping[str, FileSource]
    tables: Mapping[str, FileSource]
    plans: Mapping[str, Plan]
    sinks: Mapping[str, FileSink]
    catalog: Catalog
    selects: Mapping[str, ParsedQuery]
    """The queries as they were parsed."""

    def runs(self, is_strict: bool = False) -> list[QueryRun]:
        """The queries, ready to run: every path has been looked at, every table read."""
        for source in self.streams.values():
            list_files(source)
        relations = self.relations()
        return [
            QueryRun(
                name,
                plan,
                {stream: self.streams[stream] for stream in plan.streams},
                relations,
                self.sinks[name],
                is_strict,
            )
            for name, plan in self.plans.items()
        ]

    def relations(self) -> dict[str, pa.Table]:
        """All tables, read."""
        return {name: _read_table(name, source) for name, source in self.tables.items()}


def read_script(path: str | Path) -> Script:
    """The script in a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read the script {path}: {error}; check the path") from None
    return bind_script(text)


def bind_script(text: str) -> Script:
    """A script's statements, checked as far as they can be without touching data."""
    statements = parse_script(text)
    streams, tables = {}, {}
    catalog: Catalog = {}
    plans, sinks, selects = {}, {}, {}
    for statement in statements:
        match statement:
            case CreateStream() as made:
                streams[made.name.lower()] = _source(made, text)
                catalog[made.name.lower()] = StreamInfo(
                    made.schema, made.time, made.slack_us, made.tie, made.statistics, made.sql_types
                )
            case CreateTable() as made:
                tables[made.name.lower()] = _source(made, text)
                catalog[made.name.lower()] = RelationInfo(made.schema, made.sql_types)
            case CreateQuery() as made:
                plans[made.name] = plan_query(bind(made.select, catalog))
                sinks[made.name] = _sink(made, text)
                selects[made.name] = made.select
    if not plans:
        raise ParseError("the script asks nothing; add CREATE QUERY name AS SELECT ...")
    return Script(streams, tables, plans, sinks, catalog, selects)


def _source(made: CreateStream | CreateTable, text: str) -> FileSource:
    try:
        return FileSource(made.path, made.format, made.schema, made.options)
    except PlanError as error:
        raise PlanError(f"`{made.name}`: {error.reason}", text, made.span) from None


def _sink(made: CreateQuery, text: str) -> FileSink:
    into = made.into
    if into is None:
        return FileSink(f"{DEFAULT_OUTPUT}/{made.name}", "parquet")
    if into.options:
        raise PlanError("INTO takes no options; leave OPTIONS out", text, into.span)
    try:
        return FileSink(into.path, into.format)
    except PlanError as error:
        raise PlanError(error.reason, text, into.span) from None


def _read_table(name: str, source: FileSource) -> pa.Table:
    """A relation is whole or an error: a row that cannot be read would silently change every answer."""
    tables = [source.schema.empty_table()]
    for file in list_files(source):
        for records in read_file(source, file.path):
            if records.rejects.num_rows:
                bad = records.rejects.slice(0, 1).to_pylist()[0]
                raise SourceError(
                    f"table `{name}`: {bad['file']}, line {bad['line']}: {bad['reason']}; correct the row"
                )
            tables.append(records.rows)
    return pa.concat_tables(tables)
