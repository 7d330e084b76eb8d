"""What a left-deep pipeline of window joins is given, and what of it outlives a call of its kernel."""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Bools, Int64s


class Arrivals(NamedTuple):
    """Tuples in an order in which those of each stream are in order of time."""

    streams: Int64s
    rows: Int64s
    ts: Int64s
    keys: Int64s


class PipelineShape(NamedTuple):
    """What does not change while a join runs."""

    reach: Int64s
    refined: Int64s
    """The bounds that combinations have to keep in the end, for a filter with wider ones; else no lines."""
    has_key: Bools
    node_keys: Bools
    """Which keys each node compares."""
    spans: Int64s
    """How much later than a tuple of each buffer one from the other side may come that joins it, at most."""
    is_hashed: bool
    update_every: int
    """0: buffers are updated as they are scanned; else only after so many arrivals."""


class ScansUnderWay(NamedTuple):
    """What outlives a call: the newest time-stamp of each stream, the stack of scans, and the state."""

    newest: Int64s
    stack: Int64s
    state: Int64s
