"""How a join of many streams finds its combinations: each arriving tuple probes the other buffers, one after the other.

    c arrives    probe A by key, within reach of c          (a, c)
                 probe B by key, within reach of a and c    (a, b, c)

Every arriving stream has a probe order of its own, which may change from step to step; nothing but the tuples is kept.
A buffer is probed by a key that some stream before it in the order shares, or by time alone where none does.

Tuples of one step are taken together, in turns that are short against the windows: all of a turn are put into the
tables, then each stream's tuples probe for what is not later than themselves, buffer by buffer, many at a time. Where
memory is limited, combinations grow so many at a time as there is room for, and also by rows that are on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import TypeAlias

import numpy as np

from sash.index import multiway_index
from sash.index.head_room import row_bytes
from sash.index.key_product import KeyProduct
from sash.index.key_tables import KeyTables
from sash.index.multiway_index import Combinations, MultiwayCounts
from sash.index.probe_order import Fanouts, Probe, probe_orders, probe_steps
from sash.index.sealed_growth import Growth, Partial, Wanted, grow_by_sealed, in_even_parts
from sash.kernels import probes
from sash.store.ordered_window import OrderedWindow

ROWS_PER_TURN = 2048
"""So many leave what they meet in the caches."""
TURNS_PER_WINDOW = 16
"""So that a tuple seldom looks at newer ones of its turn."""
N_OBSERVED = 256
"""So many tuples of a stream say how many they meet in another."""
OBSERVE_EVERY = 1 << 17
"""After so many tuples the load is looked at again, at most."""
LEAST_AT_ONCE = 16
"""So many combinations are in memory at once, however little there is of it."""
MIN_ROWS_PER_TURN = 256
"""Fewer rows do not pay for a turn of their own."""

Refine: TypeAlias = Callable[[tuple[int, ...], np.ndarray], np.ndarray | None]
"""Which of some combinations may go on, by their places, None if all: given the windows that have a tuple in them, the
last of which is new, and row numbers with a line per window."""


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
        self._until_observed = self._observed_after = min(N_OBSERVED, OBSERVE_EVERY)
        self._windows = tuple(windows)
        self._tables = KeyTables(windows, has_key)
        self._reach = reach
        self._arena = windows[0].arena
        self._n_looked = self._n_inserted = self._n_output = 0
        self._n_gone_before = self._n_gone
        self._n_at_once = multiway_index.COMBINATIONS_PER_CHUNK
        self._is_product = has_key.shape[1] == 1 and bool(has_key.all()) and not is_refined

    def arrive(self, firsts: Sequence[int]) -> Iterator[np.ndarray]:
        return (each.rows for each in self.complete(firsts))

    def complete(self, firsts: Sequence[int], refine: Refine = lambda bound, rows: None) -> Iterator[Combinations]:
        """The combinations that the rows from `firsts` on complete, with their lives; those of a turn are in order of
        time. `refine` says which of them may grow.
        """
        self._n_at_once = self._find_room()
        product = KeyProduct(self._windows, self._tables, self._reach, self._n_at_once, self._is_limited)
        self._n_inserted += sum(each.next_row - first for each, first in zip(self._windows, firsts))
        for starts, stops in self._turns(firsts):
            for number, (start, stop) in enumerate(zip(starts, stops)):
                self._tables.link(number, start, stop)
            found = None
            if self._is_product and not self._is_sealed:
                found = product.complete(starts, stops, self.orders)
            for each in self._probe_in_order(starts, stops, refine) if found is None else found:
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
        return MultiwayCounts(self._n_looked, self._n_inserted, self._n_gone - self._n_gone_before, 0, self._n_output)

    @property
    def _n_gone(self) -> int:
        return sum(window.n_evicted for window in self._windows)

    def _observe(self, n_rows: int) -> None:
        """After so many rows more: looks at the load if it is time, and orders the probes by what they will meet."""
        self._until_observed -= n_rows
        if self._until_observed > 0 or len(self._windows) < 3:
            return
        # At first soon again: windows that have just begun to fill say little.
        self._until_observed = self._observed_after = min(OBSERVE_EVERY, 4 * self._observed_after)
        every = range(len(self._windows))
        self._fanouts = [[self._fanout(one, other) if one != other else None for other in every] for one in every]
        self.orders = probe_orders(self._tables.has_key, self._fanouts)

    def _fanout(self, arriving: int, target: int) -> float | None:
        """How many rows of a window the newest of another meet there."""
        last, log = self._tables.linked[arriving], self._windows[target].log
        rows = np.arange(max(self._windows[arriving].floor, last - N_OBSERVED), last)
        if not len(rows) or log.n_rows > log.n_head_rows == 0:
            return self._fanouts[arriving][target] if self._fanouts else None
        shared = np.flatnonzero(self._tables.has_key[[arriving, target]].all(axis=0))
        step = Probe(target, tuple((int(key), arriving) for key in shared))
        seeking, before = self._begin(arriving, rows), self._n_looked
        n_met = sum(len(found) for _, found in self._meet_head(*self._aim(arriving, (arriving,), seeking, step)))
        self._n_looked = before
        # What is on disk is taken to be as what is in memory: to look there would cost more than it tells.
        return n_met / len(rows) * log.n_rows / max(1, log.n_head_rows)

    @property
    def _is_limited(self) -> bool:
        return self._arena.budget is not None

    @property
    def _is_sealed(self) -> bool:
        """Whether rows of any window are on disk."""
        return any(window.log.segments for window in self._windows)

    def _find_room(self) -> int:
        """How many combinations may be in memory at once, of each length."""
        if self._arena.budget is None:
            return multiway_index.COMBINATIONS_PER_CHUNK
        n_all = self._arena.budget.n_pairs_at_once(sum(map(row_bytes, self._windows)))
        return min(multiway_index.COMBINATIONS_PER_CHUNK, max(LEAST_AT_ONCE, n_all // len(self._windows)))

    def _probe_in_order(self, starts: Sequence[int], stops: Sequence[int], refine: Refine) -> Iterator[Combinations]:
        """The combinations whose last tuples are these rows of the windows, by probes."""
        return self._in_order(
            found
            for number, (start, stop) in enumerate(zip(starts, stops))
            if stop > start
            for found in self._complete(number, np.arange(start, stop), refine)
        )

    def _begin(self, arriving: int, rows: np.ndarray) -> Partial:
        """Combinations of a single row each, of the head."""
        members, times = np.zeros((2, len(self._windows), len(rows)), np.int64)
        window = self._windows[arriving]
        members[arriving], times[arriving] = rows, window.ts[rows - window.base]
        return Partial(members, times)

    def _complete(self, arriving: int, rows: np.ndarray, refine: Refine) -> Iterator[Partial]:
        """The combinations whose last tuples are these rows of a window."""
        steps = probe_steps(arriving, self.orders[arriving], self._tables.has_key)
        yield from self._continue(arriving, (arriving,), self._begin(arriving, rows), steps, refine)

    def _continue(
        self, arriving: int, bound: tuple[int, ...], partial: Partial, steps: Sequence[Probe], refine: Refine
    ) -> Iterator[Partial]:
        if not steps:
            yield partial
            return
        target = steps[0].target
        for parents, rows, ts in self._expand(arriving, bound, partial, steps[0]):
            longer = partial.of(parents)
            longer.rows[target], longer.times[target] = rows, ts
            chosen = refine((*bound, target), longer.rows)
            longer = longer if chosen is None else longer.of(chosen)
            if longer.rows.shape[1]:
                yield from self._continue(arriving, (*bound, target), longer, steps[1:], refine)

    def _expand(self, arriving: int, bound: tuple[int, ...], partial: Partial, step: Probe) -> Iterator[Growth]:
        """Combinations with a row of one more window, wherever it is."""
        aim = self._aim(arriving, bound, partial, step)
        if not self._is_limited:
            return self._expand_head(*aim)
        return in_even_parts(chain(self._expand_head(*aim), self._expand_sealed(*aim)), self._n_at_once)

    def _aim(
        self, arriving: int, bound: tuple[int, ...], partial: Partial, step: Probe
    ) -> tuple[probes.Partials, int, Wanted]:
        """What combinations look for, and in which window."""
        values = [self._windows[source].keys_of(partial.rows[source], key) for key, source in step.keys]
        partials = probes.Partials(partial.times, np.array(bound), arriving, self._reach)
        return partials, step.target, Wanted([key for key, _ in step.keys], values)

    def _expand_sealed(self, partials: probes.Partials, target: int, wanted: Wanted) -> Iterator[Growth]:
        window = self._windows[target]
        for growth in grow_by_sealed(partials, target, wanted, window, self._n_at_once) if window.log.segments else ():
            self._n_looked += len(growth.rows)
            yield growth

    def _expand_head(self, partials: probes.Partials, target: int, wanted: Wanted) -> Iterator[Growth]:
        window = self._windows[target]
        for parents, rows in self._meet_head(partials, target, wanted):
            yield Growth(parents, rows, window.ts[rows - window.base])

    def _meet_head(
        self, partials: probes.Partials, target: int, wanted: Wanted
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Combinations with a row of one more window that is in memory: which combination, and which row."""
        window, n_partials = self._windows[target], partials.times.shape[1]
        capacity, start = self._n_at_once, 0
        while start < n_partials:
            parents, rows = out = probes.GrownRoom(np.empty(capacity, np.int64), np.empty(capacity, np.int64))
            if wanted.numbers:
                key, table = wanted.numbers[0], self._tables.table(wanted.numbers[0])
                more_columns = np.array(wanted.numbers[1:], np.int64)
                more_keys = np.array(wanted.values[1:], np.int64).reshape(len(more_columns), n_partials)
                keys = probes.WantedKeys(key, wanted.values[0], more_columns, more_keys)
                probed = probes.ProbedRows(window.keys, window.records, window.base, window.floor)
                reached, n_out, n_looked = probes.expand_by_key(partials, start, target, keys, table, probed, out)
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

    def _in_order(self, chunks: Iterator[Partial]) -> Iterator[Combinations]:
        """The combinations of a turn in order of time, as far as they fit into a chunk."""
        waiting, n_waiting = list[Partial](), 0
        for found in chunks:
            n_found = found.rows.shape[1]
            if self._is_limited and n_waiting + n_found > self._n_at_once and waiting:
                yield self._sorted(waiting)
                waiting, n_waiting = [], 0
            waiting.append(found)
            n_waiting += n_found
            if n_waiting >= self._n_at_once:
                yield self._sorted(waiting)
                waiting, n_waiting = [], 0
        if waiting:
            yield self._sorted(waiting)

    def _sorted(self, parts: Sequence[Partial]) -> Combinations:
        rows, times = (np.concatenate(each, axis=1) for each in zip(*parts))
        ts = times.max(axis=0)
        expires = reduce(np.minimum, map(OrderedWindow.expires_of, self._windows, rows, times))
        if np.all(ts[1:] >= ts[:-1]):
            return Combinations(rows, ts, expires)
        order = np.argsort(ts, kind="stable")
        return Combinations(rows[:, order], ts[order], expires[order])

    def _turns(self, firsts: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        """From which row of each window up to which tuples are taken together."""
        spans = [each.ts[first - each.base : each.next_row - each.base] for each, first in zip(self._windows, firsts)]
        n_rows = sum(map(len, spans))
        if not n_rows:
            return
        begin = min(int(ts[0]) for ts in spans if len(ts))
        end = max(int(ts[-1]) for ts in spans if len(ts))
        n_windows = (end - begin) / max(1, int(self._reach.max()))
        if self._is_sealed:  # each turn reads the disk, and a step is a bite that fits into memory
            yield list(firsts), [each.next_row for each in self._windows]
            return
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
