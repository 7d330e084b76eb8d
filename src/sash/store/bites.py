"""A step that is too large for the memory at hand is worked off in bites, in order of time.

    step     tuples up to the clock, and some beyond it
    bites    up to t1 with the clock t1 │ up to t2 with the clock t2 │ … │ the last ones with the clock of the step

A bite should be large where files are looked into: each may have to be read once for it. So joins look into them for as
many tuples as may be in memory as they come, and take these in, as bites that become state, afterwards.

What operators put out does not depend on how tuples are cut into steps, so the bites together answer what the step
would have answered. The tuples of one instant stay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.store.batch import TS, int64_column
from sash.store.memory_budget import LEAST_ROWS, PASSING_BYTES, SHARE_OF_STATE, MemoryBudget


class Bite(NamedTuple):
    """What is worked off at once: tuples by slot, the clock after them, and that of each slot."""

    arrivals: Mapping[int, pa.Table]
    clock: int
    clocks: Mapping[int, int]


class Use(Enum):
    """What becomes of the tuples of a bite."""

    KEPT = "they become state, all at once"
    KEPT_IN_PIECES = "they become state, as many at a time as there is room for"
    PASSED_ON = "they do not become state, and what is for that is free"


class Spent(NamedTuple):
    """What a bite costs beside its tuples."""

    use: Use
    n_bytes_read: int
    """How much is read from files for it at most, however few tuples it has."""


STATE_ALONE = Spent(Use.KEPT, 0)


class Bites:
    """The bites of a step. How large the next one is follows from what those before it have put out."""

    def __init__(
        self, step: Bite, budget: MemoryBudget | None, spent: Spent = STATE_ALONE, share: float = SHARE_OF_STATE
    ):
        """`share` is the part of what is for state that the tuples of a bite may take if they become it."""
        self._step = step
        self._budget = budget
        self._spent = spent
        n_rows, n_bytes = (sum(each) for each in zip((0, 0), *map(_size, step.arrivals.values())))
        self._most = n_rows
        if budget is not None and n_rows:
            self._most = max(LEAST_ROWS, _most_rows(budget, n_rows, n_bytes, spent.use, share))
        n_bites = -(-n_rows // max(1, self._most))
        self._n_rows = -(-n_rows // max(1, n_bites))  # of equal length, rather than with a short one at the end
        self.is_whole = self._most >= n_rows
        """Whether there is one bite."""

    @property
    def arrivals(self) -> Mapping[int, pa.Table]:
        """Of all bites."""
        return self._step.arrivals

    def __iter__(self) -> Iterator[Bite]:
        if self.is_whole:
            yield self._step
            return
        arrivals, clock, clocks = self._step
        times = np.sort(np.concatenate([int64_column(table, TS) for table in arrivals.values()]))
        first = 0
        while first < len(times):
            until = int(times[min(first + self._n_rows, len(times)) - 1])
            last = int(np.searchsorted(times, until, side="right"))
            part = {slot: _between(table, int(times[first]), until) for slot, table in arrivals.items()}
            if last == len(times):
                yield Bite(part, clock, clocks)
            else:
                reached = min(until, clock)
                yield Bite(part, reached, {slot: min(each, reached) for slot, each in clocks.items()})
            first = last

    def see(self, n_bytes_out: int) -> None:
        """Says how much a bite has put out."""
        if self._budget is None:
            return
        # What goes to disk to be put in order is less than what a bite more would read.
        most_bytes = max(self._budget.step_bytes, self._spent.n_bytes_read)
        if n_bytes_out > most_bytes:
            self._n_rows = max(LEAST_ROWS, self._n_rows // 2)
        elif 4 * n_bytes_out < most_bytes:
            self._n_rows = min(self._most, 2 * self._n_rows)


def _most_rows(budget: MemoryBudget, n_rows: int, n_bytes: int, use: Use, share: float) -> int:
    """Of such tuples, so many fit at once; if they do not become state, some of what is for that is theirs as well."""
    if use is not Use.KEPT:
        room = budget.step_bytes + (budget.state_bytes // 4 if use is Use.PASSED_ON else 0)
        return room * n_rows // (n_bytes + PASSING_BYTES * n_rows)
    as_input = budget.step_bytes * n_rows // max(1, n_bytes)
    as_state = int(share * budget.state_bytes * n_rows) // budget.n_state_bytes_of(n_rows, n_bytes)
    return min(as_input, as_state)


def _size(table: pa.Table) -> tuple[int, int]:
    return table.num_rows, table.nbytes


def _between(table: pa.Table, first: int, last: int) -> pa.Table:
    """The tuples from a time to another one, both included."""
    times = int64_column(table, TS)
    if len(times) < 2 or np.all(times[1:] >= times[:-1]):
        low, high = np.searchsorted(times, first), np.searchsorted(times, last, side="right")
        return table.slice(int(low), int(high - low))
    return table.filter(pa.array((times >= first) & (times <= last)))
