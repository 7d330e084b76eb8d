"""The unit that flows between operators: an Arrow table of signed tuples with their lives.

    _op   _ts                    _expires                              columns `alias.column`
    +1    when the tuple enters  when it leaves by itself, or NEVER    ...
    -1    when it leaves early   the `_expires` of the tuple it takes back

So the answer at T is, per distinct row, the sum of `_op` over the tuples with `_ts <= T < _expires`. A tuple that may
be taken back also carries the identity of every base tuple it was made of, in columns `_id.alias`; its negative has
the same ones.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.ties import find_runs, sort_runs

NEVER = np.iinfo(np.int64).max
BEGINNING = np.iinfo(np.int64).min

TS, EXPIRES, OP = "_ts", "_expires", "_op"
ID_PREFIX = "_id."
ARRIVAL = "_arrival"
"""A column of a stream where a table is read as of arrival: the number of the batch in which a tuple was let in."""
SEEN_FROM, SEEN_UNTIL = "_seen_from", "_seen_until"
"""Columns of such a table: from which batch on, and until before which one, a row is seen; a NULL is no bound."""
SEEN_ID = "_seen_id"
"""And a number that a row keeps while others come and go."""
SIGNED_FIELDS = (pa.field(TS, pa.int64()), pa.field(EXPIRES, pa.int64()), pa.field(OP, pa.int8()))
SIGNED_NAMES = tuple(each.name for each in SIGNED_FIELDS)

ColumnLike: TypeAlias = pa.Array | pa.ChunkedArray | np.ndarray
"""What a column of a table can be made of."""


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


def expiries(ts: np.ndarray, life_us: int) -> np.ndarray:
    """When tuples leave that live so long; NEVER if that is beyond all time."""
    expires = np.full(len(ts), NEVER)
    np.add(ts, life_us, out=expires, where=ts < NEVER - life_us)
    return expires


def concat(tables: list[pa.Table]) -> pa.Table:
    """One table of all rows, in one chunk per column."""
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema, by name; NULL where the table has none."""
    if table.schema.equals(schema):
        return table
    there = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in there else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def apart_in_time(table: pa.Table) -> list[pa.Table]:
    """The table in parts of one chunk each, as it is chunked, where every part is later than all before it.

    What is to be sorted can be sorted part by part then, while it is in the caches.
    """
    starts, start, latest = [0], 0, None
    for chunk in table.column(TS).chunks:
        if not len(chunk):
            continue
        ts = chunk.to_numpy(zero_copy_only=False)
        if latest is not None and ts.min() > latest:
            starts.append(start)
        elif latest is not None and ts.min() < latest and len(starts) > 1:
            return [table.combine_chunks()]
        start, latest = start + len(ts), ts.max() if latest is None else max(latest, ts.max())
    ends = [*starts[1:], table.num_rows]
    return [table.slice(first, last - first).combine_chunks() for first, last in zip(starts, ends)]


def sorted_by_time(table: pa.Table, with_ties: bool = True, leaving_first: bool = False) -> pa.Table:
    """Ordered by `_ts`; rows of one instant by sign, then by content, so that the order never tells how they came.

    Without ties, rows of one instant stay in the order in which they are; but what leaves can come before what enters.
    """
    ts, order = int64_column(table, TS), None
    if leaving_first and len(ts) and signs(table).min() < 0:
        order = np.lexsort((signs(table), ts))
        ts = ts[order]
    elif len(ts) > 1 and np.any(ts[1:] < ts[:-1]):
        order = np.argsort(ts, kind="stable")
        ts = ts[order]
    if with_ties and np.any(ts[1:] == ts[:-1]):
        order = _order_ties(table, ts, order)
    return table if order is None else table.take(pa.array(order))


def _order_ties(table: pa.Table, ts: np.ndarray, order: np.ndarray | None) -> np.ndarray | None:
    """The permutation that sorts the table by time, sign and content, made of the one that has sorted it by time.

    `ts` are the sorted times. None stands for the order in which the rows are.
    """
    is_changed = order is not None
    order = np.arange(len(ts)) if order is None else order
    lows, highs = find_runs(_read_only(ts))
    all_signs = signs(table)
    leading = [OP] if all_signs.min() < all_signs.max() else []
    for name in [*leading, *(name for name in table.column_names if name not in (OP, TS))]:
        if not len(lows):
            break
        ranks = _rank_tied(table.column(name), order, lows, highs)
        lows, highs, has_moved = sort_runs(lows, highs, _read_only(ranks), order)
        is_changed |= has_moved
    return order if is_changed else None


def _rank_tied(column: pa.ChunkedArray, order: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """By row, integers in the order of the column's values; only for rows in the runs, if others cost anything."""
    if column.null_count == 0 and _is_integer(column.type):
        return _rank(column)
    steps = np.zeros(len(order) + 1, np.int8)
    steps[lows] += 1
    steps[highs] -= 1
    rows = order[np.cumsum(steps[:-1], dtype=np.int8).astype(bool)]
    ranks = np.empty(len(order), np.int64)
    ranks[rows] = _rank(column.take(pa.array(rows)))
    return ranks


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view like those of Arrow's columns: a kernel is compiled once for both."""
    view = array.view()
    view.flags.writeable = False
    return view


def content_order(table: pa.Table, leading: list[str]) -> np.ndarray:
    """The permutation that sorts by the leading columns, then by all others.

    NULLs come first; nested values and intervals are compared as text. -0.0 and 0.0 are equal, and so are all NaN,
    which are greater than all numbers; only what is equal in all columns goes by which of these it is.
    """
    names = leading + [name for name in table.column_names if name not in leading]
    floats = [name for name in names if pa.types.is_floating(table.schema.field(name).type)]
    ranks = [_rank(table.column(name)) for name in floats]
    ranks += [_rank(_as_equal(table.column(name))) for name in reversed(names)]
    return np.lexsort(ranks)


def _as_equal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with one value for those that are equal, where they are floats."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = column.cast(pa.float64())
    return pc.if_else(pc.is_nan(numbers), np.nan, pc.add(numbers, 0.0))


def _rank(column: pa.ChunkedArray) -> np.ndarray:
    """Integers in the order of the column's values."""
    values = column.combine_chunks()
    if values.null_count == 0 and _is_integer(values.type):
        return values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    if pa.types.is_floating(values.type):
        values = _sortable_bits(values)
    elif any(is_odd(values.type) for is_odd in (pa.types.is_nested, pa.types.is_dictionary, pa.types.is_interval)):
        values = pa.array([None if value is None else repr(value) for value in values.to_pylist()], pa.string())
    return pc.rank(values, [("", "ascending", "at_start")], tiebreaker="dense").to_numpy().astype(np.int64)


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
