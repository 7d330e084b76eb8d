"""The arrays of a shared window join, and how they change when a window comes or goes (Shared §3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.shared.max_query_throughput import throughput_matrix
from sash.papers.shared.shared_line import NOBODY, Board, SharedLine


def new_line(n_rows: int) -> SharedLine:
    """Room for so many tuples."""
    return SharedLine(*(np.empty((n_rows, width), np.int64) for width in (4, 4, 2)))


def new_board(windows_us: Sequence[int], n_queries: Sequence[int], n_scanned: int = 0) -> Board:
    """Nobody waits: as many tuples as have come have scanned all windows."""
    n_windows = len(windows_us)
    return Board(
        np.array(windows_us, np.int64),
        np.full(n_windows + 1, n_scanned),
        np.full(n_windows, n_scanned),
        throughput_matrix(windows_us, n_queries),
        np.full(n_windows, NOBODY, np.int64),
        np.zeros((n_windows, 3)),
    )


def insert_window(old: Board, place: int, window_us: int, n_queries: Sequence[int], since: int) -> Board:
    """With one more window, for which whoever has scanned the next larger one need not scan, nor who has scanned all.

    It gets the output of the tuples from the arrival number `since` on.
    """
    windows_us = np.insert(old.windows_us, place, window_us)
    n_scanned = old.scanned[min(place + 1, len(old.scanned) - 1)]
    return Board(
        windows_us,
        np.insert(old.scanned, place + 1, n_scanned),
        np.insert(old.since, place, since),
        throughput_matrix(windows_us, n_queries),
        np.insert(old.reached, place, NOBODY),
        np.insert(old.responses, place, 0, axis=0),
    )


def remove_window(old: Board, place: int, n_queries: Sequence[int]) -> Board:
    """Without a window, of several."""
    windows_us = np.delete(old.windows_us, place)
    return Board(
        windows_us,
        np.delete(old.scanned, place + 1),
        np.delete(old.since, place),
        throughput_matrix(windows_us, n_queries),
        np.delete(old.reached, place),
        np.delete(old.responses, place, axis=0),
    )
