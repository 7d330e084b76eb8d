"""Runs: what happens to one key at one instant, in a list of events ordered by time and key."""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Int8s, Int64s
from sash.kernels.jit import kernel


class EventRuns(NamedTuple):
    """Run r holds the events `starts[r]..starts[r + 1]` of the key `ids[r]`; an event enters (+1) or leaves (-1)."""

    starts: Int64s
    ids: Int64s
    signs: Int8s


@kernel
def count_members(runs: EventRuns, sizes: Int64s, before: Int64s, after: Int64s) -> None:
    """Adds up signs: how many members each run's key had before it and has after it."""
    starts, ids, signs = runs
    for run in range(ids.shape[0]):
        size = sizes[ids[run]]
        before[run] = size
        for event in range(starts[run], starts[run + 1]):
            size += signs[event]
        sizes[ids[run]] = size
        after[run] = size
