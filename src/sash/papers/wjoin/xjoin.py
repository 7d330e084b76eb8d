"""XJoin (Urhan and Franklin), adapted to windows as W-join §4.3 does for comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.wjoin.ripple_join import UPDATE_EVERY
from sash.papers.wjoin.window_pipeline import WindowPipeline
from sash.store.ordered_window import OrderedWindow


class XJoin(WindowPipeline):
    """A left-deep pipeline of symmetric hash joins: each tuple goes through one bucket of the other side.

    Adapted: a test of the period comes before the predicate, and tuples that are out are removed from all hash tables,
    but only after every `update_every` tuples of the input. In between, buckets hold stale tuples, which are tested
    too. The hash tables stay in memory, so of the original's three stages there is the first alone.
    """

    is_hashed = True

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        has_key: np.ndarray,
        reach: np.ndarray,
        update_every: int = UPDATE_EVERY,
        takes_turns: bool = False,
    ):
        super().__init__(windows, has_key, reach, update_every=update_every, takes_turns=takes_turns)
