"""A query as parsed: what binding needs of it, with names that are still the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from sash.errors import PlanError, Span
from sash.sql.join_trees import ParsedTree
from sash.sql.parsed_ranks import ParsedRanks
from sash.sql.unbounded_state import UNBOUNDED_STATE, may_grow
from sash.sql.windows import ParsedPairWindow, WindowClause

NamedQueries: TypeAlias = Mapping[str, exp.Query]
"""What WITH has named, in lower case."""


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """One item of FROM. `using` holds the columns that JOIN … USING equates with those of the items before.

    Of a subquery, `name` is the alias; a name from WITH is a subquery too.
    """

    name: exp.Identifier
    alias: exp.Identifier | None
    window: WindowClause | None
    using: tuple[exp.Identifier, ...]
    span: Span
    query: ParsedQuery | None = None
    as_of: exp.Column | None = None
    """The time at which rows of a table must be valid, behind FOR SYSTEM_TIME AS OF."""
    columns: tuple[exp.Identifier, ...] = ()
    """What its first columns are called instead, behind the alias."""
    is_unnested: bool = False
    """Whether it stands in an expression, and has become an item of FROM for Sash alone."""
    unique: tuple[str, ...] | None = None
    """Columns of which no two rows may have equal values, if it reads tables alone; of none: there is but one row."""


@dataclass(frozen=True, slots=True)
class ParsedSelect:
    """A SELECT whose names are still the user's. All spans are offsets in `text`, the whole script or query."""

    text: str
    tree: exp.Select
    outputs: tuple[exp.Expr, ...]
    sources: tuple[ParsedSource, ...]
    on: tuple[exp.Expr, ...]
    trees: tuple[ParsedTree, ...]
    """FROM, item by item between commas: how its sources are joined."""
    where: exp.Expr | None = None
    groups: tuple[exp.Expr, ...] | None = None
    groups_all: bool = False
    """`GROUP BY ALL`: by every item of SELECT that reads a column, and not in an aggregate; `groups` is empty then."""
    having: exp.Expr | None = None
    is_distinct: bool = False
    window: WindowClause | None = None
    pair_windows: tuple[ParsedPairWindow, ...] = ()
    """Never beside `window`."""
    hints: tuple[str, ...] = ()
    emit_changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    named: NamedQueries = field(default_factory=dict[str, exp.Query])
    lifted: tuple[ParsedSource, ...] = ()
    """Subqueries that stand for values beside aggregates: they are joined with the groups, not with what is grouped."""
    written: ParsedSelect | None = None
    """What the user has written, if this was made of it."""
    ranks: ParsedRanks | None = None


@dataclass(frozen=True, slots=True)
class ParsedSet:
    """A set operation. Its hints are those of its first SELECT."""

    text: str
    tree: exp.SetOperation
    operation: str
    word: str
    """The operation as written, such as `MINUS ALL`."""
    is_all: bool
    left: ParsedQuery
    right: ParsedQuery
    window: WindowClause | None = None
    hints: tuple[str, ...] = ()
    emit_changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    named: NamedQueries = field(default_factory=dict[str, exp.Query])
    ranks: ParsedRanks | None = None


ParsedQuery: TypeAlias = ParsedSelect | ParsedSet


def refuse_statement_clauses(query: ParsedQuery, what: str, hints_too: bool = True) -> None:
    """Hints and EMIT CHANGES are of a statement as a whole."""
    if query.emit_changes:
        reason = f"`EMIT CHANGES` cannot stand in {what}; put it at the end of the statement"
        raise PlanError(reason, query.text, query.tree.meta["emit_changes"])
    if "emit_final" in query.tree.meta:
        span = query.tree.meta["emit_final"]
        words = " ".join(query.text[span.start : span.end].upper().split())
        raise PlanError(
            f"`{words}` cannot stand in {what}; put it at the end of a statement of one SELECT", query.text, span
        )
    if may_grow(query.tree):
        reason = f"`WITH UNBOUNDED STATE` cannot stand in {what}; put it at the end of the statement"
        raise PlanError(reason, query.text, query.tree.meta[UNBOUNDED_STATE])
    if query.hints and hints_too:
        reason = f"a hint cannot stand in {what}; put it after the first `SELECT`"
        raise PlanError(reason, query.text, query.spans.get("hint"))
