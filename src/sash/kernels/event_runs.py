"""Runs: what happens to one key at one instant, in a list of events ordered by time and key."""

from __future__ import annotations

from numpy import ndarray

from sash.kernels.jit import kernel


@kernel
def count_members(
    starts: ndarray, ids: ndarray, signs: ndarray, sizes: ndarray, before: ndarray, after: ndarray,
) -> None:  # fmt: skip
    """Adds up signs: how many members each run's key had before it and has after it."""
    for run in range(ids.shape[0]):
        size = sizes[ids[run]]
        before[run] = size
        for event in range(starts[run], starts[run + 1]):
            size += signs[event]
        sizes[ids[run]] = size
        after[run] = size
