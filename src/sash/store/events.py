"""What happens to the keys of an operator's tuples, instant by instant."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa


class Events:
    """What happens, in order of time, then id; of one id at one instant, what enters comes before what leaves.

    A *run* is what happens to one id at one instant.
    """

    def __init__(self, parts: list[pa.Table], times: np.ndarray, ids: np.ndarray, signs: np.ndarray):
        self._parts = parts
        self._order = _order_of(times, ids, signs)
        self.times, self.ids, self.signs = (
            (times, ids, signs) if self._order is None else (each[self._order] for each in (times, ids, signs))
        )

    def __len__(self) -> int:
        return len(self.times)

    def column(self, name: str) -> pa.Array:
        """A column of the tuples that events happen to."""
        chunks = [chunk for part in self._parts for chunk in part.column(name).chunks]
        array = pa.concat_arrays(chunks) if chunks else pa.array([], self._parts[0].schema.field(name).type)
        return array if self._order is None else array.take(pa.array(self._order))

    def int64(self, name: str) -> np.ndarray:
        """An integer column without NULLs."""
        return self.column(name).to_numpy(zero_copy_only=False)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where runs begin, and where the last one ends."""
        if not len(self):
            return np.zeros(1, np.int64)
        is_new = (self.times[1:] != self.times[:-1]) | (self.ids[1:] != self.ids[:-1])
        return np.concatenate([[0], np.flatnonzero(is_new) + 1, [len(self)]])

    @cached_property
    def run_times(self) -> np.ndarray:
        return self.times[self.starts[:-1]]

    @cached_property
    def run_ids(self) -> np.ndarray:
        return self.ids[self.starts[:-1]]


def _order_of(times: np.ndarray, ids: np.ndarray, signs: np.ndarray) -> np.ndarray | None:
    """The order of events; None if they stand in it."""
    if len(times) < 2 or np.all(times[1:] > times[:-1]):
        return None
    return np.lexsort((-signs, ids, times))
