"""Calls of aggregates: which run, over which types."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql.bound_query import AGGREGATES, AGGREGATES_THAT_RUN
from sash.sql.dialect import Sash
from sash.sql.expressions import Scalar, span_of
from sash.sql.functions import is_aggregate
from sash.sql.hashable import is_hashable, not_hashable

_KEPT = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_SYNONYMS = {
    "count_star": "count",
    "countif": "count_if",
    "mean": "avg",
    "stddev_samp": "stddev",
    "variance": "var_samp",
}
_DEAF_TO_DISTINCT = ("min", "max", "bool_and", "bool_or")
_CONDITIONAL = ("count_if", "bool_and", "bool_or")
"""Aggregates of what is true or false."""
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = (*_INTEGERS, "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_ARITHMETIC = {
    "sum": (*_NUMBERS, "BOOLEAN"),
    "avg": _NUMBERS,
    **dict.fromkeys(("stddev", "stddev_pop", "var_samp", "var_pop"), _NUMBERS),
    "median": (*_INTEGERS, "DOUBLE"),
}
"""The DuckDB types that aggregates other than MIN and the like are over."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate as written. `function` is one of AGGREGATES, or the name of one that does not run."""

    node: exp.Expr
    function: str
    arguments: tuple[exp.Expr, ...]
    is_distinct: bool
    filter: exp.Expr | None = None

    @property
    def argument(self) -> exp.Expr | None:
        return self.arguments[0] if self.arguments else None


def read_call(node: exp.Expr) -> AggregateCall | None:
    """The call that a node is, with the FILTER behind it, if it calls an aggregate."""
    if isinstance(node, exp.Filter):
        call = read_call(node.this)
        return replace(call, node=node, filter=node.expression.this) if call else None
    if not isinstance(node, exp.Func):
        return None
    name = _name_of(node)
    if not is_aggregate(name):
        return None
    arguments = _arguments(node)
    distinct = next((argument for argument in arguments if isinstance(argument, exp.Distinct)), None)
    if distinct is not None:
        arguments = tuple(distinct.expressions)
    function = _SYNONYMS.get(name, name)
    if distinct is not None and function == "count":
        function = "count_distinct"
    return AggregateCall(node, function, arguments, distinct is not None)


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


def check_call(call: AggregateCall, text: str) -> None:
    """Refuse aggregates and forms of them that do not run."""
    span = span_of(call.node)
    written = text[span.start :].split("(")[0].strip().lower() if span else call.function
    if reason := _refusal(call, written):
        raise PlanError(reason, text, span)


def _refusal(call: AggregateCall, written: str) -> str | None:
    if call.function == "any_value":
        return "`ANY_VALUE` cannot run in this version, as its answer is left to chance; use `FIRST`"
    if call.function not in AGGREGATES:
        return f"the aggregate `{written}` cannot run in this version; use one of {AGGREGATES_THAT_RUN}"
    if call.is_distinct and call.function not in (*_DEAF_TO_DISTINCT, "count_distinct"):
        remedy = "deduplicate with SELECT DISTINCT in a subquery in `FROM`"
        return f"`{written}` of DISTINCT values cannot run in this version; {remedy}"
    if len(call.arguments) > 1:
        return f"`{written}` of several arguments cannot run in this version; give one"
    if not call.arguments and call.function != "count":
        return f"`{written}` needs something to aggregate; put a column between its brackets"
    return None


def check_argument(call: AggregateCall, argument: Scalar, text: str) -> None:
    """Refuse an aggregate of values of this type, if it has no meaning or none that Sash runs."""
    if reason := _mistake(call, argument, text):
        raise BindError(reason, text, span_of(call.node))


def _mistake(call: AggregateCall, argument: Scalar, text: str) -> str | None:
    name, kind = call.function.upper(), argument.sql_type.split("(")[0]
    if call.function == "count":
        return None
    if call.function in _CONDITIONAL:
        remedy = "it is over what is true or false; compare it with something"
        return None if kind == "BOOLEAN" else f"{name} over {argument.sql_type}: {remedy}"
    if call.function not in _ARITHMETIC:
        clause = f"`{name}`" if call.function != "count_distinct" else "`COUNT(DISTINCT …)`"
        return None if is_hashable(argument.type) else not_hashable(argument.type, clause)
    if kind in _ARITHMETIC[call.function]:
        return None
    place = span_of(call.arguments[0])
    written = text[place.start : place.end] if place else "…"
    over = f"{name} over {argument.sql_type}"
    if kind in _NUMBERS or kind == "BOOLEAN":
        return f"{over} cannot run in this version; cast it: `{name}(CAST({written} AS DOUBLE))`"
    if pa.types.is_timestamp(argument.type) or pa.types.is_date(argument.type):
        return f"{over} cannot run in this version; take its seconds: `{name}(epoch({written}))`"
    if call.function == "median":
        return f"{over}: there is no middle between two such values; use MIN or MAX"
    return f"{over}: there is nothing to add up; give it a number"
