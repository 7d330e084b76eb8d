"""MW-join, the merge window join (W-join §3.2, Fig. 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.wjoin.pair_bounds import bounded, is_single_window, widest
from sash.papers.wjoin.window_merge import WindowMerge
from sash.store.ordered_window import OrderedWindow


class MwJoin(WindowMerge):
    """Finds periods in which all streams have tuples, and joins what lies in them by nested loops.

    There must be one window w for all pairs. All buffered tuples are in [TSmin, TSmin + w] then, within the window of
    one another, so the nested loops test the predicate alone. They test each key as soon as two members have it.
    """

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        has_key: np.ndarray,
        reach: np.ndarray,
        refined: np.ndarray | None = None,
    ):
        assert is_single_window(reach), "MW-join has one window"
        width = np.full(len(windows), widest(bounded(reach)))
        super().__init__(windows, has_key, width, width, refined)
