"""The index by which a join of two finds its pairs, by its method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sash.cost.join_cost import EXACT_SETTINGS, HASH, PROBE, JoinMethod, exact_settings
from sash.index.circular_buckets import CircularBuckets
from sash.index.hash_index import HashIndex
from sash.index.join_index import LEFT
from sash.papers.exact.exact_index import ExactJoinIndex
from sash.store.window import Window

Index: TypeAlias = HashIndex | CircularBuckets | ExactJoinIndex


def make_index(method: JoinMethod, windows: Sequence[Window], has_identities: bool = False) -> Index:
    """What finds pairs by a method. Tuples that are taken back have to be found in the middle of a window, which is
    what buckets are for.
    """
    if method.algorithm == HASH and not has_identities:
        return HashIndex(windows)
    if method.algorithm in EXACT_SETTINGS:
        return ExactJoinIndex(windows, exact_settings(method))
    how = (None, PROBE) if method.algorithm == HASH else (method.n_buckets, method.invalidation)
    return CircularBuckets(windows, *how, windows[LEFT].arena)
