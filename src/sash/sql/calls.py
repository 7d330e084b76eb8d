"""Calls of aggregates: which run, over which types."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql.dialect import Sash
from sash.sql.expressions import span_of
from sash.sql.functions import is_aggregate
from sash.sql.query import AGGREGATES, AGGREGATES_THAT_RUN

_KEPT = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_SYNONYMS = {"count_star": "count", "mean": "avg", "stddev_samp": "stddev"}
_DEAF_TO_DISTINCT = ("min", "max")
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = (*_INTEGERS, "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_NESTED = ("STRUCT", "MAP", "UNION", "INTERVAL")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an aggregate as written. `function` is one of AGGREGATES, or the name of one that does not run."""

    node: exp.Expr
    function: str
    arguments: tuple[exp.Expr, ...]
    is_distinct: bool

    @property
    def argument(self) -> exp.Expr | None:
        return self.arguments[0] if self.arguments else None


def read_call(node: exp.Expr) -> Call | None:
    """The call that a node is, if it calls an aggregate."""
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
    return Call(node, function, arguments, distinct is not None)


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


def check_call(call: Call, text: str) -> None:
    """Refuse aggregates and forms of them that do not run."""
    if reason := _refusal(call):
        raise PlanError(reason, text, span_of(call.node))


def _refusal(call: Call) -> str | None:
    name = call.function.upper()
    if call.function == "any_value":
        return "`ANY_VALUE` cannot run in this version, as its answer is left to chance; use `FIRST`"
    if call.function not in AGGREGATES:
        return f"the aggregate `{call.function}` cannot run in this version; use one of {AGGREGATES_THAT_RUN}"
    if call.is_distinct and call.function not in (*_DEAF_TO_DISTINCT, "count_distinct"):
        remedy = "deduplicate in a subquery in `FROM` with SELECT DISTINCT"
        return f"`{name}` of DISTINCT values cannot run in this version; {remedy}"
    if len(call.arguments) > 1:
        return f"`{name.split('_')[0]}` of several arguments cannot run in this version; give one"
    if not call.arguments and call.function != "count":
        return f"`{name.split('_')[0]}` needs something to aggregate; put a column between its brackets"
    return None


def check_argument(call: Call, type_: str, text: str) -> None:
    """Refuse an aggregate of values of this DuckDB type, if it has no meaning or none that Sash runs."""
    if reason := _mistake(call, type_):
        raise BindError(reason, text, span_of(call.node))


def _mistake(call: Call, type_: str) -> str | None:
    name, kind = call.function.upper(), type_.split("(")[0]
    if call.function == "count":
        return None
    if call.function in ("sum", "avg", "stddev"):
        is_number = kind in _NUMBERS or (kind == "BOOLEAN" and call.function == "sum")
        return None if is_number else f"{name} over {type_}: it needs numbers; cast it, as in `{_as_double(call)}`"
    if call.function == "median" and kind not in (*_INTEGERS, "DOUBLE"):
        if kind in _NUMBERS:
            return f"MEDIAN over {type_} cannot run in this version; cast it: `{_as_double(call)}`"
        return f"MEDIAN over {type_}: there is no middle between two such values; use MIN, MAX or a number"
    if type_.endswith("]") or kind in _NESTED:
        remedy = "take its parts or cast it, as in `CAST(… AS VARCHAR)`"
        return f"`{name}` of {type_} cannot run in this version; {remedy}".replace(
            "COUNT_DISTINCT", "COUNT(DISTINCT …)"
        )
    return None


def _as_double(call: Call) -> str:
    assert call.argument is not None
    written = call.argument.sql(dialect=Sash).replace('"', "")
    return f"{call.function.upper()}(CAST({written} AS DOUBLE))"
