"""Tuples that are about to come into a window, under the numbers that they would have if they came now.

They look for partners that are on disk while they are not there yet. Whoever forms pairs reads them as it reads rows of
the window, which knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from sash.store.batch import EXPIRES, TS, int64_column


class ExpectedRows:
    """Rows from `first` on."""

    def __init__(self, tuples: pa.Table, first: int, label: Callable[[pa.Table], np.ndarray] | None = None):
        """`label` says who wants each of them, in a window whose rows are labelled."""
        self._tuples = tuples.combine_chunks()
        self._label = label
        self.first = first
        self.ts, self.ends = (int64_column(self._tuples, name) for name in (TS, EXPIRES))

    def take(self, rows: np.ndarray, names: list[str]) -> pa.Table:
        """A copy of columns of the given rows."""
        return self._tuples.select(names).take(pa.array(rows - self.first))

    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_ts`, `_expires` and end of the given rows: none of them has been taken back."""
        expires = self.ends[rows - self.first]
        return self.ts_of(rows), expires, expires

    def ts_of(self, rows: np.ndarray) -> np.ndarray:
        """When the given rows come."""
        return self.ts[rows - self.first]

    def labels_of(self, rows: np.ndarray) -> np.ndarray:
        """The labels of the given rows."""
        return self._labels[rows - self.first]

    @cached_property
    def _labels(self) -> np.ndarray:
        assert self._label is not None
        return self._label(self._tuples)
