"""Logical plan nodes: what is asked, not how it is done. Frozen; rules build new trees from old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from sash.sql.bound_query import Block, BoundQuery, BoundSet, Output
from sash.sql.catalog import DerivedInfo, Source
from sash.sql.join_trees import INNER
from sash.sql.window_kinds import RowsWindow, SessionWindow


@dataclass(frozen=True, slots=True)
class Scan:
    """An item of FROM with the columns read from it, the filter on them, and columns computed from them.

    The filter and the computed columns apply before the window if that is a window of time, where it makes no
    difference, and after it if it counts rows or is one of sessions, where it does.
    """

    source: Source
    columns: tuple[str, ...]
    conjuncts: tuple[exp.Expr, ...] = ()
    computed: tuple[tuple[str, exp.Expr], ...] = ()
    body: Body | None = None
    """What it reads, if it is a subquery."""
    ends_above: bool = False
    """Whether the groups above find out when its sessions end, see `follow_session_ends`."""

    @property
    def counts_rows(self) -> bool:
        return isinstance(self.source.window, RowsWindow)

    @property
    def is_of_all_rows(self) -> bool:
        """Whether its window goes by all rows, also by those that the filter leaves out."""
        return isinstance(self.source.window, RowsWindow | SessionWindow)

    @property
    def takes_back(self) -> bool:
        """Whether its window takes rows back before they expire."""
        return self.is_of_all_rows and not self.source.is_final


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs that satisfy all conjuncts. `keys` are columns of the left and the right input that must be equal.

    Joins that are no inner ones look up a relation, and are above all others: see `OuterLookup`.
    """

    left: Relational
    right: Scan
    conjuncts: tuple[exp.Expr, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    computed: tuple[tuple[str, exp.Expr], ...] = ()
    """Key columns to be computed from the left input, where that is itself a join."""
    kind: str = INNER
    """INNER, or the kind of an `OuterLookup`."""


Relational: TypeAlias = Scan | Join


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition on a row: whether `body` has a row equal to the operands; see `MembershipCondition`."""

    body: Body
    operands: tuple[exp.Expr, ...]
    is_negated: bool
    is_null_aware: bool
    nulls_match: bool = False
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT: its columns, and conjuncts that no rule has placed yet. What it groups by is as bound."""

    input: Relational
    outputs: tuple[Output, ...]
    conjuncts: tuple[exp.Expr, ...]
    emit_changes: bool
    bound: BoundQuery
    tests: tuple[RowTest, ...] = ()

    @property
    def is_grouped(self) -> bool:
        return self.bound.groups is not None


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Two queries, row by row."""

    left: Body
    right: Body
    bound: BoundSet


Body: TypeAlias = Select | SetOperation


def logical_plan(bound: Block) -> Body:
    """The query as written: sources joined in the order of FROM, everything else on top. A block that is read more than
    once becomes one body.
    """
    return _Translation().body(bound)


@dataclass(slots=True)
class _Translation:
    """Of a block and those within it."""

    made: dict[int, Body] = field(default_factory=dict[int, "Body"])
    """By the `id` of a block, which the query holds."""

    def body(self, bound: Block) -> Body:
        if id(bound) not in self.made:
            self.made[id(bound)] = self._set(bound) if isinstance(bound, BoundSet) else self._select(bound)
        return self.made[id(bound)]

    def _set(self, bound: BoundSet) -> SetOperation:
        return SetOperation(self.body(bound.left), self.body(bound.right), bound)

    def _select(self, bound: BoundQuery) -> Select:
        scans = {source.alias: self._scan(source) for source in bound.sources}
        lookups = [(scans.pop(lookup.alias), lookup) for lookup in bound.lookups]
        first, *others = scans.values()
        tree: Relational = first
        for scan in others:
            tree = Join(tree, scan)
        for scan, lookup in lookups:
            tree = Join(tree, scan, lookup.conjuncts, kind=lookup.kind)
        tests = tuple(
            RowTest(
                self.body(each.block),
                each.operands,
                each.is_negated,
                each.is_null_aware,
                each.nulls_match,
                each.is_final,
            )
            for each in bound.memberships
        )
        return Select(tree, bound.outputs, bound.conjuncts, bound.emit_changes, bound, tests)

    def _scan(self, source: Source) -> Scan:
        body = self.body(source.info.block) if isinstance(source.info, DerivedInfo) else None
        return Scan(source, tuple(source.schema.names), body=body)


def map_selects(body: Body, change: Callable[[Select], Select]) -> Body:
    """The same with every SELECT changed, once, those within others first."""
    changed: dict[int, Body] = {}

    def change_body(each: Body) -> Body:
        if id(each) not in changed:
            changed[id(each)] = change_set(each) if isinstance(each, SetOperation) else change_select(each)
        return changed[id(each)]

    def change_set(each: SetOperation) -> Body:
        return replace(each, left=change_body(each.left), right=change_body(each.right))

    def change_select(each: Select) -> Body:
        tests = tuple(replace(test, body=change_body(test.body)) for test in each.tests)
        return change(replace(each, input=map_scans(each.input, change_scan), tests=tests))

    def change_scan(scan: Scan) -> Scan:
        return replace(scan, body=change_body(scan.body)) if scan.body else scan

    return change_body(body)


def bodies_of(body: Body) -> Iterator[Body]:
    """The body and all within it, each once, the innermost first."""
    yield from _bodies_of(body, set())


def _bodies_of(body: Body, seen: set[int]) -> Iterator[Body]:
    if isinstance(body, SetOperation):
        below = [body.left, body.right]
    else:
        below = [scan.body for scan in scans_of(body.input) if scan.body] + [test.body for test in body.tests]
    for each in below:
        if id(each) not in seen:
            yield from _bodies_of(each, seen)
    seen.add(id(body))
    yield body


def scans_of(node: Relational) -> list[Scan]:
    """The leaves, left to right."""
    return [node] if isinstance(node, Scan) else [*scans_of(node.left), node.right]


def outer_joins_of(node: Relational) -> list[Join]:
    """The joins that are no inner ones, in their order."""
    if isinstance(node, Scan) or node.kind == INNER:
        return []
    return [*outer_joins_of(node.left), node]


def padded_aliases(node: Relational) -> frozenset[str]:
    """The relations whose columns are NULL in rows that they have no partner for, or are not there at all."""
    return frozenset(join.right.source.alias for join in outer_joins_of(node))


def aliases_of(node: Relational | exp.Expr) -> frozenset[str]:
    """The sources that a subtree holds, or that an expression reads."""
    if isinstance(node, exp.Expr):
        return frozenset(column.table for column in node.find_all(exp.Column))
    return frozenset(scan.source.alias for scan in scans_of(node))


def map_scans(node: Relational, change: Callable[[Scan], Scan]) -> Relational:
    """The same tree with every leaf changed."""
    if isinstance(node, Scan):
        return change(node)
    right = change(node.right)
    return replace(node, left=map_scans(node.left, change), right=right)


def map_joins(node: Relational, change: Callable[[Join], Join]) -> Relational:
    """The same tree with every join changed, inner ones first."""
    if isinstance(node, Scan):
        return node
    return change(replace(node, left=map_joins(node.left, change)))
