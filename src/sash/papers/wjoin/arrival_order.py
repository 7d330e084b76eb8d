"""The new tuples of several windows in one order: by time-stamp, and by window where these are equal, or by turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.wjoin.pipeline_shape import Arrivals
from sash.store.ordered_window import OrderedWindow


def merge_arrivals(
    windows: Sequence[OrderedWindow], firsts: Sequence[int], n_keys: int, takes_turns: bool = False
) -> Arrivals:
    """The rows of each window from `firsts` on, with copies of their time-stamps and keys.

    By turns it is one row of each window, then another one of each, whatever their times; a window that has none left
    is passed over.
    """
    counts = [max(0, window.next_row - first) for window, first in zip(windows, firsts)]
    streams = np.repeat(np.arange(len(windows)), counts)
    rows = np.concatenate([first + np.arange(count) for first, count in zip(firsts, counts)]).astype(np.int64)
    spans = [slice(first - window.base, window.next_row - window.base) for window, first in zip(windows, firsts)]
    ts = np.concatenate([window.ts[span] for window, span in zip(windows, spans)])
    keys = np.concatenate([window.keys[span, :n_keys] for window, span in zip(windows, spans)])
    turns = np.concatenate([np.arange(count) for count in counts])
    order = np.lexsort((streams, turns if takes_turns else ts))
    return Arrivals(streams[order], rows[order], ts[order], np.ascontiguousarray(keys[order]))
