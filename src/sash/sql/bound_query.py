"""What a query means once its text has been parsed and bound: the hand-over from `sql` to `plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from sash.errors import Span
from sash.sql.casts import without_read
from sash.sql.interval_graph import IntervalGraph
from sash.sql.window_graph import WindowGraph
from sash.store.batch import ARRIVAL, SEEN_FROM, SEEN_UNTIL

GROUP = "_group"
"""The table that grouping expressions are columns of in the outputs of a SELECT that aggregates."""

JOINED = "_joined"
"""What the aliases begin with of subqueries that stand for a part of FROM with an outer join."""

UNNESTED = "_subquery"
"""What the aliases begin with of subqueries that stand in an expression, once they have become items of FROM."""
RANKED = "_ranked"
"""The alias of a query in the one around it that keeps the first of its rows."""

WINDOW_COLUMNS = ("window_start", "window_end")
"""What rows of a `HopWindow` have beside their own columns."""

NOW_US = 1
"""`[NOW]` holds a tuple for its own instant only: a window of one microsecond."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A tuple with timestamp `ts` is in the window at T iff `ts <= T < ts + length_us`.

    With `slide_us` the window moves only at its multiples: at T it holds what it would at the last one not after T.
    """

    length_us: int
    slide_us: int | None = None


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """The last `n_rows` tuples of the stream, or of each partition, in the stream's total order."""

    n_rows: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HopWindow:
    """Windows of `length_us` begin every `hop_us`, of which `offset_us` is one; with equal lengths they tumble.

    A tuple is in each of them that holds its timestamp, `start <= ts < end`, once, from `ts` until before `end`, and
    has the two as columns.
    """

    length_us: int
    hop_us: int
    offset_us: int = 0
    is_final: bool = False
    """Whether rows are heard of when their window is over, and stay: EMIT ON WINDOW CLOSE."""


@dataclass(frozen=True, slots=True)
class UnboundedWindow:
    """A tuple never leaves."""


@dataclass(frozen=True, slots=True)
class SinceWindow:
    """A landmark window: tuples with `ts >= since_us`, which never leave."""

    since_us: int


Window: TypeAlias = TimeWindow | HopWindow | RowsWindow | UnboundedWindow | SinceWindow


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
        return isinstance(self.window, HopWindow) and self.window.is_final

    @property
    def schema(self) -> pa.Schema:
        """Its columns: its own, those that its window gives it, and those that are hidden."""
        hidden = [(name, pa.int64()) for name in self.hidden]
        if not isinstance(self.window, HopWindow) or not isinstance(self.info, StreamInfo):
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


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer. Every column in `expr` is `alias.column` with the declared spelling of both.

    In a SELECT that aggregates, columns are `_group.0`, `_group.1` … (the grouping expressions, in the order of
    `BoundQuery.groups`) and `_agg.0`, `_agg.1` … (the aggregates, in the order of `BoundQuery.aggregates`) instead.
    """

    name: str
    expr: exp.Expr
    type: pa.DataType
    sql_type: str
    """The same in DuckDB's words, which tell more types apart."""


@dataclass(frozen=True, slots=True)
class OrderBy:
    """An item of ORDER BY in an aggregate."""

    expr: exp.Expr
    is_descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of a SELECT. `argument` is None for `COUNT(*)`, else an expression over the columns of FROM."""

    function: str
    """One of `AGGREGATES`."""
    argument: exp.Expr | None
    type: pa.DataType
    """Of its value; what DuckDB gives for the same call."""
    sql_type: str
    """The same in DuckDB's words."""
    filter: exp.Expr | None = None
    """The condition on the rows that it is over, if not all."""
    is_distinct: bool = False
    """Whether equal values count once; never of those to which that makes no difference."""
    order: tuple[OrderBy, ...] = ()
    """By what values are placed; where that is equal, by the values themselves, NULL before all others."""
    fraction: Fraction | None = None
    """Of a quantile."""
    is_descending: bool = False
    """Of a quantile: whether values are taken from the greatest on."""
    separator: str = ","
    """Of STRING_AGG."""

    @property
    def reads(self) -> tuple[exp.Expr, ...]:
        """The expressions over the columns of FROM that it is made of."""
        keys = (each.expr for each in self.order)
        return tuple(expr for expr in (self.argument, self.filter, *keys) if expr is not None)

    def with_reads(self, change: Callable[[exp.Expr], exp.Expr]) -> Aggregate:
        """The same of expressions that each of `reads` is changed to."""
        return replace(
            self,
            argument=None if self.argument is None else change(self.argument),
            filter=None if self.filter is None else change(self.filter),
            order=tuple(replace(each, expr=change(each.expr)) for each in self.order),
        )

    @property
    def is_timed(self) -> bool:
        """Whether it goes by the time of rows."""
        return self.function in (*LISTINGS, "first", "last") and not self.order


