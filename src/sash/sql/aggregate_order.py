"""Aggregates that depend on the order of rows, in SQL that says which order is meant.

list(v), string_agg(v), first(v), last(v)    by the time of rows, then by value, NULL before all others
list(v ORDER BY k), first(v ORDER BY k)      by k, then by value
list(DISTINCT v)                             by value
arg_min(v, k), arg_max(v, k)                 the least or greatest k, then the least or greatest v; no NULLs
mode(v)                                      the least of the most frequent values
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.join_trees import within_brackets

TIME = "#time"
"""The column with the time of a row."""
_LISTINGS = ("list", "array_agg", "string_agg", "group_concat", "listagg")
_TIMED = (*_LISTINGS, "first", "last")
_DECIDED = {"arg_min": "first", "argmin": "first", "min_by": "first"} | dict.fromkeys(
    ("arg_max", "argmax", "max_by"), "last"
)


def order_aggregates(select: exp.Select) -> None:
    """Gives the aggregates of a SELECT their order, if they depend on one."""
    calls = [node for node in own_nodes(select) if isinstance(node, exp.Anonymous)]
    calls = [call for call in calls if call.name.lower() in (*_TIMED, *_DECIDED, "mode") and call.expressions]
    times = _times(select) if any(map(_is_timed, calls)) else []
    for call in calls:
        name = call.name.lower()
        if name in _DECIDED:
            _decide(call, _DECIDED[name])
        else:
            _place(call, times)


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT, less those of the queries within it."""
    return select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)


def items_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """The items of FROM, also where joins nest."""
    if isinstance(node, exp.Select):
        yield from items_of(node.args["from_"].this)
    elif (inner := within_brackets(node)) is not None:
        yield from items_of(inner)
    else:
        yield node
    for join in node.args.get("joins") or ():
        yield from items_of(join.this)


def alias_of(table: exp.Expr) -> exp.Identifier:
    alias = table.args.get("alias")
    return alias.this if alias else table.this


def _is_timed(call: exp.Anonymous) -> bool:
    last = call.expressions[-1]
    has_order = isinstance(last, exp.Order)
    return call.name.lower() in _TIMED and not has_order and not isinstance(call.expressions[0], exp.Distinct)


def _times(select: exp.Select) -> list[exp.Expr]:
    """The time of a row that is made of rows of streams."""
    items = [item for item in items_of(select) if isinstance(item, exp.Table)]
    if len(items) < len(list(items_of(select))):
        raise PlanError("the order of FIRST and LAST over a subquery is not known here; take them over streams")
    for item in items:
        item.meta["shows_time"] = True
    times = [exp.column(TIME, alias_of(item).copy(), quoted=True) for item in items]
    return [exp.Ordered(this=exp.Anonymous(this="greatest", expressions=times))]


def _place(call: exp.Anonymous, times: Sequence[exp.Expr]) -> None:
    *others, last = call.expressions
    order = list(last.expressions) if isinstance(last, exp.Order) else []
    last = last.this if isinstance(last, exp.Order) else last
    first = others[0] if others else last
    is_distinct = isinstance(first, exp.Distinct)
    value = first.expressions[0] if is_distinct else first
    if is_distinct or call.name.lower() == "mode":
        order = order or [exp.Ordered(this=value.copy())]
    else:
        order = [*(order or [time.copy() for time in times]), exp.Ordered(this=value.copy(), nulls_first=True)]
    call.set("expressions", [*others, exp.Order(this=last, expressions=order)])


def _decide(call: exp.Anonymous, function: str) -> None:
    """`arg_min(v, k)` is `first(v ORDER BY k, v)` of the rows that have both."""
    value, key = call.expressions
    if isinstance(value, exp.Distinct):
        value, key = value.expressions
    there = exp.and_(*(exp.Not(this=exp.Is(this=each.copy(), expression=exp.Null())) for each in (value, key)))
    order = exp.Order(this=value.copy(), expressions=[exp.Ordered(this=each.copy()) for each in (key, value)])
    ordered = exp.Anonymous(this=function, expressions=[order])
    holder = call.parent
    if isinstance(holder, exp.Filter):
        holder.set("expression", exp.Where(this=exp.and_(there, holder.expression.this.copy())))
        call.replace(ordered)
    else:
        call.replace(exp.Filter(this=ordered, expression=exp.Where(this=there)))
