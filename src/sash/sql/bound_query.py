"""What a query means once its text has been parsed and bound: the hand-over from `sql` to `plan`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from sash.errors import Span
from sash.sql.bound_aggregates import Aggregate, OrderBy
from sash.sql.bound_over import OverRows
from sash.sql.casts import without_read
from sash.sql.catalog import DerivedInfo, Source, tables_of
from sash.sql.interval_graph import IntervalGraph
from sash.sql.window_graph import WindowGraph

GROUP = "_group"
"""The table that grouping expressions are columns of in the outputs of a SELECT that aggregates."""

RANKED = "_ranked"
"""The alias of a query in the one around it that keeps the first of its rows, or numbers them."""


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
    over: OverRows | None = None
    """What functions OVER rows say of those of FROM, or of those that are kept, if there are any: likewise.

    Outputs have their values as columns `_over.0`, `_over.1` …
    """
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

    @property
    def chooses(self) -> bool:
        """Whether what is shown of a row follows from other rows: which are the first, or functions OVER rows."""
        return self.ranking is not None or self.over is not None


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
