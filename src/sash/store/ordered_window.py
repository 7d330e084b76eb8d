"""The tuples of one input of a join of many, in order of time, while a tuple that is still to come can join them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.kernels.probes import EXPIRY, LINKS, TIME
from sash.store.batch import EXPIRES, TS, int64_column
from sash.store.block import Block
from sash.store.block_window import FIRST_ROWS, BlockWindow
from sash.store.keys import encode_keys
from sash.store.vector import Arena, Vector


class OrderedWindow(BlockWindow):
    """Tuples of one input, inserted in order of `_ts`. They are dead once the clock has passed their `_ts`: whoever
    evicts says which clock that is.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[tuple[str, ...]], span_us: int, arena: Arena | None = None):
        """`keys` are the columns of each key of a tuple, () where there is none; `span_us` how long tuples are held."""
        super().__init__(schema, span_us, arena, end=TS)
        self._key_columns = tuple(keys)
        self._ts = Vector(np.int64, self.arena, capacity=FIRST_ROWS)
        self._keys = Vector(np.int64, self.arena, max(1, len(keys)), FIRST_ROWS)
        self._records = Vector(np.int64, self.arena, LINKS + max(1, len(keys)), FIRST_ROWS)

    @property
    def ts(self) -> np.ndarray:
        """When tuples came, from `base` on; never less than the one before."""
        return self._ts.array

    @property
    def expires(self) -> np.ndarray:
        """When tuples leave their window, from `base` on."""
        return self._records.array[:, EXPIRY]

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows from `base` on, side by side; 0 where there is none."""
        return self._keys.array

    @property
    def records(self) -> np.ndarray:
        """What is looked at of a row as one follows a chain, side by side: its life, and for each key room for the row
        that is next; from `base` on.
        """
        return self._records.array

    def first_since(self, time: int) -> int:
        """The first row that is not gone and not older than a time."""
        at = self.floor - self.base
        return self.floor + int(np.searchsorted(self.ts[at : self.next_row - self.base], time))

    def _vectors(self) -> list[Vector]:
        return [self._ts, self._keys, self._records]

    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
        self._ts.write(at, int64_column(tuples, TS))
        self._keys.reserve(at + block.n_rows)
        self._records.reserve(at + block.n_rows)
        records = self._records.array[at : at + block.n_rows]
        records[:, TIME] = int64_column(tuples, TS)
        records[:, EXPIRY] = int64_column(tuples, EXPIRES)
        keys = self._keys.array[at : at + block.n_rows]
        for number, columns in enumerate(self._key_columns):
            keys[:, number] = encode_keys(tuples, columns) if columns else 0
