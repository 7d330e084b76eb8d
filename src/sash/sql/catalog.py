"""What streams, tables and subqueries are to a query that reads them: their columns, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from sqlglot import exp

from sash.errors import Span
from sash.sql.window_kinds import WINDOW_COLUMNS, TableWindow, Window
from sash.store.batch import ARRIVAL, SEEN_FROM, SEEN_UNTIL

if TYPE_CHECKING:
    from sash.sql.bound_query import Block

JOINED = "_joined"
"""What the aliases begin with of subqueries that stand for a part of FROM with an outer join."""

UNNESTED = "_subquery"
"""What the aliases begin with of subqueries that stand in an expression, once they have become items of FROM."""


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """What is declared of a stream's content. Plans are compared by it; no answer depends on it."""

    rate: float | None = None
    """Rows per second of event time; None if nobody knows."""
    distinct: tuple[tuple[str, int], ...] = ()
    """How many different values columns have."""


NO_STATISTICS = StreamStatistics()

SqlTypes: TypeAlias = tuple[tuple[str, str], ...]
"""Columns whose types Arrow has no name for, with DuckDB's, as `HUGEINT`; others are what DuckDB reads them as.

Not shown, as what an expression makes of such a column says it too.
"""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What binding has to know of a stream."""

    schema: pa.Schema
    time: str
    slack_us: int = 0
    tie: tuple[str, ...] = ()
    statistics: StreamStatistics = field(default=NO_STATISTICS, repr=False, compare=False)
    """Not shown, as a stream about which more is known is still the same stream."""
    sql_types: SqlTypes = field(default=(), repr=False)
    unit: str | None = None
    """What integers in the time column count, where they come in: `s`, `ms`, `us` or `ns`. In the schema they are
    timestamps already."""
    ahead_us: int | None = None
    """By how much a row may be newer than the newest before it, unless the next one confirms it; None: by any."""


@dataclass(frozen=True, slots=True)
class Validity:
    """When a row of a table is valid: at T iff `start <= T < end`. These are columns; a NULL in one is no bound."""

    start: str
    end: str
    key: tuple[str, ...] = ()
    """Columns: if there are any, a row is valid until the next one begins that has the same values in them. Then `end`
    is found out when the table is read."""

    def renamed(self, names: Mapping[str, str]) -> Validity:
        """The same of columns that have other names."""
        return Validity(names[self.start], names[self.end], tuple(names[column] for column in self.key))


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query over tables alone, as DuckDB reads it."""

    sql: str
    sources: tuple[Source, ...] = field(repr=False)
    """The tables of the catalog that it reads, each as often as it does."""
    unique: tuple[str, ...] | None = None
    """Columns of which no two rows may have equal values; of none: there is but one row. None: rows are as they are."""


FRAMES_HAVE_NO_VERSIONS = (
    "it is a frame, which does not change; declare it in a script, by CREATE TABLE, as a Delta table or as one of "
    "PostgreSQL with a history"
)


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """What binding has to know of a relation. `hint` says how it could be a stream, if it might be meant to be one."""

    schema: pa.Schema
    sql_types: SqlTypes = field(default=(), repr=False)
    hint: str | None = field(default=None, repr=False, compare=False)
    validity: Validity | None = field(default=None, repr=False)
    """Not shown, as the conditions of a query that reads it `AS OF` a time say it."""
    query: TableQuery | None = None
    """If it is no table of the catalog: what its rows are the answer of."""
    no_versions: str | None = field(default=FRAMES_HAVE_NO_VERSIONS, repr=False, compare=False)
    """Why it cannot be read as of arrival, and what to do; None if it can."""


@dataclass(frozen=True, slots=True)
class DerivedInfo:
    """A subquery in FROM: its columns, and what it asks."""

    schema: pa.Schema
    block: Block
    sql_types: SqlTypes = field(default=(), repr=False)


Catalog: TypeAlias = dict[str, StreamInfo | RelationInfo]
"""Names in lower case; SQL identifiers are matched without regard to case."""


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM. `alias` is unique within its SELECT; `name` is the catalog's, or that of a subquery."""

    name: str
    alias: str
    info: StreamInfo | RelationInfo | DerivedInfo
    window: Window | None
    span: Span
    as_of: exp.Column | None = field(default=None, repr=False)
    """Of a relation: the time of which stream's tuples its rows must be valid at; the query's conditions say it too."""
    is_arrival: bool = field(default=False, repr=False)
    """Of a relation: whether it is read as of arrival, so that rows have columns that say which batches see them. Of a
    stream: whether such a relation asks for the batch that its tuples came in. Queries do not see these columns."""

    @property
    def title(self) -> str:
        """What it is called in messages."""
        if self.alias.startswith(UNNESTED):
            return self.alias.removeprefix("_")
        return self.alias.removeprefix(JOINED).strip() if self.alias.startswith(JOINED) else self.alias

    @property
    def is_stream(self) -> bool:
        """Whether its rows come and go: a stream of the catalog, or a subquery, which always reads one."""
        return not isinstance(self.info, RelationInfo)

    @property
    def is_final(self) -> bool:
        """Whether its rows are shown when their window is over."""
        return isinstance(self.window, TableWindow) and self.window.is_final

    @property
    def schema(self) -> pa.Schema:
        """Its columns: its own, those that its window gives it, and those that are hidden."""
        hidden = [(name, pa.int64()) for name in self.hidden]
        if not isinstance(self.window, TableWindow) or not isinstance(self.info, StreamInfo):
            return pa.schema([*self.info.schema, *hidden]) if hidden else self.info.schema
        type_ = window_time_type(self.info)
        return pa.schema([*self.info.schema, *((name, type_) for name in WINDOW_COLUMNS), *hidden])

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns that conditions of Sash's own read, and queries do not see."""
        if not self.is_arrival:
            return ()
        return (ARRIVAL,) if self.is_stream else (SEEN_FROM, SEEN_UNTIL)

    @property
    def shown(self) -> list[str]:
        """The columns that a query can read of it."""
        return [name for name in self.schema.names if name not in self.hidden]

    @property
    def validity(self) -> Validity | None:
        """Of a relation: when its rows are valid, by the time that it is read as of."""
        if self.is_arrival:
            return Validity(SEEN_FROM, SEEN_UNTIL)
        return self.info.validity if isinstance(self.info, RelationInfo) else None


def window_time_type(info: StreamInfo) -> pa.DataType:
    """Of where windows of time begin and end: integers where times are, else timestamps in microseconds."""
    type_ = info.schema.field(info.time).type
    if pa.types.is_integer(type_):
        return pa.int64()
    return pa.timestamp("us", tz=type_.tz if pa.types.is_timestamp(type_) else None)


def tables_of(source: Source) -> tuple[Source, ...]:
    """What of the catalog an item of FROM that is no subquery reads: itself, or what its rows are the answer of."""
    query = source.info.query if isinstance(source.info, RelationInfo) else None
    return (source,) if query is None else query.sources
