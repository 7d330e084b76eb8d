"""A window whose tuples are labelled: bits that say of each one who wants it.

Labels are no state. They follow from the rows, and are worked out again whenever the arrays are rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.store.block import Block
from sash.store.block_window import FIRST_ROWS
from sash.store.expected_rows import ExpectedRows
from sash.store.vector import Arena, Vector
from sash.store.window import KeyOf, Window

BITS = 64
LabelsOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The labels of every tuple of a batch, as a row of words of `BITS` bits."""


class LabelledWindow(Window):
    """Tuples of one input, with a key and `n_words` words of labels each."""

    def __init__(
        self,
        schema: pa.Schema,
        key_of: KeyOf,
        label: LabelsOf,
        n_words: int,
        window_us: int | None,
        arena: Arena,
        may_seal: bool = False,
    ):
        super().__init__(schema, key_of, window_us, arena, may_seal)
        self._label = label
        self._labels = Vector(np.uint64, self.arena, n_words, FIRST_ROWS)

    def expected(self, tuples: pa.Table) -> ExpectedRows:
        return ExpectedRows(tuples, self.next_row, self._label)

    @property
    def labels(self) -> np.ndarray:
        """The labels of the rows from `base` on."""
        return self._labels.array

    def labels_of(self, rows: np.ndarray) -> np.ndarray:
        """The labels of the given rows, wherever they are."""
        at = rows - self.base
        if self.are_in_memory(rows):
            return self.labels[at]
        labels = np.empty((len(rows), self.labels.shape[1]), np.uint64)
        for segment, mine in self.log.by_segment(rows):
            labels[mine] = segment.labels(rows[mine])
        labels[at >= 0] = self.labels[at[at >= 0]]
        return labels

    def _labels_at(self, at: np.ndarray) -> np.ndarray | None:
        return self.labels[at]

    def _vectors(self) -> list[Vector]:
        return [*super()._vectors(), self._labels]

    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
        super()._write(at, block, tuples)
        self._labels.write(at, self._label(tuples))


def count_words(n_labels: int) -> int:
    """How many words hold so many labels; there is at least one."""
    return max(1, -(-n_labels // BITS))
