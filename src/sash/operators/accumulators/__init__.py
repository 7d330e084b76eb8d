"""Aggregate functions that are kept up to date while values enter and leave."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sash.errors import PlanError
from sash.operators.accumulators.aggregate_runs import Accumulator, AggregateRuns, RunningAccumulator
from sash.operators.accumulators.argument_columns import is_integral
from sash.operators.accumulators.deviations import MEASURES, DoubleDeviation, IntegerDeviation
from sash.operators.accumulators.extremes import Extreme
from sash.operators.accumulators.listings import Listing
from sash.operators.accumulators.manner import PLAIN, CallManner
from sash.operators.accumulators.members import Members
from sash.operators.accumulators.mode import Mode
from sash.operators.accumulators.of_distinct import OfDistinct
from sash.operators.accumulators.ordered import WHAT as ORDERED
from sash.operators.accumulators.ordered import Ordered
from sash.operators.accumulators.quantiles import OrderedQuantile, quantile_of
from sash.operators.accumulators.ranked import RankedMembers
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

EXTREMES = ("min", "max", "bool_and", "bool_or", "first", "last", "arg_min", "arg_max")
SUMS = ("sum", "avg", "count_if")
QUANTILES = ("quantile_cont", "quantile_disc")
LISTINGS = ("list", "string_agg")
TIMED = ("first", "last", *LISTINGS)
"""The functions that go by the time of tuples, if they are not told by what else."""
CONTINUOUS = ("median", "quantile_cont")
BOUNDED = (*EXTREMES, *SUMS, *MEASURES, "count")
"""The functions whose state for a group is bounded, if no value leaves it and equal values count each."""


def make_accumulator(
    function: str, type: pa.DataType | None, result: pa.DataType, arena: Arena, manner: CallManner = PLAIN
) -> Accumulator:
    """The accumulator of an aggregate function.

    `function` is one of `BOUNDED`, `ORDERED`, `QUANTILES` and `LISTINGS`, or `mode`; `type` is that of the argument,
    None for COUNT(*).
    """
    if manner.is_distinct and function not in LISTINGS:
        assert type is not None
        inner = make_accumulator(function, type, result, arena, replace(manner, is_distinct=False))
        return OfDistinct(inner, type, arena)
    if type is None or not _is_ordered(type, function):
        return _make_tallies(function, type, result, arena)
    if function in ORDERED:
        return Ordered(function, _make_members(function, type, manner, arena), type, result, arena)
    if function in QUANTILES:
        assert manner.fraction is not None
        quantile = quantile_of(function, manner.fraction, manner.is_descending)
        return OrderedQuantile(quantile, type, result, arena)
    if function in LISTINGS:
        separator = manner.separator if function == "string_agg" else None
        members = _make_members(function, type, manner, arena)
        return Listing(members, result, manner.is_distinct, separator, arena)
    return Mode(type, result, arena) if function == "mode" else _make_tallies(function, type, result, arena)


def make_running_accumulator(
    function: str, type: pa.DataType | None, result: pa.DataType, arena: Arena, manner: CallManner = PLAIN
) -> RunningAccumulator:
    """The accumulator of a `BOUNDED` function where values enter and none leaves."""
    assert function in BOUNDED, function
    assert not manner.is_distinct, function
    if function in EXTREMES and type is not None and _is_ordered(type, function):
        return Extreme(function, _make_members(function, type, manner, arena), result, arena)
    return _make_tallies(function, type, result, arena)


def _make_members(function: str, type: pa.DataType, manner: CallManner, arena: Arena) -> Members | RankedMembers:
    """The members of an aggregate that takes its values in order."""
    if manner.keys:
        assert isinstance(type, pa.StructType)
        needed = {"arg_min": 2, "arg_max": 2, "string_agg": 1}.get(function, 0)
        return RankedMembers(type, manner.keys, needed, arena)
    return Members(type, function in TIMED, arena, skips_nulls=function == "string_agg")


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


def _is_ordered(type: pa.DataType, function: str) -> bool:
    if pa.types.is_struct(type):
        return all(is_sortable(field.type) for field in type)
    return is_sortable(type) and (function not in CONTINUOUS or _is_number(type))


def _is_number(type: pa.DataType) -> bool:
    return is_integral(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
