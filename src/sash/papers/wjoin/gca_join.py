"""The global conservative approach to pairs with windows of their own (W-join §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sash.index.multiway_index import MultiwayIndex
from sash.papers.wjoin.hw_join import HwJoin
from sash.papers.wjoin.mw_join import MwJoin
from sash.papers.wjoin.nlw_join import NlwJoin
from sash.papers.wjoin.pair_bounds import is_single_window, widest
from sash.store.ordered_window import OrderedWindow

INNER: dict[str, Callable[..., MultiwayIndex]] = {"nlw": NlwJoin, "hw": HwJoin, "mw": MwJoin}
"""What can find the candidates."""


def gca_join(
    windows: Sequence[OrderedWindow], has_key: np.ndarray, reach: np.ndarray, inner: str = "mw"
) -> MultiwayIndex:
    """Filter and refine: an algorithm for one window is given the longest of all; each combination that it finds is
    then checked against the windows of all its pairs. Each of these n * (n - 1) / 2 looks is a comparison.

    With one window for all pairs there is nothing to refine, and this is the inner algorithm.
    """
    if is_single_window(reach):
        return INNER[inner](windows, has_key, reach)
    return INNER[inner](windows, has_key, np.full_like(reach, widest(reach)), refined=reach)
