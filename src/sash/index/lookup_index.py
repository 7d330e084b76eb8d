"""Rows of a table that does not change, by key.

    keys    7  4  7  9        ids of keys    7: 0   4: 1   9: 2
    rows    0  1  2  3        in their order  [0  2 | 1 | 3]          looking up 7 gives rows 0 and 2

It is made once, and looking up changes nothing in it. So it is no state: many partition groups may share it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sash.index import join_index
from sash.store.key_index import KeyIndex

_KEY = pa.schema([("key", pa.int64())])


class LookupIndex:
    """Rows 0, 1, 2 … with these keys."""

    def __init__(self, keys: np.ndarray):
        self._ids = KeyIndex(_KEY)
        ids = self._ids.encode(_column_of(keys))
        self._rows = np.argsort(ids, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=self._ids.n_ids))])
        """By id, where its rows begin; they end where those of the next one begin."""

    def find(self, keys: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (place among the keys, row) with equal keys, in order of both, in chunks."""
        ids = self._ids.find(_column_of(keys))
        places = np.flatnonzero(ids >= 0)
        firsts, lasts = self._starts[ids[places]], self._starts[ids[places] + 1]
        ends = np.cumsum(lasts - firsts)
        start = 0
        while start < len(places):
            n_before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, n_before + join_index.PAIRS_PER_CHUNK, side="right")))
            chunk = slice(start, stop)
            n_each = lasts[chunk] - firsts[chunk]
            shift = np.repeat(firsts[chunk] - (ends[chunk] - n_each), n_each)
            yield np.repeat(places[chunk], n_each), self._rows[np.arange(n_before, ends[stop - 1]) + shift]
            start = stop


def _column_of(keys: np.ndarray) -> pa.Table:
    return pa.table([pa.array(keys)], schema=_KEY)
