"""Logical plan nodes: what is asked, not how it is done. Frozen; rules build new trees from old ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from sash.sql.query import BoundQuery, CountWindow, Output, Source


@dataclass(frozen=True, slots=True)
class Scan:
    """A stream or relation of FROM with the columns read from it, the filter on them, and columns computed from them.

    The filter and the computed columns apply before the window if that is a window of time, where it makes no
    difference, and after it if it counts rows, where it does.
    """

    source: Source
    columns: tuple[str, ...]
    conjuncts: tuple[exp.Expr, ...] = ()
    computed: tuple[tuple[str, exp.Expr], ...] = ()

    @property
    def counts_rows(self) -> bool:
        return isinstance(self.source.window, CountWindow)


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs that satisfy all conjuncts. `keys` are columns of the left and the right input that must be equal."""

    left: Relational
    right: Scan
    conjuncts: tuple[exp.Expr, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    computed: tuple[tuple[str, exp.Expr], ...] = ()
    """Key columns to be computed from the left input, where that is itself a join."""


Relational: TypeAlias = Scan | Join


@dataclass(frozen=True, slots=True)
class Query:
    """The root: the answer's columns, and conjuncts that no rule has placed yet."""

    input: Relational
    outputs: tuple[Output, ...]
    conjuncts: tuple[exp.Expr, ...]
    emit_changes: bool
    bound: BoundQuery


def logical_plan(bound: BoundQuery) -> Query:
    """The query as written: sources joined in the order of FROM, everything else on top."""
    scans = [Scan(source, tuple(source.info.schema.names)) for source in bound.sources]
    tree: Relational = scans[0]
    for scan in scans[1:]:
        tree = Join(tree, scan)
    return Query(tree, bound.outputs, bound.conjuncts, bound.emit_changes, bound)


def scans_of(node: Relational) -> list[Scan]:
    """The leaves, left to right."""
    return [node] if isinstance(node, Scan) else [*scans_of(node.left), node.right]


def aliases_of(node: Relational | exp.Expr) -> frozenset[str]:
    """The sources that a subtree holds, or that an expression reads."""
    if isinstance(node, exp.Expr):
        return frozenset(column.table for column in node.find_all(exp.Column))
    return frozenset(scan.source.alias for scan in scans_of(node))


def map_scans(node: Relational, change) -> Relational:
    """The same tree with every leaf changed."""
    if isinstance(node, Scan):
        return change(node)
    right = change(node.right)
    return replace(node, left=map_scans(node.left, change), right=right)


def map_joins(node: Relational, change) -> Relational:
    """The same tree with every join changed, inner ones first."""
    if isinstance(node, Scan):
        return node
    return change(replace(node, left=map_joins(node.left, change)))
