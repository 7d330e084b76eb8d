"""The rows of a table that changes, with the batches that see each.

    batch             0     1     2     3
    tea   3.5         |===========|               _seen_from 0, _seen_until 2
    tea   3.8                     |=========      _seen_from 2, _seen_until NULL
    milk  1.2         |=====================      _seen_from 0, _seen_until NULL

Law: the rows that batch b sees are those of the version that it met, equally often.

What is the same in two versions stays as it is, with its number. Rows are compared by hash first and then by content,
so that a collision costs work and no answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import NEVER, SEEN_FROM, SEEN_ID, SEEN_UNTIL, int64_column
from sash.store.keys import hash_whole_rows, one_chunk

_OWN = (SEEN_FROM, SEEN_UNTIL, SEEN_ID)
_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def without_rows(schema: pa.Schema) -> pa.Table:
    """What no batch has seen anything of yet."""
    return pa.schema([*schema, *((name, pa.int64()) for name in _OWN)]).empty_table()


def meet_version(held: pa.Table, rows: pa.Table, batch: int) -> pa.Table:
    """What is held, and from a batch on a version with these rows."""
    rows = rows.replace_schema_metadata()
    is_open = _until(held) == NEVER
    closed, current = held.filter(pa.array(~is_open)), held.filter(pa.array(is_open))
    stays, is_known = _match(current.drop_columns(list(_OWN)), rows)
    added = rows.filter(pa.array(~is_known))
    first = int(int64_column(held, SEEN_ID).max(initial=-1)) + 1
    return pa.concat_tables(
        [
            closed,
            current.filter(pa.array(stays)),
            _with_until(current.filter(pa.array(~stays)), batch),
            _numbered(added, batch, first).cast(held.schema),
        ]
    ).combine_chunks()


def forget_before(held: pa.Table, batch: int) -> pa.Table:
    """What batches from this one on may see."""
    return held.filter(pa.array(_until(held) > batch))


def rows_seen_by(held: pa.Table, batch: int) -> pa.Table:
    """The version that a batch has met."""
    is_seen = (int64_column(held, SEEN_FROM) <= batch) & (batch < _until(held))
    return held.filter(pa.array(is_seen)).drop_columns(list(_OWN))


def _until(held: pa.Table) -> np.ndarray:
    return held.column(SEEN_UNTIL).fill_null(NEVER).to_numpy()


def _with_until(rows: pa.Table, batch: int) -> pa.Table:
    place = rows.schema.get_field_index(SEEN_UNTIL)
    return rows.set_column(place, SEEN_UNTIL, pa.array(np.full(rows.num_rows, batch, np.int64)))


def _numbered(rows: pa.Table, batch: int, first: int) -> pa.Table:
    n_rows = rows.num_rows
    rows = rows.append_column(SEEN_FROM, pa.array(np.full(n_rows, batch, np.int64)))
    rows = rows.append_column(SEEN_UNTIL, pa.nulls(n_rows, pa.int64()))
    return rows.append_column(SEEN_ID, pa.array(np.arange(first, first + n_rows, dtype=np.int64)))


def _match(old: pa.Table, new: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of either are in the other, too: as often as in both."""
    values, codes = np.unique(np.concatenate([hash_whole_rows(old), hash_whole_rows(new)]), return_inverse=True)
    sides = codes[: old.num_rows], codes[old.num_rows :]
    n_common = np.minimum(*(np.bincount(side, minlength=len(values)) for side in sides))
    places = [_first_of_each(side, n_common) for side in sides]
    if not _are_equal(old.take(pa.array(places[0])), new.take(pa.array(places[1]))):
        return np.zeros(old.num_rows, bool), np.zeros(new.num_rows, bool)
    found = np.zeros(old.num_rows, bool), np.zeros(new.num_rows, bool)
    for each, at in zip(found, places, strict=True):
        each[at] = True
    return found


def _first_of_each(codes: np.ndarray, n_each: np.ndarray) -> np.ndarray:
    """In order of codes, the places of the first so many of each."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    starts = np.searchsorted(sorted_codes, np.arange(len(n_each)))
    ranks = np.arange(len(codes)) - starts[sorted_codes]
    return order[ranks < n_each[sorted_codes]]


def _are_equal(left: pa.Table, right: pa.Table) -> bool:
    """To the bit: zeros have signs, and what is no number equals itself."""
    return all(_bits(one).equals(_bits(other)) for one, other in zip(left.columns, right.columns, strict=True))


def _bits(column: pa.ChunkedArray) -> pa.Array:
    values = one_chunk(column)
    return values.view(_BITS[values.type]) if values.type in _BITS else values
