"""How a join of many streams finds its combinations: each arriving tuple probes the other buffers, one after the other.

    c arrives    probe A by key, within reach of c          (a, c)
                 probe B by key, within reach of a and c    (a, b, c)

Every arriving stream has a probe order of its own, which may change from step to step; nothing but the tuples is kept.
A buffer is probed by a key that some stream before it in the order shares, or by time alone where none does.

Tuples of one step are taken together, in turns that are short against the windows: all of a turn are put into the
tables, then each stream's tuples probe for what is not later than themselves, buffer by buffer, many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sash.kernels import probes
from sash.store import multiway_index
from sash.store.multiway_index import MultiwayCounts
from sash.store.ordered_window import OrderedWindow
from sash.store.vector import Vector

FIRST_SLOTS = 1024
MIN_ROWS_PER_TURN = 1024
"""Fewer rows do not pay for a turn of their own."""
TURNS_PER_WINDOW = 16

Refine: TypeAlias = Callable[[tuple[int, ...], np.ndarray], np.ndarray | None]
"""Which of some combinations may go on, by their places, None if all: given the windows that have a tuple in them, the
last of which is new, and row numbers with a line per window."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A step of a probe order: the window that is probed next, and the keys by which, each from a window before it."""

    target: int
    keys: tuple[tuple[int, int], ...]
    """(key, window it is taken from); the first finds rows, the others are compared. () : by time alone."""


