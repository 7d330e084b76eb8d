"""The aggregates of a SELECT, bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp


@dataclass(frozen=True, slots=True)
class OrderBy:
    """An item of ORDER BY in an aggregate."""

    expr: exp.Expr
    is_descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of a SELECT. `argument` is None for `COUNT(*)`, else an expression over the columns of FROM."""

    function: str
    """One of `AGGREGATES`."""
    argument: exp.Expr | None
    type: pa.DataType
    """Of its value; what DuckDB gives for the same call."""
    sql_type: str
    """The same in DuckDB's words."""
    filter: exp.Expr | None = None
    """The condition on the rows that it is over, if not all."""
    is_distinct: bool = False
    """Whether equal values count once; never of those to which that makes no difference."""
    order: tuple[OrderBy, ...] = ()
    """By what values are placed; where that is equal, by the values themselves, NULL before all others."""
    fraction: Fraction | None = None
    """Of a quantile."""
    is_descending: bool = False
    """Of a quantile: whether values are taken from the greatest on."""
    separator: str = ","
    """Of STRING_AGG."""

    @property
    def reads(self) -> tuple[exp.Expr, ...]:
        """The expressions over the columns of FROM that it is made of."""
        keys = (each.expr for each in self.order)
        return tuple(expr for expr in (self.argument, self.filter, *keys) if expr is not None)

    def with_reads(self, change: Callable[[exp.Expr], exp.Expr]) -> Aggregate:
        """The same of expressions that each of `reads` is changed to."""
        return replace(
            self,
            argument=None if self.argument is None else change(self.argument),
            filter=None if self.filter is None else change(self.filter),
            order=tuple(replace(each, expr=change(each.expr)) for each in self.order),
        )

    @property
    def is_timed(self) -> bool:
        """Whether it goes by the time of rows."""
        return self.function in (*LISTINGS, "first", "last") and not self.order


QUANTILES = ("quantile_cont", "quantile_disc")

LISTINGS = ("list", "string_agg")

AGGREGATES = (
    "count",
    "count_distinct",
    "count_if",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "arg_min",
    "arg_max",
    "median",
    *QUANTILES,
    "mode",
    "stddev",
    "stddev_pop",
    "var_samp",
    "var_pop",
    "first",
    "last",
    *LISTINGS,
)

AGGREGATES_THAT_RUN = (
    "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, ARG_MIN, ARG_MAX, BOOL_AND, BOOL_OR, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, "
    "MODE, STDDEV, STDDEV_POP, VAR_SAMP, VAR_POP, LIST, STRING_AGG, FIRST and LAST"
)
"""The same for messages."""
