"""How combinations of a join of many grow by tuples that are on disk, and how much of what they become is in memory.

head      combinations grow by rows in memory, as the index finds them
sealed    then by rows in segments: of a key, by probes; of a time, where there is no key, page by page
both      small parts are put together, as each is what probes the next window; large ones are cut
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sash.kernels import probes
from sash.store.ordered_window import OrderedWindow


class Partial(NamedTuple):
    """Combinations of rows of some windows, with a line per window, which has nothing where there is none yet."""

    rows: np.ndarray
    times: np.ndarray

    def of(self, places: np.ndarray) -> Partial:
        """Some of them, in this order, also more than once."""
        return Partial(self.rows.take(places, axis=1), self.times.take(places, axis=1))


class Growth(NamedTuple):
    """Combinations that have got a row of one more window: which combination, which row, and when the row came."""

    parents: np.ndarray
    rows: np.ndarray
    ts: np.ndarray


class Wanted(NamedTuple):
    """What combinations look for in a window: the keys, by number, with a value for each combination."""

    numbers: Sequence[int]
    values: Sequence[np.ndarray]


def grow_by_sealed(
    partials: probes.Partials, target: int, wanted: Wanted, window: OrderedWindow, n_at_once: int
) -> Iterator[Growth]:
    """Combinations with a sealed row of the window `target`, about so many at once."""
    lows, highs = np.empty((2, partials.times.shape[1]), np.int64)
    probes.find_periods(partials, target, lows, highs)
    if not wanted.numbers:
        yield from _grow_by_time(partials, target, window, (int(lows.min()), int(highs.max())), n_at_once)
        return
    for found in window.probe_sealed(wanted.numbers[0], wanted.values[0], lows, highs, n_at_once):
        fits = np.ones(len(found.rows), np.bool_)
        for number, values in zip(wanted.numbers[1:], wanted.values[1:]):
            fits[fits] = window.keys_of(found.rows[fits], number) == values[found.seekers[fits]]
        yield Growth(found.seekers[fits], found.rows[fits], found.ts[fits])


def _grow_by_time(
    partials: probes.Partials, target: int, window: OrderedWindow, period: tuple[int, int], n_at_once: int
) -> Iterator[Growth]:
    n_partials = partials.times.shape[1]
    for page in window.scan_sealed(*period):
        timed = probes.TimedRows(page.ts, 0, 0, len(page.ts))
        capacity, start = max(n_at_once, len(page.ts)), 0
        while start < n_partials:
            parents, places = out = probes.GrownRoom(np.empty(capacity, np.int64), np.empty(capacity, np.int64))
            start, n_out, _ = probes.expand_by_time(partials, start, target, timed, out)
            yield Growth(parents[:n_out], page.rows[places[:n_out]], page.ts[places[:n_out]])


def in_even_parts(growths: Iterable[Growth], n_at_once: int) -> Iterator[Growth]:
    """The same in parts of so many each; the last may have less."""
    held: list[Growth] = []
    n_held = 0
    for growth in growths:
        start = 0
        while start < len(growth.rows):
            stop = min(start + n_at_once - n_held, len(growth.rows))
            held.append(Growth(*(each[start:stop] for each in growth)))
            n_held, start = n_held + stop - start, stop
            if n_held == n_at_once:
                yield _joined(held)
                held, n_held = [], 0
    if held:
        yield _joined(held)


def _joined(parts: list[Growth]) -> Growth:
    return parts[0] if len(parts) == 1 else Growth(*map(np.concatenate, zip(*parts)))