QUANTILES = ("quantile_cont", "quantile_disc")
LISTINGS = ("list", "string_agg")


AGGREGATES = (
    "count",
    "count_distinct",
    "count_if",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "arg_min",
    "arg_max",
    "median",
    *QUANTILES,
    "mode",
    "stddev",
    "stddev_pop",
    "var_samp",
    "var_pop",
    "first",
    "last",
    *LISTINGS,
)
AGGREGATES_THAT_RUN = (
    "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, ARG_MIN, ARG_MAX, BOOL_AND, BOOL_OR, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, "
    "MODE, STDDEV, STDDEV_POP, VAR_SAMP, VAR_POP, LIST, STRING_AGG, FIRST and LAST"
)
"""The same for messages."""


@dataclass(frozen=True, slots=True)
class MembershipCondition:
    """A condition of WHERE that looks for a row in a subquery.

        x IN (SELECT y …)                              operands (x,)
        EXISTS (SELECT … FROM R WHERE R.y = A.x AND …) operands (A.x,); the other conditions stay in the subquery

    It holds iff a row of `block` equals the operands, column by column, where NULL equals nothing; without operands,
    iff `block` has a row at all. `is_negated` turns that round. `NOT IN` is stricter than NOT EXISTS (`is_null_aware`):
    over a subquery with a row it does not hold if the operand is NULL or if any row of the subquery is.
    """

    block: Block
    """Its outputs are what the operands are compared with, one each, cast to a common type."""
    operands: tuple[exp.Expr, ...]
    is_negated: bool
    is_null_aware: bool
    span: Span
    nulls_match: bool = False
    """Whether NULL equals NULL: of operands that are columns of a row, to find that very row again."""
    is_final: bool = False
    """Whether it is about all the time that a row is there, and known when it leaves (EMIT FINAL)."""


