"""Which tuples a join of many streams still needs, worked out from the rows that have come and the windows as written.

A tuple is needed iff some other stream may still bring one within its reach. Up to the clock all have been joined; the
next of a stream is the oldest that waits beyond the clock, or one that comes right after what the stream has told.

clock  ------------|
A   ---a-----------------a-|         A has told up to here: its next is the second `a`
B   -----b---------|                 the next of B may come right after the clock
needed of A: what a tuple right after the clock can reach. Needed of B: what the second `a` can reach
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sash.embedded.query import Query
from sash.operators.changes import read_times
from sash.operators.multiway_join import MultiwayJoin
from sash.oracle.pair_walks import most_newer_us
from sash.oracle.reference import find_rows
from sash.plan.logical import aliases_of
from sash.sql.bound_query import BoundQuery
from sash.sql.catalog import StreamInfo
from sash.sql.window_kinds import TimeWindow
from sash.store.batch import BEGINNING
from sash.testing.case import Advance, Case, Push, Step


@dataclass
class _Told:
    """What is known of a stream by its arrivals."""

    slack_us: int
    n_rows: int = 0
    newest: int = BEGINNING
    complete: int = BEGINNING

    @property
    def clock(self) -> int:
        return max(self.complete, BEGINNING if self.newest == BEGINNING else self.newest - self.slack_us - 1)


class NeededTuples:
    """Of each stream of a join the times of the tuples that are needed, while rows arrive in time."""

    def __init__(self, case: Case):
        assert isinstance(case.bound, BoundQuery)
        self._case, self._bound = case, case.bound
        self._streams = {
            source.alias: source.name for source in case.bound.sources if isinstance(source.info, StreamInfo)
        }
        self._told = {name: _Told(info.slack_us) for name, info in case.plan.streams.items()}
        self._times = {
            name: read_times(table.column(case.plan.streams[name].time)).tolist()
            for name, table in case.arrivals.items()
        }
        self._passing = {alias: self._rows_that_pass(alias) for alias in self._streams}

    def arrive(self, step: Step) -> None:
        """Takes note of a step."""
        if isinstance(step, Push):
            told = self._told[step.stream]
            told.n_rows = step.stop
            told.newest = max([told.newest, *self._times[step.stream][step.start : step.stop]])
        elif isinstance(step, Advance):
            for name in self._told if step.stream is None else [step.stream]:
                self._told[name].complete = max(self._told[name].complete, step.time_us)

    def needed(self, alias: str) -> list[int]:
        """The times of the tuples of a stream that are needed now, in ascending order."""
        return sorted(time for time in self._arrived(alias) if time <= self._clock and self.is_needed((alias,), time))

    def is_needed(self, aliases: tuple[str, ...], time: int) -> bool:
        """Whether a tuple of a stream, or one made of several streams whose newest is of that time, is needed."""
        others = [alias for alias in self._streams if alias not in aliases]
        return any(self._next(other) - time <= min(self._reach(one, other) for one in aliases) for other in others)

    @property
    def _clock(self) -> int:
        return min(told.clock for told in self._told.values())

    def _next(self, alias: str) -> int:
        waiting = [time for time in self._arrived(alias) if time > self._clock]
        return min([*waiting, self._told[self._streams[alias]].clock + 1])

    def _reach(self, older: str, newer: str) -> int:
        """By how much a tuple of one stream may be newer than one of another."""
        if self._bound.window_graph is not None:
            return most_newer_us(self._bound.window_graph.pairs, older, newer)
        (window,) = (source.window for source in self._bound.sources if source.alias == older)
        assert isinstance(window, TimeWindow)
        return window.length_us - 1

    def _arrived(self, alias: str) -> list[int]:
        name = self._streams[alias]
        return [self._times[name][row] for row in self._passing[alias] if row < self._told[name].n_rows]

    def _rows_that_pass(self, alias: str) -> list[int]:
        """The rows of a stream that satisfy the conditions on it alone."""
        own = tuple(source for source in self._bound.sources if source.alias == alias)
        filters = tuple(conjunct for conjunct in self._bound.conjuncts if aliases_of(conjunct) == {alias})
        part = replace(self._bound, sources=own, conjuncts=filters, outputs=(), window_graph=None)
        return [row for (row,), _ in find_rows(part, self._case.arrivals) if row is not None]


def joins_of_many(running: Query) -> Mapping[str, MultiwayJoin]:
    """The operators of a query that join many streams, by name."""
    return {name: operator for name, operator in running.operators() if isinstance(operator, MultiwayJoin)}


def check_buffers(running: Query, tuples: NeededTuples) -> None:
    """Raises an AssertionError if a join of many streams holds a tuple that is not needed."""
    for name, join in joins_of_many(running).items():
        for streams, held in zip(join.spec.members, join.buffered(), strict=True):
            idle = [time for time in held.tolist() if not tuples.is_needed(streams, time)]
            assert not idle, f"{name} holds tuples of {' and '.join(streams)} that nothing can reach: {idle}"
