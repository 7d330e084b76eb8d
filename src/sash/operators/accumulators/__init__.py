"""Aggregate functions that are kept up to date while values enter and leave."""

from __future__ import annotations

from typing import TypeGuard

import pyarrow as pa

from sash.errors import PlanError
from sash.operators.accumulators.aggregate_runs import Accumulator, AggregateRuns, RunningAccumulator
from sash.operators.accumulators.argument_columns import is_integral
from sash.operators.accumulators.deviations import MEASURES, DoubleDeviation, IntegerDeviation
from sash.operators.accumulators.extremes import Extreme
from sash.operators.accumulators.ordered import WHAT as ORDERED
from sash.operators.accumulators.ordered import Ordered
from sash.operators.accumulators.sortable import is_sortable
from sash.operators.accumulators.sums import Count, DoubleSum, IntegerSum
from sash.store.vector import Arena

__all__ = [
    "BOUNDED",
    "Accumulator",
    "AggregateRuns",
    "RunningAccumulator",
    "make_accumulator",
    "make_running_accumulator",
]

EXTREMES = ("min", "max", "bool_and", "bool_or", "first", "last")
SUMS = ("sum", "avg", "count_if")
BOUNDED = (*EXTREMES, *SUMS, *MEASURES, "count")
"""The functions whose state for a group is bounded, if no value leaves it."""


def make_accumulator(function: str, type: pa.DataType | None, result: pa.DataType, arena: Arena) -> Accumulator:
    """The accumulator of an aggregate function.

    `function` is one of `BOUNDED`, `median` or `count_distinct`; `type` is that of the argument, None for COUNT(*).
    """
    if function in ORDERED and _is_ordered(type, function):
        return Ordered(function, type, result, arena)
    return _make_tallies(function, type, result, arena)


def make_running_accumulator(
    function: str, type: pa.DataType | None, result: pa.DataType, arena: Arena
) -> RunningAccumulator:
    """The accumulator of a `BOUNDED` function where values enter and none leaves."""
    assert function in BOUNDED, function
    if function in EXTREMES and _is_ordered(type, function):
        return Extreme(function, type, result, arena)
    return _make_tallies(function, type, result, arena)


def _make_tallies(function: str, type: pa.DataType | None, result: pa.DataType, arena: Arena) -> RunningAccumulator:
    if function == "count":
        return Count(result, arena)
    assert type is not None
    if function in SUMS and pa.types.is_floating(type):
        return DoubleSum(result, function == "avg", arena)
    if function in SUMS and _is_number(type):
        return IntegerSum(type, result, function == "avg", arena)
    if function in MEASURES and is_integral(type):
        return IntegerDeviation(function, type, result, arena)
    if function in MEASURES and _is_number(type):
        return DoubleDeviation(function, result, arena)
    raise PlanError(f"`{function.upper()}` has no meaning for values of type `{type}`; cast the argument")


def _is_ordered(type: pa.DataType | None, function: str) -> TypeGuard[pa.DataType]:
    return type is not None and is_sortable(type) and (function != "median" or _is_number(type))


def _is_number(type: pa.DataType) -> bool:
    return is_integral(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
