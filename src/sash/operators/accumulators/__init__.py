"""Aggregate functions that are kept up to date while values enter and leave."""

from __future__ import annotations

import pyarrow as pa

from sash.errors import PlanError
from sash.operators.accumulators.runs import Accumulator, Runs
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
    if function in ("sum", "avg"):
        if pa.types.is_floating(type):
            return DoubleSum(result, function == "avg", home)
        if pa.types.is_integer(type) or pa.types.is_boolean(type) or pa.types.is_decimal(type):
            return IntegerSum(type, result, function == "avg", home)
    raise PlanError(f"`{function.upper()}` has no meaning for values of type `{type}`; cast the argument to a number")
