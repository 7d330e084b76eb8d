"""The loop of W-DISTINCT: which of several equal tuples stands for all of them (Pipelines, Alg. 4.1)."""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from sash.kernels.jit import kernel
from sash.kernels.treaps import insert, kth, multiplicity, remove, size

NOTHING = np.iinfo(np.int64).min
"""Is shown for a key that has no tuple."""


@kernel
def follow(
    starts: ndarray, ids: ndarray, signs: ndarray, expires: ndarray, shown: ndarray, roots: ndarray, nodes: ndarray,
    pool: ndarray, words: tuple[ndarray, ndarray], out_run: ndarray, out_expires: ndarray, out_sign: ndarray,
) -> int:  # fmt: skip
    """Lets tuples of keys come and go; returns how many changes there are of what is shown.

    The multiset of a key holds when its tuples expire. What is shown stays until the last tuple that expires with it
    has gone; it is followed by the tuple that expires last. A run makes two changes at most.
    """
    n_out = 0
    for run in range(ids.shape[0]):
        key = ids[run]
        for event in range(starts[run], starts[run + 1]):
            if signs[event] > 0:
                insert(key, expires[event], roots, nodes, pool, words)
            else:
                remove(key, expires[event], roots, nodes, pool, words)
        if shown[key] != NOTHING and multiplicity(key, shown[key], roots, nodes, words) == 0:
            out_run[n_out], out_expires[n_out], out_sign[n_out] = run, shown[key], -1
            shown[key] = NOTHING
            n_out += 1
        n_left = size(key, roots, nodes)
        if shown[key] == NOTHING and n_left:
            shown[key] = kth(key, n_left - 1, roots, nodes)
            out_run[n_out], out_expires[n_out], out_sign[n_out] = run, shown[key], 1
            n_out += 1
    return n_out
