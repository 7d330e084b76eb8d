"""The items of FROM in a query's text: what is joined, which window a stream has, and what may stand in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.aggregate_order import alias_of
from sash.sql.catalog import StreamInfo
from sash.sql.join_trees import within_brackets
from sash.sql.window_kinds import (
    RowsWindow,
    SessionWindow,
    Window,
)


def add_condition(select: exp.Select, item: exp.Expr, condition: exp.Expr) -> None:
    """Asks a condition of an item's rows: in WHERE, or beside outer joins in ON of the join in which it stands."""
    if not any(join.args.get("side") or join.args.get("kind") in ("SEMI", "ANTI") for join in joins_of(select)):
        select.where(condition, copy=False)
        return
    following = (select if isinstance(item.parent, exp.From) else item).args.get("joins") or []
    join = item.parent if isinstance(item.parent, exp.Join) and not following else next(iter(following), None)
    if join is None or join.meta.get("is_comma"):
        select.where(condition, copy=False)
    elif join.args.get("on"):
        join.set("on", exp.and_(join.args["on"], condition))
    else:
        raise PlanError("FOR SYSTEM_TIME beside outer joins is known here with `ON` alone; use it in place of `USING`")


def joins_of(node: exp.Expr) -> Iterator[exp.Join]:
    """The joins of FROM, also those in brackets."""
    inner = node.args["from_"].this if isinstance(node, exp.Select) else within_brackets(node)
    if inner is not None:
        yield from joins_of(inner)
    for join in node.args.get("joins") or ():
        yield join
        yield from joins_of(join.this)


def inline_named_queries(tree: exp.Query) -> None:
    """What WITH names means the same as a subquery in its place; there, it has the window of the query around it."""
    for clause in list(tree.find_all(exp.With)):
        query = clause.parent
        assert query is not None
        query.set("with_", None)
        for number, named in enumerate(clause.expressions):
            for reader in (query, *(later.this for later in clause.expressions[number + 1 :])):
                for table in list(reader.find_all(exp.Table)):
                    if table.name.lower() == named.alias.lower():
                        table.replace(as_item(named.this.copy(), table))


def as_item(query: exp.Query, table: exp.Table) -> exp.Subquery:
    """A query in the place of a table of FROM."""
    alias = exp.TableAlias(this=alias_of(table).copy(), columns=_names_of(table, query))
    item = exp.Subquery(this=query, alias=alias)
    item.set("joins", table.args.get("joins"))
    return item


def _names_of(table: exp.Table, query: exp.Query) -> list[exp.Identifier]:
    """What columns are called behind an alias, or by WITH."""
    alias = table.args.get("alias")
    own = (alias.args.get("columns") if alias else None) or []
    return [name.copy() for name in (*own, *query.meta.get("columns", [])[len(own) :])]


def window_of(table: exp.Table, info: StreamInfo) -> Window | None:
    """The window of a stream: its own, or that of the innermost query around it that has one."""
    for node in (table, table.args.get("alias"), *_ancestors(table)):
        clause = node.meta.get("window") if node else None
        if clause is not None:
            names = {name.lower(): name for name in info.schema.names}
            columns = tuple(names[column.name.lower()] for column in clause.partition_by)
            is_partitioned = isinstance(clause.window, RowsWindow | SessionWindow)
            return replace(clause.window, partition_by=columns) if is_partitioned else clause.window
    return None


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while (parent := node.parent) is not None:
        node = parent
        if isinstance(node, exp.Query):
            yield node
