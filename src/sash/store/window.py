"""The tuples of one input of a join while they can still join, and the arrays that indexes over them work with.

A tuple is dead once its end has passed the clock: no tuple that can still arrive overlaps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels.hash_join import END, NEXT, RECORD_WIDTH
from sash.kernels.hash_join import EXPIRES as EXPIRY
from sash.kernels.hash_join import TS as TIME
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, TS, int64_column
from sash.store.block_log import Block
from sash.store.block_window import FIRST_ROWS, BlockWindow
from sash.store.vector import Arena, Vector

KeyOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The 64-bit key of every tuple of a batch. Called again on the same tuples when the arrays are rebuilt."""


class Window(BlockWindow):
    """Tuples of one input, with a key each."""

    def __init__(self, schema: pa.Schema, key_of: KeyOf, window_us: int | None, arena: Arena | None = None):
        """`window_us` is the longest life of a tuple if there is one."""
        super().__init__(schema, window_us, arena)
        self._key_of = key_of
        self._id_columns = [name for name in schema.names if name.startswith(ID_PREFIX)]
        self._keys = Vector(np.int64, self.arena, capacity=FIRST_ROWS)
        self._records = Vector(np.int64, self.arena, RECORD_WIDTH, FIRST_ROWS)
        self._ids = Vector(np.int64, self.arena, len(self._id_columns)) if self._id_columns else None

    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_ts`, `_expires` and end of the given rows."""
        at = rows - self.base
        return self.ts[at], self.records[at, EXPIRY], self.ends[at]

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows from `base` on."""
        return self._keys.array

    @property
    def records(self) -> np.ndarray:
        """What is looked at of a row to join it, side by side; from `base` on."""
        return self._records.array

    @property
    def ts(self) -> np.ndarray:
        """When tuples come, from `base` on."""
        return self.records[:, TIME]

    @property
    def ends(self) -> np.ndarray:
        """When tuples leave: at their `_expires`, or when they were taken back; from `base` on."""
        return self.records[:, END]

    @property
    def ids(self) -> np.ndarray | None:
        """The identities of the rows from `base` on, if they have some."""
        return None if self._ids is None else self._ids.array

    def ids_of(self, batch: pa.Table) -> np.ndarray:
        """The identities of a batch's tuples."""
        ids = np.empty((batch.num_rows, len(self._id_columns)), np.int64)
        for column, name in enumerate(self._id_columns):
            ids[:, column] = int64_column(batch, name)
        return ids

    def _vectors(self) -> list[Vector]:
        return [self._keys, self._records, *([] if self._ids is None else [self._ids])]

    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
        expires = int64_column(tuples, EXPIRES)
        self._keys.write(at, self._key_of(tuples))
        self._records.reserve(at + block.n_rows)
        records = self._records.array[at : at + block.n_rows]
        records[:, NEXT] = -1
        records[:, TIME] = int64_column(tuples, TS)
        records[:, EXPIRY] = expires
        records[:, END] = np.where(self.log.is_dead(block), BEGINNING, expires) if block.n_dead else expires
        if self._ids is not None:
            self._ids.write(at, self.ids_of(tuples))
