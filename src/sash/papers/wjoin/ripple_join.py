"""The ripple join (Haas and Hellerstein), adapted to windows as W-join §4.3 does for comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.wjoin.window_pipeline import WindowPipeline
from sash.store.ordered_window import OrderedWindow

UPDATE_EVERY = 10_000


class RippleJoin(WindowPipeline):
    """A left-deep pipeline of binary ripple joins: each tuple goes through the whole stored prefix of the other side.

    Adapted: a test of the period comes before the predicate, and tuples that are out are removed from all buffers, but
    only after every `update_every` tuples of the input. In between, buffers hold stale tuples, which are scanned too.
    The sides take turns as tuples arrive, without the aspect ratios of the original, which serve its estimates.
    """

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        has_key: np.ndarray,
        reach: np.ndarray,
        update_every: int = UPDATE_EVERY,
        takes_turns: bool = False,
    ):
        super().__init__(windows, has_key, reach, update_every=update_every, takes_turns=takes_turns)
