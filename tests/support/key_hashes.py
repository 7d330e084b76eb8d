"""The hashes by which keys are ordered in segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.hashing import mix64


def hash_keys(keys: np.ndarray) -> np.ndarray:
    """Of each key."""
    mix: Any = getattr(mix64, "py_func", mix64)
    return mix(keys.astype(np.uint64))
