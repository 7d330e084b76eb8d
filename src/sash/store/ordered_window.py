"""The tuples of one input of a join of many, in order of time, while a tuple that is still to come can join them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.store.batch import EXPIRES, TS, int64_column
from sash.store.block_log import Block
from sash.store.block_window import FIRST_ROWS, BlockWindow
from sash.store.keys import encode_keys
from sash.store.vector import Home, Vector


class OrderedWindow(BlockWindow):
    """Tuples of one input, inserted in order of `_ts`. They are dead once the clock has passed their `_ts`: whoever
    evicts says which clock that is.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[tuple[str, ...]], span_us: int, home: Home | None = None):
        """`keys` are the columns of each key of a tuple, () where there is none; `span_us` how long tuples are held."""
        super().__init__(schema, span_us, home, end=TS)
        self._key_columns = tuple(keys)
        self._ts = Vector(np.int64, self.home, capacity=FIRST_ROWS)
        self._expires = Vector(np.int64, self.home, capacity=FIRST_ROWS)
        self._keys = Vector(np.int64, self.home, max(1, len(keys)), FIRST_ROWS)
        self._links = Vector(np.int64, self.home, max(1, len(keys)), FIRST_ROWS)

    @property
    def ts(self) -> np.ndarray:
        """When tuples came, from `base` on; never less than the one before."""
        return self._ts.array

    @property
    def expires(self) -> np.ndarray:
        """When tuples leave their window, from `base` on."""
        return self._expires.array

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows from `base` on, side by side; 0 where there is none."""
        return self._keys.array

    @property
    def links(self) -> np.ndarray:
        """Room beside each key for whoever chains rows, from `base` on."""
        return self._links.array

    def first_since(self, time: int) -> int:
        """The first row that is not gone and not older than a time."""
        at = self.floor - self.base
        return self.floor + int(np.searchsorted(self.ts[at : self.next_row - self.base], time))

    def _vectors(self) -> list[Vector]:
        return [self._ts, self._expires, self._keys, self._links]

    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
        self._ts.write(at, int64_column(tuples, TS))
        self._expires.write(at, int64_column(tuples, EXPIRES))
        self._links.reserve(at + block.n_rows)
        self._keys.reserve(at + block.n_rows)
        keys = self._keys.array[at : at + block.n_rows]
        for number, columns in enumerate(self._key_columns):
            keys[:, number] = encode_keys(tuples, columns) if columns else 0
