"""Calls of aggregates as they are written: of what, in which order, of which rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sash.sql.dialect import Sash
from sash.sql.functions import is_aggregate

_KEPT = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_SYNONYMS = {
    "count_star": "count",
    "countif": "count_if",
    "mean": "avg",
    "stddev_samp": "stddev",
    "variance": "var_samp",
    "quantile": "quantile_disc",
    "argmin": "arg_min",
    "min_by": "arg_min",
    "argmax": "arg_max",
    "max_by": "arg_max",
    "array_agg": "list",
    "group_concat": "string_agg",
    "listagg": "string_agg",
}
_WITHIN_GROUP = {"percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc", "mode": "mode"}
"""Functions of values that stand behind them, and what they are called otherwise."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate as written. `function` is one of AGGREGATES, or the name of one that does not run."""

    node: exp.Expr
    function: str
    arguments: tuple[exp.Expr, ...]
    is_distinct: bool
    filter: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    """ORDER BY between the brackets."""
    within: tuple[exp.Ordered, ...] | None = None
    """ORDER BY behind WITHIN GROUP, if there is that: what it names is also the first argument."""

    @property
    def argument(self) -> exp.Expr | None:
        return self.arguments[0] if self.arguments else None


def read_call(node: exp.Expr) -> AggregateCall | None:
    """The call that a node is, with what stands behind its brackets, if it calls an aggregate."""
    if isinstance(node, exp.Filter):
        call = read_call(node.this)
        return replace(call, node=node, filter=node.expression.this) if call else None
    if isinstance(node, exp.WithinGroup):
        return _read_within_group(node)
    if not isinstance(node, exp.Func):
        return None
    name = _name_of(node)
    if not is_aggregate(name):
        return None
    arguments, order = _without_order(_arguments(node))
    is_distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if is_distinct:
        arguments = (*arguments[0].expressions, *arguments[1:])
    function = _SYNONYMS.get(name, name)
    if is_distinct and function == "count":
        function = "count_distinct"
    return AggregateCall(node, function, arguments, is_distinct, None, order)


def _read_within_group(node: exp.WithinGroup) -> AggregateCall | None:
    """`PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)` is `QUANTILE_CONT(x, 0.9)`."""
    if not isinstance(node.this, exp.Func):
        return None
    name, within = _name_of(node.this), tuple(node.expression.expressions)
    if name not in _WITHIN_GROUP:
        return AggregateCall(node, f"{name} … WITHIN GROUP", (), False) if is_aggregate(name) else None
    arguments = (*(each.this for each in within), *_arguments(node.this))
    return AggregateCall(node, _WITHIN_GROUP[name], arguments, False, within=within)


def _name_of(node: exp.Func) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, _KEPT):
        return node.key
    return node.sql(dialect=Sash).split("(")[0].lower() if isinstance(node, exp.AggFunc) else ""


def _arguments(node: exp.Func) -> tuple[exp.Expr, ...]:
    if isinstance(node, exp.Anonymous):
        arguments = node.expressions
    else:
        arguments = [node.this, *node.expressions, node.args.get("count")]
    return tuple(a for a in arguments if isinstance(a, exp.Expr) and not isinstance(a, exp.Star))


def _without_order(arguments: tuple[exp.Expr, ...]) -> tuple[tuple[exp.Expr, ...], tuple[exp.Ordered, ...]]:
    """ORDER BY hangs at the last argument."""
    if not arguments or not isinstance(arguments[-1], exp.Order):
        return arguments, ()
    order = arguments[-1]
    return (*arguments[:-1], order.this), tuple(order.expressions)
