"""The unit that flows between operators: an Arrow table of signed tuples with their lives.

    _op   _ts                    _expires                              columns `alias.column`
    +1    when the tuple enters  when it leaves by itself, or NEVER    ...
    -1    when it leaves early   the `_expires` of the tuple it takes back

So the answer at T is, per distinct row, the sum of `_op` over the tuples with `_ts <= T < _expires`. A tuple that may
be taken back also carries the identity of every base tuple it was made of, in columns `_id.alias`; its negative has
the same ones.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.ties import LONGEST_SORTED, sort_short_runs

NEVER = np.iinfo(np.int64).max
BEGINNING = np.iinfo(np.int64).min

TS, EXPIRES, OP = "_ts", "_expires", "_op"
ID_PREFIX = "_id."
SIGNED_FIELDS = (pa.field(TS, pa.int64()), pa.field(EXPIRES, pa.int64()), pa.field(OP, pa.int8()))


def int64_column(table: pa.Table, name: str) -> np.ndarray:
    """A column without NULLs as an array; without a copy when it is one chunk."""
    return _as_array(table.column(name))


def signs(table: pa.Table) -> np.ndarray:
    """The `_op` column as an array."""
    return _as_array(table.column(OP))


def with_columns(table: pa.Table, **arrays: np.ndarray) -> pa.Table:
    """The table with the named columns replaced, or appended where they were missing."""
    for name, array in arrays.items():
        column = pa.array(array)
        idx = table.schema.get_field_index(name)
        table = table.append_column(name, column) if idx < 0 else table.set_column(idx, name, column)
    return table


def arrive(rows: pa.Table, ts: np.ndarray, expires: np.ndarray) -> pa.Table:
    """Turns plain rows into tuples that enter at `ts`."""
    return with_columns(rows, **{TS: ts, EXPIRES: expires, OP: np.ones(len(ts), np.int8)})


def concat(tables: list[pa.Table]) -> pa.Table:
    """One table of all rows, in one chunk per column."""
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]


def sorted_by_time(table: pa.Table, with_ties: bool = True) -> pa.Table:
    """Ordered by `_ts`; rows of one instant by sign, then by content, so that the order never tells how they came.

    Without ties, rows of one instant stay in the order in which they are.
    """
    ts = int64_column(table, TS)
    if len(ts) > 1 and np.any(ts[1:] < ts[:-1]):
        table = table.take(pa.array(np.argsort(ts, kind="stable")))
        ts = int64_column(table, TS)
    return _order_ties(table, ts) if with_ties and np.any(ts[1:] == ts[:-1]) else table


def _order_ties(table: pa.Table, ts: np.ndarray) -> pa.Table:
    tied = np.zeros(len(ts), dtype=bool)
    tied[1:] = ts[1:] == ts[:-1]
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    ordered = _order_within(ts[places], table, places)
    if ordered is None:
        return table
    order = np.arange(len(ts))
    order[places] = places[ordered]
    return table.take(pa.array(order))


def _order_within(ts: np.ndarray, table: pa.Table, places: np.ndarray) -> np.ndarray | None:
    """The permutation that sorts the rows at these places, of which those with equal `ts` stand together, by sign and
    content; None if they are sorted.
    """
    names = [OP, *(name for name in table.column_names if name not in (OP, TS))]
    ranks = np.empty((len(places), len(names)), np.int64)
    for idx, name in enumerate(names):
        column = table.column(name)
        if column.null_count == 0 and _is_integer(column.type):
            np.take(_rank(column), places, out=ranks[:, idx])
        else:
            ranks[:, idx] = _rank(column.take(pa.array(places)))
    starts = np.concatenate([[0], np.flatnonzero(ts[1:] != ts[:-1]) + 1, [len(ts)]])
    order = np.arange(len(ts))
    is_changed = sort_short_runs(starts, ranks, order)
    for idx in np.flatnonzero(np.diff(starts) > LONGEST_SORTED):
        low, high = starts[idx], starts[idx + 1]
        order[low:high] = low + np.lexsort(ranks[low:high].T[::-1])
        is_changed = True
    return order if is_changed else None


def content_order(table: pa.Table, leading: list[str]) -> np.ndarray:
    """The permutation that sorts by the leading columns, then by all others.

    NULLs come first; nested values and intervals are compared as text.
    """
    names = leading + [name for name in table.column_names if name not in leading]
    ranks = [_rank(table.column(name)) for name in reversed(names)]
    return np.lexsort(ranks)


def _rank(column: pa.ChunkedArray) -> np.ndarray:
    """Integers in the order of the column's values."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count == 0 and _is_integer(column.type):
        return column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_floating(column.type):
        column = _sortable_bits(column)
    elif any(is_odd(column.type) for is_odd in (pa.types.is_nested, pa.types.is_dictionary, pa.types.is_interval)):
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()])
    return pc.rank(column, [("", "ascending", "at_start")], tiebreaker="dense").to_numpy().astype(np.int64)


def _is_integer(type: pa.DataType) -> bool:
    """Whether values are integers, of 64 bits with a sign at most, in their own order."""
    is_integer = pa.types.is_integer(type) and not pa.types.is_uint64(type)
    return is_integer or pa.types.is_timestamp(type) or pa.types.is_date64(type) or pa.types.is_time64(type)


def _sortable_bits(column: pa.Array) -> pa.Array:
    """Floats as integers that compare alike, and that tell -0.0 from 0.0 and one NaN from another."""
    bits = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(NEVER), bits)
    return pa.array(ordered, mask=column.is_null().to_numpy(zero_copy_only=False))


def _as_array(column: pa.ChunkedArray) -> np.ndarray:
    if column.num_chunks == 1:
        return column.chunk(0).to_numpy(zero_copy_only=False)
    return column.to_numpy()
