"""Bounds of the times of pairs, as the conservative approaches of W-join §5.1 see them."""

from __future__ import annotations

import numpy as np

FARTHEST = 1 << 60
"""A reach that is longer than this is as good as none; a time-stamp plus this does not overflow."""


def bounded(reach: np.ndarray) -> np.ndarray:
    """The bounds as kernels take them."""
    return np.minimum(reach, FARTHEST).astype(np.int64)


def is_single_window(reach: np.ndarray) -> bool:
    """Whether all pairs have the same window, in both directions."""
    return bool(np.all(_between_streams(reach) == widest(reach)))


def widest(reach: np.ndarray) -> int:
    return int(_between_streams(reach).max())


def local_windows(reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far tuples of other streams may lie ahead of a tuple of each stream at most, and how far behind it."""
    others = np.where(np.eye(len(reach), dtype=np.bool_), 0, reach)
    return others.max(axis=1), others.max(axis=0)


def _between_streams(reach: np.ndarray) -> np.ndarray:
    return reach[~np.eye(len(reach), dtype=np.bool_)]
