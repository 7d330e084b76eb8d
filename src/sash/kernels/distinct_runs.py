"""The loop of W-DISTINCT: which of several equal tuples stands for all of them (Pipelines, Alg. 4.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int8s, Int64s
from sash.kernels.event_runs import EventRuns
from sash.kernels.jit import kernel
from sash.kernels.treaps import Treaps, insert, kth, multiplicity, remove, size

NOTHING = np.iinfo(np.int64).min
"""Is shown for a key that has no tuple."""


class ShownChanges(NamedTuple):
    """Room for changes: in which run, when the tuple that is shown expires, and whether it comes or goes."""

    run: Int64s
    expires: Int64s
    sign: Int8s


@kernel
def enter(ids: Int64s, expires: Int64s, treaps: Treaps) -> None:
    """Lets tuples of keys come, in the middle of an instant: nothing is shown of it yet."""
    roots, nodes, pool, words = treaps
    for event in range(ids.shape[0]):
        insert(ids[event], expires[event], roots, nodes, pool, words)


@kernel
def follow(runs: EventRuns, expires: Int64s, shown: Int64s, treaps: Treaps, out: ShownChanges) -> int:
    """Lets tuples of keys come and go; returns how many changes there are of what is shown.

    The multiset of a key holds when its tuples expire. What is shown stays until the last tuple that expires with it
    has gone; it is followed by the tuple that expires last. A run makes two changes at most; nothing need happen in it.
    """
    (starts, ids, signs), (roots, nodes, pool, words) = runs, treaps
    out_run, out_expires, out_sign = out
    n_out = 0
    for run in range(ids.shape[0]):
        key = ids[run]
        # 1. All of an instant happens before anything is shown of it.
        for event in range(starts[run], starts[run + 1]):
            if signs[event] > 0:
                insert(key, expires[event], roots, nodes, pool, words)
            else:
                remove(key, expires[event], roots, nodes, pool, words)
        # 2. What is shown goes when no equal tuple that expires with it is left, and not before.
        if shown[key] != NOTHING and multiplicity(key, shown[key], roots, nodes, words) == 0:
            out_run[n_out], out_expires[n_out], out_sign[n_out] = run, shown[key], -1
            shown[key] = NOTHING
            n_out += 1
        # 3. The one that expires last can be shown longest.
        n_left = size(key, roots, nodes)
        if shown[key] == NOTHING and n_left:
            shown[key] = kth(key, n_left - 1, roots, nodes)
            out_run[n_out], out_expires[n_out], out_sign[n_out] = run, shown[key], 1
            n_out += 1
    return n_out
