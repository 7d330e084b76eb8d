"""Aggregate functions that are kept up to date while values enter and leave."""

from __future__ import annotations

import pyarrow as pa

from sash.errors import PlanError
from sash.operators.accumulators.columns import is_integral
from sash.operators.accumulators.deviations import DoubleDeviation, IntegerDeviation
from sash.operators.accumulators.ordered import WHAT as ORDERED
from sash.operators.accumulators.ordered import Ordered
from sash.operators.accumulators.runs import Accumulator, Runs
from sash.operators.accumulators.sortable import is_sortable
from sash.operators.accumulators.sums import Count, DoubleSum, IntegerSum
from sash.store.vector import Home

__all__ = ["Accumulator", "Runs", "make_accumulator"]


def make_accumulator(function: str, type: pa.DataType | None, result: pa.DataType, home: Home) -> Accumulator:
    """The accumulator of an aggregate function.

    `function` is one of `count, count_distinct, sum, avg, min, max, median, stddev, first, last`; `type` is that of the
    argument, None for COUNT(*).
    """
    if function == "count":
        return Count(result, home)
    assert type is not None
    if function in ORDERED and is_sortable(type) and (function != "median" or _is_number(type)):
        return Ordered(function, type, result, home)
    if function in ("sum", "avg") and pa.types.is_floating(type):
        return DoubleSum(result, function == "avg", home)
    if function in ("sum", "avg") and _is_number(type):
        return IntegerSum(type, result, function == "avg", home)
    if function == "stddev" and is_integral(type):
        return IntegerDeviation(type, result, home)
    if function == "stddev" and _is_number(type):
        return DoubleDeviation(result, home)
    raise PlanError(f"`{function.upper()}` has no meaning for values of type `{type}`; cast the argument")


def _is_number(type: pa.DataType) -> bool:
    return is_integral(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
