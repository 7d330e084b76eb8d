"""Functions OVER rows, bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sash.sql.bound_aggregates import OrderBy

OVER = "_over"
"""The table that the values of functions OVER rows are columns of, in the outputs of a SELECT that has such."""


@dataclass(frozen=True, slots=True)
class BoundFrame:
    """The rows from `start` to `end` of a row, both included; negative before it, None as far as there are any.

    Of ROWS these are numbers of rows; of RANGE differences in the one key, in microseconds if that is a time.
    """

    is_range: bool
    start: int | None
    end: int | None
    is_time: bool = False
    """Whether bounds are lengths of time."""


@dataclass(frozen=True, slots=True)
class OverFunction:
    """A function over the rows of a window; `argument` is a column of FROM, None of `COUNT(*)` and of numbers."""

    function: str
    argument: exp.Column | None
    frame: BoundFrame
    type: pa.DataType
    sql_type: str
    """The same in DuckDB's words."""
    n_rows: int = 0
    """Of LAG and LEAD: how many rows away."""
    default: exp.Column | None = None
    """Of LAG and LEAD: what stands where there is no such row."""

    @property
    def reads(self) -> tuple[exp.Column, ...]:
        return tuple(column for column in (self.argument, self.default) if column is not None)


@dataclass(frozen=True, slots=True)
class OverWindow:
    """The rows of each partition in an order, and the functions over them, each under the number of its column."""

    partition_by: tuple[exp.Column, ...]
    order: tuple[OrderBy, ...]
    """Columns too."""
    functions: tuple[tuple[int, OverFunction], ...]

    @property
    def reads(self) -> Iterator[exp.Expr]:
        yield from self.partition_by
        yield from (each.expr for each in self.order)
        yield from (column for _, function in self.functions for column in function.reads)


@dataclass(frozen=True, slots=True)
class OverRows:
    """The rows of FROM, each with what functions say of those that are in its windows."""

    columns: tuple[exp.Column, ...]
    """All of FROM. Rows that an order leaves equal are placed by these, upwards with NULL behind all others."""
    windows: tuple[OverWindow, ...]
