"""Rows of a table that does not change, by key.

    keys    7  4  7  9        ids of keys    7: 0   4: 1   9: 2
    rows    0  1  2  3        in their order  [0  2 | 1 | 3]          looking up 7 gives rows 0 and 2

Rows may have a span of time each, in which alone they are found. Those of a key lie in order of their beginnings then:

    begins     1  4  6  9
    ends       3  9  8  20      at 7, the first three have begun, and of these only the second and third may last, as
    last end   3  9  9  20      until the first of them nothing lasts that long

It is made once, and looking up changes nothing in it. So it is no state: many partition groups may share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.index import join_index
from sash.store.key_index import KeyIndex

_KEY = pa.schema([("key", pa.int64())])


class Spans(NamedTuple):
    """By row, from when on and until before when it is found."""

    begins: np.ndarray
    ends: np.ndarray


class LookupIndex:
    """Rows 0, 1, 2 … with these keys, and with spans of time if they have any."""

    def __init__(self, keys: np.ndarray, spans: Spans | None = None):
        self._ids = KeyIndex(_KEY)
        ids = self._ids.encode(_column_of(keys))
        self._rows = np.argsort(ids, kind="stable") if spans is None else np.lexsort((spans.begins, ids))
        self._spans = None if spans is None else Spans(*(each[self._rows] for each in spans))
        """In the order of rows."""
        self._last_ends = None if spans is None else _running_maxima(ids[self._rows], spans.ends[self._rows])
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=self._ids.n_ids))])
        """By id, where its rows begin; they end where those of the next one begin."""

    def find(self, keys: np.ndarray, times: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (place among the keys, row) with equal keys, in order of places, in chunks.

        Rows with spans are found at the times that are given, one for each key.
        """
        ids = self._ids.find(_column_of(keys))
        places = np.flatnonzero(ids >= 0)
        firsts, lasts = self._starts[ids[places]], self._starts[ids[places] + 1]
        if times is None or self._spans is None:
            yield from ((at, self._rows[found]) for at, found in _stretches(places, firsts, lasts))
            return
        assert self._last_ends is not None
        lasts = _after(self._spans.begins, firsts, lasts, times[places])
        firsts = _after(self._last_ends, firsts, lasts, times[places])
        for at, found in _stretches(places, firsts, lasts):
            is_there = self._spans.ends[found] > times[at]
            yield at[is_there], self._rows[found[is_there]]


def _stretches(places: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each place with what lies between its first and its last, in chunks."""
    ends = np.cumsum(lasts - firsts)
    start = 0
    while start < len(places):
        n_before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, n_before + join_index.PAIRS_PER_CHUNK, side="right")))
        chunk = slice(start, stop)
        n_each = lasts[chunk] - firsts[chunk]
        shift = np.repeat(firsts[chunk] - (ends[chunk] - n_each), n_each)
        yield np.repeat(places[chunk], n_each), np.arange(n_before, ends[stop - 1]) + shift
        start = stop


def _running_maxima(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest value so far of those with the same id, which lie together."""
    ranks = np.empty(len(values), np.int64)
    order = np.argsort(values, kind="stable")
    ranks[order] = np.arange(len(values))
    # Ids grow, so that the ranks of one are above all of those before it.
    highest = np.maximum.accumulate(ranks + ids.astype(np.int64) * len(values))
    return values[order][highest - ids.astype(np.int64) * len(values)]


def _after(values: np.ndarray, firsts: np.ndarray, lasts: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """In each stretch of growing values, the place of the first one above its bound; its end if there is none."""
    low, high = firsts.copy(), lasts.copy()
    while np.any(is_open := low < high):
        middle = (low + high) // 2
        is_above = values[np.minimum(middle, len(values) - 1)] > bounds
        high = np.where(is_open & is_above, middle, high)
        low = np.where(is_open & ~is_above, middle + 1, low)
    return low


def _column_of(keys: np.ndarray) -> pa.Table:
    return pa.table([pa.array(keys)], schema=_KEY)
