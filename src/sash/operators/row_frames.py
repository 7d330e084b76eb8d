"""What functions OVER say of rows that are listed in order: their numbers, their neighbours, aggregates of frames.

A frame moves from row to row as a window does from instant to instant: rows enter it at its end and leave it at its
start. So an aggregate of frames is an aggregate of a group at as many instants as there are rows, and as exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.over_runs import find_range
from sash.operators.accumulators import AggregateRuns, make_accumulator
from sash.operators.accumulators.manner import SortKey
from sash.store.vector import Memory

RANKS = ("row_number", "rank", "dense_rank")
NEIGHBOURS = ("lag", "lead")
VALUES = ("first_value", "last_value")
AGGREGATES = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows from `start` to `end` of a row, both included; negative before it, None as far as there are any.

    Of ROWS these are numbers of rows; of RANGE differences in the one key, 0 the rows that the order leaves equal.
    """

    is_range: bool
    start: int | None
    end: int | None
    is_time: bool = False
    """Whether bounds are lengths of time."""


ALL_BEFORE = Frame(is_range=True, start=None, end=0)
"""What SQL takes where nothing is said; without an order all rows are equal."""


@dataclass(frozen=True, slots=True)
class OverCall:
    """A function OVER rows: the column that it is of, the one that it makes, and its type."""

    function: str
    argument: str | None
    name: str
    type: pa.DataType
    frame: Frame = ALL_BEFORE
    n_rows: int = 0
    """Of LAG and LEAD: how many rows away."""
    default: str | None = None
    """Of LAG and LEAD: the column that stands where there is no such row."""

    @property
    def reach(self) -> int | None:
        """How many places away a row that comes or goes makes a difference; None if anywhere."""
        if self.function in NEIGHBOURS:
            return abs(self.n_rows)
        if self.function in RANKS or self.frame.is_range or self.frame.start is None or self.frame.end is None:
            return None
        return max(abs(self.frame.start), abs(self.frame.end))


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Rows of partitions in their order, one listing behind the other."""

    starts: np.ndarray
    """Where each listing begins, and where the last one ends."""
    first_places: np.ndarray
    """Of each listing, the place of its first row in the partition."""
    begins_class: np.ndarray
    columns: Mapping[str, pa.Array]
    """What functions read of the rows."""
    key: tuple[str, SortKey] | None
    """What they are ordered by, if that is one column."""

    @cached_property
    def listing(self) -> np.ndarray:
        """Of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the listing of each row begins and ends."""
        return self.starts[:-1][self.listing], self.starts[1:][self.listing]

    @cached_property
    def places(self) -> np.ndarray:
        """Of each row in its partition."""
        return np.arange(len(self.listing)) - self.bounds[0] + self.first_places[self.listing]

    @cached_property
    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows begin and end that the order leaves equal to each."""
        begins = np.flatnonzero(self.begins_class)
        number = np.cumsum(self.begins_class) - 1
        return begins[number], np.append(begins, len(self.begins_class))[number + 1]


def evaluate(call: OverCall, rows: ListedRows) -> pa.Array:
    """What a function says of each row that is listed."""
    if call.function in RANKS:
        return pa.array(_numbers(call.function, rows)).cast(call.type)
    assert call.argument is not None or call.function == "count"
    values = rows.columns[call.argument] if call.argument is not None else None
    if call.function in NEIGHBOURS:
        assert values is not None
        return _neighbours(call, values, rows).cast(call.type)
    first, end = find_frames(call.frame, rows)
    if call.function in VALUES:
        assert values is not None
        place = first if call.function == "first_value" else end - 1
        return values.take(pa.array(place, mask=first >= end)).cast(call.type)
    return _aggregate(call, values, rows, first, end)


def _numbers(function: str, rows: ListedRows) -> np.ndarray:
    if function == "row_number":
        return rows.places + 1
    if function == "rank":
        return rows.places[rows.classes[0]] + 1
    number = np.cumsum(rows.begins_class)
    return number - number[rows.bounds[0]] + 1


def _neighbours(call: OverCall, values: pa.Array, rows: ListedRows) -> pa.Array:
    place = np.arange(len(rows.listing)) + (call.n_rows if call.function == "lead" else -call.n_rows)
    is_there = (rows.bounds[0] <= place) & (place < rows.bounds[1])
    found = values.take(pa.array(np.where(is_there, place, 0), mask=~is_there))
    if call.default is None:
        return found
    return pc.if_else(pa.array(is_there), found, rows.columns[call.default].cast(values.type))


def find_frames(frame: Frame, rows: ListedRows) -> tuple[np.ndarray, np.ndarray]:
    """Where the frame of each row begins and ends; neither goes back from a row of a listing to the next."""
    low, high = rows.bounds
    first = low if frame.start is None else _bound(frame, frame.start, False, rows)
    end = high if frame.end is None else _bound(frame, frame.end, True, rows)
    return first, np.maximum(first, end)


def _bound(frame: Frame, offset: int, is_end: bool, rows: ListedRows) -> np.ndarray:
    low, high = rows.bounds
    if not frame.is_range:
        return np.clip(np.arange(len(low)) + offset + is_end, low, high)
    if offset == 0:
        return rows.classes[1 if is_end else 0]
    assert rows.key is not None
    name, how = rows.key
    keys, out = rows.columns[name], np.empty(len(low), np.int64)
    is_null = keys.is_null().to_numpy(zero_copy_only=False)
    numbers = _integers(keys)
    if how.is_descending:
        numbers = ~numbers  # as far apart, the other way round, and never out of range
    find_range(rows.starts, numbers, is_null, offset, is_end, out)
    return out


def _integers(keys: pa.Array) -> np.ndarray:
    if pa.types.is_timestamp(keys.type):
        keys = keys.cast(pa.timestamp("us", keys.type.tz)).view(pa.int64())
    return keys.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _aggregate(
    call: OverCall, values: pa.Array | None, rows: ListedRows, first: np.ndarray, end: np.ndarray
) -> pa.Array:
    # Of each row: what enters since the row before, then what leaves.
    low = rows.bounds[0]
    begins = np.arange(len(low)) == low
    was_end, was_first = (np.where(begins, low, np.roll(each, 1)) for each in (end, first))
    froms, counts = np.stack([was_end, was_first], 1).ravel(), np.stack([end - was_end, first - was_first], 1).ravel()
    ends = np.cumsum(counts)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(froms - ends + counts, counts)
    signs = np.repeat(np.tile(np.array([1, -1], np.int8), len(low)), counts)
    starts = np.concatenate([[0], ends[1::2]])
    runs = AggregateRuns(starts, rows.listing, len(rows.starts) - 1, signs, np.zeros(len(places), np.int64))
    taken = None if values is None else values.take(pa.array(places))
    type = None if values is None else values.type
    return make_accumulator(call.function, type, call.type, Memory()).apply(runs, taken)[1]
