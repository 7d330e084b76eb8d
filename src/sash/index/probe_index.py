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
from functools import reduce
from typing import TypeAlias

import numpy as np

from sash.index import multiway_index
from sash.index.key_product import KeyProduct
from sash.index.key_tables import KeyTables
from sash.index.multiway_index import Combinations, MultiwayCounts
from sash.index.probe_order import Fanouts, probe_orders
from sash.kernels import probes
from sash.store.ordered_window import OrderedWindow

ROWS_PER_TURN = 2048
"""So many leave what they meet in the caches."""
TURNS_PER_WINDOW = 16
"""So that a tuple seldom looks at newer ones of its turn."""
N_OBSERVED = 256
"""So many tuples of a stream say how many they meet in another."""
OBSERVE_EVERY = 1 << 17
"""After so many tuples the load is looked at again."""
MIN_ROWS_PER_TURN = 256
"""Fewer rows do not pay for a turn of their own."""

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
        is_refined: bool = False,
        fanouts: Fanouts | None = None,
    ):
        """`is_refined`: whether combinations are refined as they grow; `fanouts` are what is expected of the load until
        it can be observed.
        """
        self.orders = probe_orders(has_key, fanouts)
        """For each arriving window the others, in the order in which they are probed."""
        self._fanouts = fanouts
        self._until_observed = N_OBSERVED
        self._windows = tuple(windows)
        self._tables = KeyTables(windows, has_key)
        self._reach = reach
        self._arena = windows[0].arena
        self._n_looked = self._n_inserted = self._n_output = 0
        self._is_product = has_key.shape[1] == 1 and bool(has_key.all()) and not is_refined

    def arrive(self, firsts: Sequence[int]) -> Iterator[np.ndarray]:
        return (each.rows for each in self.complete(firsts))

    def complete(self, firsts: Sequence[int], refine: Refine = lambda bound, rows: None) -> Iterator[Combinations]:
        """The combinations that the rows from `firsts` on complete, with their lives; those of a turn are in order of
        time. `refine` says which of them may grow.
        """
        product = KeyProduct(self._windows, self._tables, self._reach)
        self._n_inserted += sum(each.next_row - first for each, first in zip(self._windows, firsts))
        for starts, stops in self._turns(firsts):
            for number, (start, stop) in enumerate(zip(starts, stops)):
                self._tables.link(number, start, stop)
            if self._is_product:
                found = product.complete(starts, stops, self.orders)
            else:
                found = self._in_order(
                    rows
                    for number, (start, stop) in enumerate(zip(starts, stops))
                    if stop > start
                    for rows in self._complete(number, np.arange(start, stop), refine)
                )
            for each in found:
                self._n_output += each.rows.shape[1]
                yield each
            self._observe(sum(stops) - sum(starts))
        self._n_looked += product.n_looked

    def advance(self, floors: Sequence[int]) -> None:
        """The windows say what is gone."""

    def refill(self) -> None:
        """Puts all rows of the windows into fresh tables."""
        self._tables.refill()

    def free(self) -> None:
        self._tables.free()

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
                sources = [window for window in bound if self._tables.has_key[window, key]]
                if sources and self._tables.has_key[target, key]:
                    keys.append((key, sources[0]))
            steps.append(Probe(target, tuple(keys)))
            bound.append(target)
        return steps

    def _observe(self, n_rows: int) -> None:
        """After so many rows more: looks at the load if it is time, and orders the probes by what they will meet."""
        self._until_observed -= n_rows
        if self._until_observed > 0 or len(self._windows) < 3:
            return
        self._until_observed = OBSERVE_EVERY
        every = range(len(self._windows))
        self._fanouts = [[self._fanout(one, other) if one != other else None for other in every] for one in every]
        self.orders = probe_orders(self._tables.has_key, self._fanouts)

    def _fanout(self, arriving: int, target: int) -> float | None:
        """How many rows of a window the newest of another meet there."""
        last = self._tables.linked[arriving]
        rows = np.arange(max(self._windows[arriving].floor, last - N_OBSERVED), last)
        if not len(rows):
            return self._fanouts[arriving][target] if self._fanouts else None
        shared = np.flatnonzero(self._tables.has_key[[arriving, target]].all(axis=0))
        step = Probe(target, tuple((int(key), arriving) for key in shared))
        members, before = _members(len(self._windows), arriving, rows), self._n_looked
        n_met = sum(len(found) for _, found in self._expand(arriving, (arriving,), members, step))
        self._n_looked = before
        return n_met / len(rows)

    def _complete(self, arriving: int, rows: np.ndarray, refine: Refine) -> Iterator[np.ndarray]:
        """The combinations whose last tuples are these rows of a window."""
        members = _members(len(self._windows), arriving, rows)
        yield from self._continue(arriving, (arriving,), members, self.probes_of(arriving), refine)

    def _continue(
        self, arriving: int, bound: tuple[int, ...], members: np.ndarray, steps: Sequence[Probe], refine: Refine
    ) -> Iterator[np.ndarray]:
        if not steps:
            yield members
            return
        target = steps[0].target
        for parents, rows in self._expand(arriving, bound, members, steps[0]):
            longer = members[:, parents]
            longer[target] = rows
            chosen = refine((*bound, target), longer)
            longer = longer if chosen is None else longer[:, chosen]
            if longer.shape[1]:
                yield from self._continue(arriving, (*bound, target), longer, steps[1:], refine)

    def _expand(
        self, arriving: int, bound: tuple[int, ...], members: np.ndarray, step: Probe
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Combinations with a row of one more window: which combination, and which row."""
        target, window = step.target, self._windows[step.target]
        capacity, start = multiway_index.COMBINATIONS_PER_CHUNK, 0
        times = self._times(bound, members)
        keys = [self._key_of(source, key, members[source]) for key, source in step.keys]
        n_members = members.shape[1]
        partials = probes.Partials(times, np.array(bound), arriving, self._reach)
        while start < n_members:
            parents, rows = out = probes.GrownRoom(np.empty(capacity, np.int64), np.empty(capacity, np.int64))
            if step.keys:
                key = step.keys[0][0]
                more_columns = np.array([key for key, _ in step.keys[1:]], np.int64)
                more_keys = np.array(keys[1:], np.int64).reshape(len(more_columns), n_members)
                wanted, table = probes.WantedKeys(key, keys[0], more_columns, more_keys), self._tables.table(key)
                probed = probes.ProbedRows(window.keys, window.records, window.base, window.floor)
                reached, n_out, n_looked = probes.expand_by_key(partials, start, target, wanted, table, probed, out)
            else:
                timed = probes.TimedRows(window.ts, window.base, window.floor, window.next_row)
                reached, n_out, n_looked = probes.expand_by_time(partials, start, target, timed, out)
            self._n_looked += n_looked
            self._arena.release_pages()
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

    def _in_order(self, chunks: Iterator[np.ndarray]) -> Iterator[Combinations]:
        """The combinations of a turn in order of time, as far as they fit into a chunk."""
        waiting, n_waiting = [], 0
        for rows in chunks:
            waiting.append(rows)
            n_waiting += rows.shape[1]
            if n_waiting >= multiway_index.COMBINATIONS_PER_CHUNK:
                yield self._sorted(np.concatenate(waiting, axis=1))
                waiting, n_waiting = [], 0
        if waiting:
            yield self._sorted(np.concatenate(waiting, axis=1))

    def _sorted(self, rows: np.ndarray) -> Combinations:
        found = live_together(self._windows, rows)
        if np.all(found.ts[1:] >= found.ts[:-1]):
            return found
        order = np.argsort(found.ts, kind="stable")
        return Combinations(rows[:, order], found.ts[order], found.expires[order])

    def _turns(self, firsts: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        """From which row of each window up to which tuples are taken together."""
        spans = [each.ts[first - each.base : each.next_row - each.base] for each, first in zip(self._windows, firsts)]
        n_rows = sum(map(len, spans))
        if not n_rows:
            return
        begin = min(int(ts[0]) for ts in spans if len(ts))
        end = max(int(ts[-1]) for ts in spans if len(ts))
        n_windows = (end - begin) / max(1, int(self._reach.max()))
        n_turns = max(n_rows // ROWS_PER_TURN, min(int(n_windows * TURNS_PER_WINDOW), n_rows // MIN_ROWS_PER_TURN), 1)
        cuts = np.linspace(begin, end, n_turns + 1)[1:-1].astype(np.int64)
        starts = list(firsts)
        for cut in [*cuts, end]:
            stops = [first + int(np.searchsorted(ts, cut, side="right")) for first, ts in zip(firsts, spans)]
            yield starts, stops
            starts = stops


def live_together(windows: Sequence[OrderedWindow], rows: np.ndarray) -> Combinations:
    """Combinations of rows with their lives: from the last to come until the first to leave."""
    places = [own - window.base for own, window in zip(rows, windows)]
    ts = reduce(np.maximum, (window.ts[at] for window, at in zip(windows, places)))
    expires = reduce(np.minimum, (window.expires[at] for window, at in zip(windows, places)))
    return Combinations(rows, ts, expires)


def _members(n_windows: int, arriving: int, rows: np.ndarray) -> np.ndarray:
    """Combinations of a single row each."""
    members = np.zeros((n_windows, len(rows)), np.int64)
    members[arriving] = rows
    return members
