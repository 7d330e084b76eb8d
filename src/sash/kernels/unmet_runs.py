"""The loop of EMIT FINAL behind outer joins: left tuples that leave, and when the last right tuple was there."""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Bools, Int64s
from sash.kernels.jit import borrowing_kernel


class MeetingEvents(NamedTuple):
    """In order of time; at one instant, what leaves on the left before what comes on the right."""

    keys: Int64s
    is_right: Bools
    bounds: Int64s
    """Since when a left tuple was there, or until when a right one will be."""


@borrowing_kernel
def follow(events: MeetingEvents, met_until: Int64s, is_unmet: Bools) -> None:
    """Says which left tuples have met none. `met_until`, by key, is when the last right tuple has left."""
    keys, is_right, bounds = events
    for event in range(keys.shape[0]):
        key = keys[event]
        if is_right[event]:
            met_until[key] = max(met_until[key], bounds[event])
        else:
            is_unmet[event] = met_until[key] <= bounds[event]
