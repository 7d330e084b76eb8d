"""The local conservative approach to pairs with windows of their own (W-join §5.1, Fig. 10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.wjoin.pair_bounds import bounded, is_single_window, local_windows
from sash.papers.wjoin.window_merge import WindowMerge
from sash.store.ordered_window import OrderedWindow


class LcaJoin(WindowMerge):
    """MW-join where the window around a tuple is the longest that its stream takes part in, in each direction.

    Two heads of the starting N_tuple are each in the window of the other. The period is the intersection of the windows
    of all heads; the head whose window ends first is the one to drop after Mode 2, not always the oldest. Buffers so
    keep tuples of a stream for the stream's own longest window, not that of all. Every N_tuple of the nested loops is
    checked against the windows of all its pairs, the refine step, unless there is one window for all.
    """

    def __init__(self, windows: Sequence[OrderedWindow], has_key: np.ndarray, reach: np.ndarray):
        refined = None if is_single_window(reach) else reach
        super().__init__(windows, has_key, *local_windows(bounded(reach)), refined)