class ProbeIndex:
    """Rows of several windows, by each of their keys."""

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        has_key: np.ndarray,
        reach: np.ndarray,
        refine: Refine = lambda bound, rows: None,
    ):
        self.orders: list[list[int]] = [
            [other for other in range(len(windows)) if other != number] for number in range(len(windows))
        ]
        """For each arriving window the others, in the order in which they are probed."""
        self._windows = tuple(windows)
        self._has_key = has_key
        self._reach = reach
        self._refine = refine
        self._home = windows[0].home
        self._tables = [Vector(np.int64, self._home, probes.HEADS + len(windows)) for _ in range(has_key.shape[1])]
        self._n_free = [0] * len(self._tables)
        self._n_looked = self._n_inserted = self._n_output = 0
        self.refill()

    def arrive(self, firsts: Sequence[int]) -> Iterator[np.ndarray]:
        """The combinations that the rows from `firsts` on complete; those of a turn are in order of time."""
        self._n_inserted += sum(each.next_row - first for each, first in zip(self._windows, firsts))
        for starts, stops in self._turns(firsts):
            for number, (start, stop) in enumerate(zip(starts, stops)):
                self._link(number, start, stop)
            yield from self._in_order(
                rows
                for number, (start, stop) in enumerate(zip(starts, stops))
                if stop > start
                for rows in self._complete(number, np.arange(start, stop))
            )

    def advance(self, floors: Sequence[int]) -> None:
        """The windows say what is gone."""

    def refill(self) -> None:
        """Puts all rows of the windows into fresh tables."""
        self._linked = [window.next_row for window in self._windows]
        for key in range(len(self._tables)):
            self._fill(key, FIRST_SLOTS)

    def free(self) -> None:
        for table in self._tables:
            table.free()

    @property
    def counts(self) -> MultiwayCounts:
        """Tuples are removed with their windows' blocks, which needs no comparison."""
        n_evicted = sum(window.n_evicted for window in self._windows)
        return MultiwayCounts(self._n_looked, self._n_inserted, n_evicted, 0, self._n_output)

    def probes_of(self, arriving: int) -> list[Probe]:
        """The probe order of an arriving window, with the keys that each probe goes by."""
        bound, steps = [arriving], []
        for target in self.orders[arriving]:
            keys = []
            for key in range(len(self._tables)):
                sources = [window for window in bound if self._has_key[window, key]]
                if sources and self._has_key[target, key]:
                    keys.append((key, sources[0]))
            steps.append(Probe(target, tuple(keys)))
            bound.append(target)
        return steps

    def count_matches(self, arriving: int, rows: np.ndarray, target: int) -> int:
        """How many rows of another window these rows would meet there: what observing the load comes to."""
        keys = [(key, arriving) for key in range(len(self._tables)) if self._has_key[(arriving, target), key].all()]
        before = self._n_looked
        members = _members(len(self._windows), arriving, rows)
        found = sum(len(found) for _, found in self._expand(arriving, (arriving,), members, Probe(target, tuple(keys))))
        self._n_looked = before
        return found

    def _complete(self, arriving: int, rows: np.ndarray) -> Iterator[np.ndarray]:
        """The combinations whose last tuples are these rows of a window."""
        members = _members(len(self._windows), arriving, rows)
        yield from self._continue(arriving, (arriving,), members, self.probes_of(arriving))

    def _continue(
        self, arriving: int, bound: tuple[int, ...], members: np.ndarray, steps: Sequence[Probe]
    ) -> Iterator[np.ndarray]:
        if not steps:
            yield members
            return
        target = steps[0].target
        for parents, rows in self._expand(arriving, bound, members, steps[0]):
            longer = members[:, parents]
            longer[target] = rows
            chosen = self._refine((*bound, target), longer)
            longer = longer if chosen is None else longer[:, chosen]
            if longer.shape[1]:
                yield from self._continue(arriving, (*bound, target), longer, steps[1:])

    def _expand(
        self, arriving: int, bound: tuple[int, ...], members: np.ndarray, step: Probe
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Combinations with a row of one more window: which combination, and which row."""
        target, window = step.target, self._windows[step.target]
        capacity, start = multiway_index.COMBINATIONS_PER_CHUNK, 0
        times = self._times(bound, members)
        keys = [self._key_of(source, key, members[source]) for key, source in step.keys]
        n_members = members.shape[1]
        while start < n_members:
            parents, rows = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            common = np.array(bound), start, target, arriving, self._reach
            if step.keys:
                key = step.keys[0][0]
                more_columns = np.array([key for key, _ in step.keys[1:]], np.int64)
                more_keys = np.array(keys[1:], np.int64).reshape(len(more_columns), n_members)
                reached, n_out, n_looked = probes.expand_by_key(
                    times, *common, keys[0], more_keys, more_columns, target, key, self._tables[key].array,
                    window.ts, window.keys, window.links, window.base, window.floor, parents, rows,
                )  # fmt: skip
            else:
                reached, n_out, n_looked = probes.expand_by_time(
                    times, *common, window.ts, window.base, window.floor, window.next_row, parents, rows
                )
            self._n_looked += n_looked
            self._home.relax()
            if n_out:
                yield parents[:n_out], rows[:n_out]
            elif reached == start:
                capacity *= 2
            start = reached

    def _times(self, bound: tuple[int, ...], members: np.ndarray) -> np.ndarray:
        """The times of the members, a line per window; nothing where there is none yet."""
        times = np.empty(members.shape, np.int64)
        for window in bound:
            times[window] = self._windows[window].ts[members[window] - self._windows[window].base]
        return times

    def _key_of(self, window: int, key: int, rows: np.ndarray) -> np.ndarray:
        return self._windows[window].keys[rows - self._windows[window].base, key]

    def _in_order(self, chunks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        """The combinations of a turn in order of time, as far as they fit into a chunk."""
        waiting, n_waiting = [], 0
        for rows in chunks:
            waiting.append(rows)
            n_waiting += rows.shape[1]
            self._n_output += rows.shape[1]
            if n_waiting >= multiway_index.COMBINATIONS_PER_CHUNK:
                yield self._sorted(waiting)
                waiting, n_waiting = [], 0
        if waiting:
            yield self._sorted(waiting)

    def _sorted(self, parts: list[np.ndarray]) -> np.ndarray:
        rows = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
        latest = self._times(tuple(range(len(self._windows))), rows).max(axis=0)
        if np.all(latest[1:] >= latest[:-1]):
            return rows
        return rows[:, np.argsort(latest, kind="stable")]

    def _turns(self, firsts: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        """From which row of each window up to which tuples are taken together."""
        spans = [each.ts[first - each.base : each.next_row - each.base] for each, first in zip(self._windows, firsts)]
        n_rows = sum(map(len, spans))
        if not n_rows:
            return
        begin = min(int(ts[0]) for ts in spans if len(ts))
        end = max(int(ts[-1]) for ts in spans if len(ts))
        n_windows = (end - begin) / max(1, int(self._reach.max()))
        n_turns = max(1, min(int(n_windows * TURNS_PER_WINDOW), n_rows // MIN_ROWS_PER_TURN))
        cuts = np.linspace(begin, end, n_turns + 1)[1:-1].astype(np.int64)
        starts = list(firsts)
        for cut in [*cuts, end]:
            stops = [first + int(np.searchsorted(ts, cut, side="right")) for first, ts in zip(firsts, spans)]
            yield starts, stops
            starts = stops

    def _link(self, window: int, first: int, last: int) -> None:
        """Puts rows of a window into the tables of its keys."""
        self._linked[window] = last
        for key in range(len(self._tables)):
            if self._has_key[window, key] and not self._link_by(key, window, first, last):
                self._fill(key, self._enough_slots(key))

    def _link_by(self, key: int, window: int, first: int, last: int) -> bool:
        """Puts rows into a key's table; False if it had not enough room for all of them."""
        each = self._windows[window]
        while first < last and self._n_free[key]:
            stop = min(last, first + self._home.step)
            first, self._n_free[key] = probes.link(
                window, first, stop, each.keys, each.links, key, each.base, self._floors(),
                self._tables[key].array, self._n_free[key],
            )  # fmt: skip
            self._home.relax()
        return first == last

    def _fill(self, key: int, n_slots: int) -> None:
        """Puts the rows that are linked into a fresh table of so many slots, or of more if they are too few."""
        self._tables[key].resize(n_slots)
        self._tables[key].array[:, probes.HEADS] = probes.FREE
        self._n_free[key] = n_slots * 5 // 8
        for number, window in enumerate(self._windows):
            is_in = not self._has_key[number, key] or self._link_by(key, number, window.floor, self._linked[number])
            if not is_in:
                self._fill(key, 4 * n_slots)
                return

    def _enough_slots(self, key: int) -> int:
        """So many that the keys that are there take less than half of what may be taken."""
        n_slots, n_keys = FIRST_SLOTS, probes.count_keys(self._tables[key].array, self._floors())
        while n_slots * 5 // 8 <= 2 * n_keys:
            n_slots *= 2
        return n_slots

    def _floors(self) -> np.ndarray:
        return np.array([window.floor for window in self._windows])


def _members(n_windows: int, arriving: int, rows: np.ndarray) -> np.ndarray:
    """Combinations of a single row each."""
    members = np.zeros((n_windows, len(rows)), np.int64)
    members[arriving] = rows
    return members
