"""Which rows two tables have in common, each as often as both have it.

Rows are compared by hash first and then by content, to the bit: zeros have signs, and what is no number equals itself.
A collision of hashes costs work and no answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.keys import hash_whole_rows, one_chunk

_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}

Matched = tuple[np.ndarray, np.ndarray]
"""Of the rows of either table, which are in the other, too."""


def match_rows(old: pa.Table, new: pa.Table) -> Matched:
    """The first ones of equal rows are those that are in both; the tables have the same columns."""
    if not old.num_columns:
        return _match_codes(np.zeros(old.num_rows, np.int64), np.zeros(new.num_rows, np.int64))[0]
    hashes = np.concatenate([hash_whole_rows(old), hash_whole_rows(new)])
    codes = np.unique(hashes, return_inverse=True)[1]
    found, places = _match_codes(codes[: old.num_rows], codes[old.num_rows :])
    if _are_equal(old.take(pa.array(places[0])), new.take(pa.array(places[1]))):
        return found
    return _match_codes(*_content_codes(old, new))[0]


def _match_codes(old: np.ndarray, new: np.ndarray) -> tuple[Matched, Matched]:
    """By codes; which are in both, and in order of codes, where."""
    n_codes = 1 + int(max(old.max(initial=-1), new.max(initial=-1)))
    n_common = np.minimum(*(np.bincount(each, minlength=n_codes) for each in (old, new)))
    places = _first_of_each(old, n_common), _first_of_each(new, n_common)
    found = np.zeros(len(old), bool), np.zeros(len(new), bool)
    for each, at in zip(found, places, strict=True):
        each[at] = True
    return found, places


def _first_of_each(codes: np.ndarray, n_each: np.ndarray) -> np.ndarray:
    """In order of codes, the places of the first so many of each."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    starts = np.searchsorted(sorted_codes, np.arange(len(n_each)))
    ranks = np.arange(len(codes)) - starts[sorted_codes]
    return order[ranks < n_each[sorted_codes]]


def _content_codes(old: pa.Table, new: pa.Table) -> Matched:
    """Equal for equal rows alone, found without a hash of ours: for what collides."""
    known: dict[str, int] = {}
    codes = [
        np.array([known.setdefault(repr(row), len(known)) for row in _bit_rows(each)], np.int64) for each in (old, new)
    ]
    return codes[0], codes[1]


def _bit_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(_bits(column).to_pylist() for column in table.columns)))


def _are_equal(left: pa.Table, right: pa.Table) -> bool:
    return all(_bits(one).equals(_bits(other)) for one, other in zip(left.columns, right.columns, strict=True))


def _bits(column: pa.ChunkedArray) -> pa.Array:
    values = one_chunk(column)
    return values.view(_BITS[values.type]) if values.type in _BITS else values
