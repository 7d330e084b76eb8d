"""Combinations in a join of many streams that all have one key, and nothing else to satisfy but their windows.

What an arriving tuple meets in each window follows from its key and its time alone, so it is looked up once; all that
it meets is then put together. The combinations come in order of time, and those of one tuple by the rows of the first
window, then of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.index import multiway_index
from sash.index.key_tables import KeyTables
from sash.index.multiway_index import Combinations
from sash.kernels import key_combinations
from sash.kernels.key_combinations import Arrived, Chains, CombinationRoom, Meetings, Seekers
from sash.store.ordered_window import OrderedWindow

KEY = 0
"""The only key of a join that runs here."""


class KeyProduct:
    """Finds combinations of rows that are linked into a table. Serves one step."""

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        tables: KeyTables,
        reach: np.ndarray,
        n_at_once: int = multiway_index.COMBINATIONS_PER_CHUNK,
        is_limited: bool = False,
    ):
        """So many combinations are in memory at once; if that is not a limit, all of one arriving tuple are."""
        self.n_looked = 0
        """Rows looked at so far."""
        self._windows = tuple(windows)
        self._tables = tables
        self._reach = reach
        self._n_most = n_at_once if is_limited else None
        self._met = np.empty((3, len(windows), n_at_once), np.int64)
        self._out = np.empty((len(windows), n_at_once), np.int64)

    def complete(
        self, starts: Sequence[int], stops: Sequence[int], orders: Sequence[Sequence[int]]
    ) -> Iterator[Combinations] | None:
        """The combinations whose last tuple is one of these rows of the windows. The rows that they name are good until
        the next ones are asked for. None if there is not enough memory for what the rows meet.
        """
        spans = [slice(a - each.base, b - each.base) for each, a, b in zip(self._windows, starts, stops)]
        times = np.concatenate([each.ts[span] for each, span in zip(self._windows, spans)])
        order = np.argsort(times, kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        numbers = np.repeat(np.arange(len(spans)), [span.stop - span.start for span in spans])
        rows = np.concatenate([np.arange(start, stop) for start, stop in zip(starts, stops)])
        expires = np.concatenate([each.expires[span] for each, span in zip(self._windows, spans)])
        firsts, lasts = np.zeros((2, len(spans), len(order)), np.int64)
        n_met = [0] * len(spans)
        for arriving, span in enumerate(spans):
            own = places[numbers == arriving]
            if len(own) and not self._collect(arriving, span, own, orders[arriving], firsts, lasts, n_met):
                return None
        arrived = Arrived(numbers[order], rows[order], times[order], expires[order])
        if self._n_most is not None and _most_of_one(arrived, firsts, lasts) > self._n_most:
            return None
        return self._multiply(arrived, firsts, lasts)

    def _collect(
        self,
        arriving: int,
        span: slice,
        places: np.ndarray,
        order: Sequence[int],
        firsts: np.ndarray,
        lasts: np.ndarray,
        n_met: list[int],
    ) -> bool:
        """What rows of a window meet in the others; those that meet nothing in one are not looked up in the next.
        Whether there was enough memory.
        """
        window, table = self._windows[arriving], self._tables.table(KEY)
        positions = key_combinations.find_slots(window.keys[span], KEY, table)
        seekers = Seekers(positions, window.ts[span], np.zeros(len(positions), np.bool_), places)
        for target in order:
            other, start = self._windows[target], 0
            chains = Chains(table, target, KEY, other.records, other.base, other.floor)
            latest, reach_back = int(target > arriving), self._reach[target, arriving]
            while start < len(positions):
                met = Meetings(firsts[target], lasts[target], *self._met[:, target])
                start, n_met[target], n_looked = key_combinations.collect(
                    start, seekers, chains, latest, reach_back, met, n_met[target]
                )
                self.n_looked += n_looked
                if start < len(positions):
                    if self._n_most is not None:
                        return False
                    self._met = np.concatenate([self._met, np.empty_like(self._met)], axis=2)
        return True

    def _multiply(self, arrived: Arrived, firsts: np.ndarray, lasts: np.ndarray) -> Iterator[Combinations]:
        start, met = 0, Meetings(firsts, lasts, *self._met)
        while start < len(arrived.rows):
            ts, ends = np.empty((2, self._out.shape[1]), np.int64)
            room = CombinationRoom(self._out, ts, ends)
            start, n_out, n_most = key_combinations.multiply(start, arrived, met, self._reach, room)
            if n_out:
                yield Combinations(self._out[:, :n_out], ts[:n_out], ends[:n_out])
            elif start < len(arrived.rows):
                self._out = np.empty((len(self._windows), n_most), np.int64)


def _most_of_one(arrived: Arrived, firsts: np.ndarray, lasts: np.ndarray) -> float:
    """The most combinations that one arriving tuple may have."""
    n_met = (lasts - firsts).astype(np.float64)
    n_met[arrived.windows, np.arange(len(arrived.windows))] = 1
    return float(n_met.prod(axis=0).max(initial=0))
