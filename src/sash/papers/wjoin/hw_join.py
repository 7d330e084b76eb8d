"""HW-join, the hash window join (W-join §3.1.2)."""

from __future__ import annotations

from sash.papers.wjoin.window_pipeline import WindowPipeline


class HwJoin(WindowPipeline):
    """NLW-join with hash tables for buffers, on the keys that the sides of a node have in common.

    A tuple goes through one bucket of the opposite buffer and removes what is out there. Buckets that are rarely
    probed would keep old tuples, so an update routine visits them, and only them: those that no tuple has probed, nor
    the routine visited, for longer than the longest window of their tuples. The buckets of a buffer are listed by when
    they were visited last, so the routine looks at one bucket if there is nothing to do. No tuple that is out stays
    for more than two windows, if the streams on the other side go on, all in order of time. Where the sides of a node
    have no key in common, all tuples are in one bucket.
    """

    is_hashed = True