@dataclass(frozen=True, slots=True)
class OuterLookup:
    """A relation of FROM whose rows are looked up for each row of all that stands before it.

    LEFT    each row with its partners; with NULLs, if it has none
    SEMI    each row that has a partner, once
    ANTI    each row that has none
    """

    alias: str
    kind: str
    conjuncts: tuple[exp.Expr, ...]
    """What a partner must satisfy: ON, taken apart at AND."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Of the rows of FROM, those whose number within their partition is more than `first` and at most `last`, as
    `function` counts: `row_number`, `rank` or `dense_rank`.
    """

    clause: str
    """That asks for it, for messages."""
    function: str
    partition_by: tuple[exp.Column, ...]
    order: tuple[OrderBy, ...]
    """Columns too."""
    columns: tuple[exp.Column, ...]
    """What is passed on. Rows that `order` leaves equal are placed by these, upwards with NULL behind all others."""
    first: int
    last: int

    @property
    def reads(self) -> tuple[exp.Expr, ...]:
        return (*self.columns, *self.partition_by, *(each.expr for each in self.order))


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A SELECT whose every name and type is known. `conjuncts` are ON and WHERE together, taken apart at AND.

    All sources are joined by inner joins, less those of `lookups`, which come after them in this order.
    """

    text: str
    sources: tuple[Source, ...]
    outputs: tuple[Output, ...]
    conjuncts: tuple[exp.Expr, ...]
    hints: tuple[str, ...] = ()
    emit_changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    """Where clauses stand in the text, for later errors: `select`, `from`, and if given `where`, `window`, `hint`."""
    memberships: tuple[MembershipCondition, ...] = ()
    groups: tuple[Output, ...] | None = None
    """The grouping expressions, over the columns of FROM; () for one group of everything, None if it does not group."""
    aggregates: tuple[Aggregate, ...] = ()
    having: tuple[exp.Expr, ...] = ()
    """Conjuncts over `_group` and `_agg` columns."""
    is_distinct: bool = False
    ranking: Ranking | None = None
    """Which of the rows of FROM are kept, if not all. Then it has one item, and neither groups nor conditions."""
    lookups: tuple[OuterLookup, ...] = ()
    window_graph: WindowGraph | None = None
    """The windows of pairs, if there are any: the conditions on the times of tuples beside those on their windows.

    Each stream then has the window that the graph says its tuples live for.
    """
    may_grow: bool = False
    """Of a whole statement: WITH UNBOUNDED STATE, so that operators may keep all of a stream."""
    emits_once: bool = False
    """EMIT FINAL: each row once, when nothing to come can change it."""
    interval_graph: IntervalGraph | None = None
    """Of an interval join: what `conjuncts` say about how far apart the times of streams without windows may be."""


@dataclass(frozen=True, slots=True)
class AsofTerms:
    """What an ASOF join compares: columns of its left and right side by their names, of one type each."""

    keys: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    comparison: str
    """Of the left time with the right one: `>=`, `>`, `<=` or `<`."""
    keeps_all: bool
    """Whether left rows without a partner are there, with NULLs."""
    deciding: tuple[str, ...]
    """The columns that are shown of the right side, in the order in which they decide between partners of one time."""
    is_final: bool = False
    """Whether each left row comes once, with its partner then (EMIT FINAL)."""


@dataclass(frozen=True, slots=True)
class BoundSet:
    """A set operation of two queries with as many columns each; both sides' columns are of the outputs' types.

    The outputs' names are the left side's; their expressions are columns of no table. Hints, EMIT CHANGES and spans are
    those of the whole statement. An ASOF join is one as well, whose outputs are columns of the left, then of the right
    side, by their names there.
    """

    text: str
    operation: str
    """One of `union`, `except`, `intersect`, `asof join`."""
    is_all: bool
    left: Block
    right: Block
    outputs: tuple[Output, ...]
    hints: tuple[str, ...] = ()
    emit_changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    may_grow: bool = False
    """As of a `BoundQuery`."""
    asof: AsofTerms | None = None


Block: TypeAlias = BoundQuery | BoundSet
"""What can stand at the top of a statement or in brackets."""


def replaced_by(bound: Block) -> tuple[int, ...] | None:
    """The outputs that tell a group from the others, where the newest row of a group replaces the older one.

    That is so in a SELECT that aggregates, if every grouping expression is among its outputs as it stands; () if there
    is but one group. None: rows are counted instead, as always where equal rows or EMIT CHANGES are asked for.
    """
    if isinstance(bound, BoundSet) or bound.groups is None or bound.is_distinct or bound.emit_changes:
        return None
    shown: dict[int, int] = {}
    for idx, output in enumerate(bound.outputs):
        expr = without_read(output.expr).unnest()
        if isinstance(expr, exp.Column) and expr.table == GROUP:
            shown.setdefault(int(expr.name), idx)
    return tuple(shown[number] for number in sorted(shown)) if len(shown) == len(bound.groups) else None


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


def sources_in(block: Block) -> Iterator[Source]:
    """All streams and relations of the catalog that a query reads, also within subqueries; each as often as read."""
    if isinstance(block, BoundSet):
        yield from sources_in(block.left)
        yield from sources_in(block.right)
        return
    for source in block.sources:
        if isinstance(source.info, DerivedInfo):
            yield from sources_in(source.info.block)
        else:
            yield from tables_of(source)
    for membership in block.memberships:
        yield from sources_in(membership.block)
