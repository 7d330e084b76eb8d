"""Which tuples go together: those that were taken back, each with one that takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels.retraction_pairs import pair_off
from sash.store.batch import TS, concat, int64_column, signs
from sash.store.key_index import KeyIndex
from sash.store.keys import hash_rows, is_hashable, one_chunk

ReadRows: TypeAlias = Callable[[], Iterator[tuple[pa.Table, np.ndarray]]]
"""Signed tuples, with the number of each, some at a time; the same whenever it is called."""


def find_struck_out(read: ReadRows, content: pa.Schema, n_parts: int = 1) -> np.ndarray:
    """The numbers of all that take others back, and of as many that are taken back: they have the same `content`, and
    are the oldest that have it.

    In so many turns, each with a part of the tuples in memory.
    """
    hashed = [field.name for field in content if is_hashable(field.type)]
    n_parts = n_parts if hashed else 1
    found = [np.empty(0, np.int64)]
    for part in range(n_parts):
        tables, numbers = [], []
        for tuples, rows in read():
            if n_parts > 1 and len(rows):
                hashes = hash_rows([one_chunk(tuples.column(name)) for name in hashed])
                mine = np.flatnonzero(hashes % np.uint64(n_parts) == part)
                tuples, rows = tuples.take(pa.array(mine)), rows[mine]
            if len(rows):
                tables.append(tuples)
                numbers.append(rows)
        if tables:
            found.append(_pairs_in(concat(tables), content, np.concatenate(numbers)))
    return np.concatenate(found)


def _pairs_in(held: pa.Table, content: pa.Schema, rows: np.ndarray) -> np.ndarray:
    """Of tuples, with all that have the same content, the numbers of those that go."""
    alike, ops = KeyIndex(content).encode(held.select(content.names)), signs(held)
    retracted = np.bincount(alike[ops < 0], minlength=alike.max() + 1)
    goes = np.zeros(len(rows), np.bool_)
    pair_off(np.argsort(int64_column(held, TS), kind="stable"), alike, ops, retracted, goes)
    return rows[goes]
