"""How often tuples of different windows have equal keys, by the newest of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sash.store.ordered_window import OrderedWindow

N_SAMPLED = 2048
"""So many tuples of each window are looked at, the newest."""


def key_matches(windows: Sequence[OrderedWindow], has_key: np.ndarray) -> tuple[float, ...]:
    """For each key the chance that two tuples of different windows have the same; in the mean of all pairs of windows
    that have it. Where samples have none in common, as if one more pair had been one.
    """
    return tuple(_match(windows, has_key[:, key], key) for key in range(has_key.shape[1]))


def _match(windows: Sequence[OrderedWindow], has_key: np.ndarray, key: int) -> float:
    samples = [_newest_keys(window, key) for window, has in zip(windows, has_key) if has]
    counted = [np.unique(sample, return_counts=True) for sample in samples if len(sample)]
    shares = [_share_equal(*one, *other) for one, other in combinations(counted, 2)]
    return min(1.0, float(np.mean(shares))) if shares else 1.0


def _newest_keys(window: OrderedWindow, key: int) -> np.ndarray:
    end = window.next_row - window.base
    return window.keys[max(0, window.floor - window.base, end - N_SAMPLED) : end, key]


def _share_equal(one: np.ndarray, n_one: np.ndarray, other: np.ndarray, n_other: np.ndarray) -> float:
    _, here, there = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    n_pairs = int(n_one.sum()) * int(n_other.sum())
    return max(1.0, float(np.dot(n_one[here], n_other[there]))) / n_pairs
