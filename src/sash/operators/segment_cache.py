"""Segments of relations that stay in memory, of all that share a budget: one limit, whoever they are of.

    Law: what is here never takes more than the limit, and is a copy: who does not find a segment reads it.

What was just read takes the place of another one by (6.1) and (6.2) of Exact, ch. 6 (`choose_victim`), wherever that is
from: arrivals per byte tell which is worth more.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Protocol

import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import relation_room
from sash.papers.exact.join_memory import choose_victim
from sash.store.memory_budget import MemoryBudget

RHO = 0.25
"""Of Table 6.2."""


class Segmented(Protocol):
    """Whose segments are kept."""

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each segment."""
        ...

    @property
    def frequencies(self) -> np.ndarray:
        """How many tuples came for each segment, the older ones less."""
        ...

    def release(self, segment: int) -> None:
        """A segment is here no more."""
        ...


class SegmentCache:
    """Segments by owner and number."""

    def __init__(self, limit: int | None):
        """`limit` is in bytes; None: whatever was read stays."""
        self._limit = limit
        self._tables: dict[int, dict[int, pa.Table]] = {}
        self._sizes: dict[int, dict[int, int]] = {}
        """Bytes of each, as they were when it came: a segment may change."""
        self._owners: dict[int, weakref.ref[Segmented]] = {}
        self._numbers = itertools.count()
        self.n_bytes = 0

    @classmethod
    def of(cls, budget: MemoryBudget | None) -> SegmentCache:
        """That of a budget, to which it is charged; one of its own, without a limit, if there is none."""
        if budget is None:
            return cls(None)

        def make() -> SegmentCache:
            cache = cls(relation_room(budget.state_bytes))
            budget.count(cache)
            return cache

        return budget.shared("segments", SegmentCache, make)

    def register(self, owner: Segmented) -> int:
        """By which number somebody is known from now on; its segments go with it."""
        number = next(self._numbers)
        self._tables[number], self._sizes[number] = {}, {}
        self._owners[number] = weakref.ref(owner)
        weakref.finalize(owner, self._forget, number)
        return number

    def find(self, owner: int, segment: int) -> pa.Table | None:
        return self._tables[owner].get(segment)

    def segments_of(self, owner: int) -> list[int]:
        """What is here of somebody."""
        return sorted(self._tables[owner])

    def admit(self, owner: int, segment: int, table: pa.Table) -> bool:
        """Keeps a segment that was read, if there is room, or if it is worth more than another one."""
        known = self._known(owner)
        n_bytes = int(known.sizes[segment])
        if self._limit is not None and self.n_bytes + n_bytes > self._limit and not self._exchange(owner, segment):
            return False
        self._tables[owner][segment], self._sizes[owner][segment] = table, n_bytes
        self.n_bytes += n_bytes
        return True

    def renew(self, owner: int, segment: int, table: pa.Table) -> None:
        """Says that a segment has other rows now: what is here of it is these, or nothing."""
        if segment in self._tables[owner]:
            self._drop(owner, segment)
            self.admit(owner, segment, table)

    def _exchange(self, owner: int, segment: int) -> bool:
        """Whether another segment has made room for this one."""
        assert self._limit is not None
        residents = [(each, number) for each, kept in self._tables.items() for number in sorted(kept)]
        everyone = [(owner, segment), *residents]
        sizes = np.array([self._known(owner).sizes[segment], *(self._sizes[each][at] for each, at in residents)])
        frequencies = np.array([self._known(each).frequencies[number] for each, number in everyone])
        places = np.arange(1, len(everyone))
        victim = choose_victim(0, places, frequencies, sizes, (self._limit - self.n_bytes, RHO))
        if victim is None:
            return False
        self._drop(*everyone[victim])
        return True

    def _drop(self, owner: int, segment: int) -> None:
        del self._tables[owner][segment]
        self.n_bytes -= self._sizes[owner].pop(segment)
        self._known(owner).release(segment)

    def _known(self, owner: int) -> Segmented:
        known = self._owners[owner]()
        assert known is not None, "who is gone is forgotten"
        return known

    def _forget(self, owner: int) -> None:
        del self._tables[owner], self._owners[owner]
        self.n_bytes -= sum(self._sizes.pop(owner).values())
