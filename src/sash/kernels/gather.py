"""Copying the values of some rows."""

from __future__ import annotations

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.jit import kernel


@kernel
def gather_words(words: Int64s, rows: Int64s, base: int) -> Int64s:
    """The 64-bit values of the given rows, of which `base` is the first."""
    gathered = np.empty(rows.shape[0], np.int64)
    for k in range(rows.shape[0]):
        gathered[k] = words[rows[k] - base]
    return gathered
