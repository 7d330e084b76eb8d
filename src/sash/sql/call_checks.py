"""Which calls of aggregates run, over which types."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql import duck
from sash.sql.bound_aggregates import AGGREGATES, AGGREGATES_THAT_RUN, LISTINGS, QUANTILES
from sash.sql.calls import AggregateCall
from sash.sql.expressions import Scalar, span_of, to_duckdb
from sash.sql.hashable import is_hashable, not_hashable

DEAF_TO_DISTINCT = ("min", "max", "bool_and", "bool_or", "arg_min", "arg_max")
"""Aggregates that are the same of values and of different values."""
_MAX_DENOMINATOR = 10**9
_PLACED = (*LISTINGS, "first", "last")
_N_ARGUMENTS = {**dict.fromkeys(QUANTILES, (2, 2)), "arg_min": (2, 2), "arg_max": (2, 2), "string_agg": (1, 2)}
_CONDITIONAL = ("count_if", "bool_and", "bool_or")
"""Aggregates of what is true or false."""
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = (*_INTEGERS, "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_CONTINUOUS = ("median", "quantile_cont")
_ARITHMETIC = {
    "sum": (*_NUMBERS, "BOOLEAN"),
    "avg": _NUMBERS,
    **dict.fromkeys(("stddev", "stddev_pop", "var_samp", "var_pop"), _NUMBERS),
    **dict.fromkeys(_CONTINUOUS, (*_INTEGERS, "DOUBLE")),
}
"""The DuckDB types that aggregates other than MIN and the like are over."""


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
    return _misplaced(call, written) or _miscounted(call, written)


def _misplaced(call: AggregateCall, written: str) -> str | None:
    """What is wrong with DISTINCT or ORDER BY."""
    if call.is_distinct and call.function in ("first", "last", "count_if"):
        once = "`CAST(BOOL_OR(…) AS INTEGER)` counts TRUE once"
        remedy = once if call.function == "count_if" else f"leave `DISTINCT` out for the {call.function} of all values"
        return f"`{written}` of DISTINCT values cannot run in this version; {remedy}"
    if call.order and call.function not in _PLACED:
        return f"`ORDER BY` makes no difference to `{written}`; remove it"
    if call.order and call.is_distinct and [each.this for each in call.order] != list(call.arguments[:1]):
        return f"`{written}` of DISTINCT values can be ordered by these values alone; remove the rest of `ORDER BY`"
    if call.within is not None and call.function == "mode" and any(each.args.get("desc") for each in call.within):
        return "`mode` is the least of the most frequent values in this version; remove `DESC`"
    return None


def _miscounted(call: AggregateCall, written: str) -> str | None:
    least, most = _N_ARGUMENTS.get(call.function, (0 if call.function == "count" else 1, 1))
    n_arguments = len(call.arguments)
    if not n_arguments and least:
        return f"`{written}` needs something to aggregate; put a column between its brackets"
    if n_arguments > most:
        too_many, n_most = ("several", "one") if most == 1 else ("so many", "two")
        return f"`{written}` of {too_many} arguments cannot run in this version; give {n_most}"
    if n_arguments < least:
        what = "a fraction, as in `0.9`" if call.function in QUANTILES else "what decides which value is taken"
        return f"`{written}` needs a second argument: {what}; add it"
    return None


def check_argument(call: AggregateCall, argument: Scalar, text: str) -> None:
    """Refuse an aggregate of values of this type, if it has no meaning or none that Sash runs."""
    if reason := _mistake(call, argument, text):
        raise BindError(reason, text, span_of(call.node))


def check_key(call: AggregateCall, key: Scalar, expr: exp.Expr, text: str) -> None:
    """Refuse to place values by what has no order that Sash knows."""
    if not is_hashable(key.type):
        clause = "`ORDER BY` in an aggregate" if call.order else f"`{call.function.upper()}`"
        raise BindError(not_hashable(key.type, clause), text, span_of(expr))


def _mistake(call: AggregateCall, argument: Scalar, text: str) -> str | None:
    name, kind = call.function.upper(), argument.sql_type.split("(")[0]
    if call.function == "count":
        return None
    place = span_of(call.arguments[0])
    written = text[place.start : place.end] if place else "…"
    over = f"{name} over {argument.sql_type}"
    if call.function in _CONDITIONAL:
        return None if kind == "BOOLEAN" else f"{over}: it is over what is true or false; compare it with something"
    if call.function == "string_agg":
        return None if kind == "VARCHAR" else f"{over}: it puts strings together; cast it: `CAST({written} AS VARCHAR)`"
    if call.function not in _ARITHMETIC:
        clause = f"`{name}`" if call.function != "count_distinct" else "`COUNT(DISTINCT …)`"
        return None if is_hashable(argument.type) else not_hashable(argument.type, clause)
    if kind in _ARITHMETIC[call.function]:
        return None
    if kind in _NUMBERS or kind == "BOOLEAN":
        return f"{over} cannot run in this version; cast it: `{name}(CAST({written} AS DOUBLE){_rest(call, text)})`"
    if pa.types.is_timestamp(argument.type) or pa.types.is_date(argument.type):
        return f"{over} cannot run in this version; take its seconds: `{name}(epoch({written}){_rest(call, text)})`"
    if call.function in _CONTINUOUS:
        other = "MIN or MAX" if call.function == "median" else "QUANTILE_DISC"
        return f"{over}: there is no middle between two such values; use {other}"
    return f"{over}: there is nothing to add up; give it a number"


def _rest(call: AggregateCall, text: str) -> str:
    """The arguments behind the first, as written."""
    places = [span_of(argument) for argument in call.arguments[1:]]
    return "".join(f", {text[place.start : place.end]}" for place in places if place)


def read_fractions(call: AggregateCall, text: str) -> list[Fraction]:
    """The fraction of a quantile, or those of a list of them."""
    written = call.arguments[1].unnest()
    if not isinstance(written, exp.Array):
        return [_read_fraction(written, text)]
    if not written.expressions:
        raise BindError("a quantile needs a fraction, as in `0.9`; add one", text, span_of(call.node))
    return [_read_fraction(each, text) for each in written.expressions]


def _read_fraction(expr: exp.Expr, text: str) -> Fraction:
    """A constant from 0 to 1, taken as the decimal number that it is shown as."""
    value = _constant(expr, text, "the fraction of a quantile")
    try:
        fraction = Fraction(str(value))
    except ValueError:
        fraction = Fraction(-1)
    if not 0 <= fraction <= 1:
        reason = f"the fraction of a quantile is {value}; give a number from 0 to 1"
        raise BindError(reason, text, span_of(expr))
    if fraction.denominator > _MAX_DENOMINATOR:
        reason = f"the fraction of a quantile is {value}; give one of at most nine digits"
        raise PlanError(reason, text, span_of(expr))
    return fraction


def read_separator(call: AggregateCall, text: str) -> str:
    """What STRING_AGG puts between values: a constant string."""
    if len(call.arguments) < 2:
        return ","
    value = _constant(call.arguments[1], text, "the separator")
    if not isinstance(value, str):
        shown = "NULL" if value is None else value
        raise BindError(f"the separator is {shown}; give a string, as in `','`", text, span_of(call.node))
    return value


def _constant(expr: exp.Expr, text: str, what: str) -> object:
    """The value of a bound expression without columns."""
    if expr.find(exp.Column):
        raise PlanError(f"{what} must be the same for all rows; write it as a constant", text, span_of(expr))
    with duck.connect() as connection:
        return connection.execute(f"SELECT {to_duckdb(expr)}").fetchall()[0][0]
