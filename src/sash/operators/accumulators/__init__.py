"""Aggregate functions that are kept up to date while values enter and leave."""

from __future__ import annotations

from typing import TypeGuard

import pyarrow as pa

from sash.errors import PlanError
from sash.operators.accumulators.aggregate_runs import Accumulator, AggregateRuns, RunningAccumulator
from sash.operators.accumulators.argument_columns import is_integral
from sash.operators.accumulators.deviations import DoubleDeviation, IntegerDeviation
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

EXTREMES = ("min", "max", "first", "last")
BOUNDED = (*EXTREMES, "count", "sum", "avg", "stddev")
"""The functions whose state for a group is bounded, if no value leaves it."""


def make_accumulator(function: str, type: pa.DataType | None, result: pa.DataType, arena: Arena) -> Accumulator:
    """The accumulator of an aggregate function.

    `function` is one of `count, count_distinct, sum, avg, min, max, median, stddev, first, last`; `type` is that of the
    argument, None for COUNT(*).
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
    if function in ("sum", "avg") and pa.types.is_floating(type):
        return DoubleSum(result, function == "avg", arena)
    if function in ("sum", "avg") and _is_number(type):
        return IntegerSum(type, result, function == "avg", arena)
    if function == "stddev" and is_integral(type):
        return IntegerDeviation(type, result, arena)
    if function == "stddev" and _is_number(type):
        return DoubleDeviation(result, arena)
    raise PlanError(f"`{function.upper()}` has no meaning for values of type `{type}`; cast the argument")


def _is_ordered(type: pa.DataType | None, function: str) -> TypeGuard[pa.DataType]:
    return type is not None and is_sortable(type) and (function != "median" or _is_number(type))


def _is_number(type: pa.DataType) -> bool:
    return is_integral(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
