"""What accumulators share that keep the values of each group in order."""

from __future__ import annotations

import numpy as np

from sash.operators.accumulators.members import Members
from sash.operators.accumulators.ranked import RankedMembers
from sash.store.group_array import GroupArray
from sash.store.ordered_multiset import OrderedMultiset
from sash.store.vector import Arena


class InOrder:
    """The values of each group, in a balanced tree, and what was last read off it: `width` integers of a group, which
    are members if it `holds_members`.
    """

    def __init__(self, members: Members | RankedMembers, width: int, arena: Arena, holds_members: bool = True):
        self._holds_members = holds_members
        self._width = width
        self._members = members
        self._start(arena)

    def reset(self, arena: Arena) -> None:
        self._members.reset(arena)
        self._start(arena)

    def compact(self, mapping: np.ndarray) -> None:
        self._ordered.compact(mapping)
        self._results.compact(mapping)

    def _start(self, arena: Arena) -> None:
        self._ordered = OrderedMultiset(arena)
        self._results = GroupArray(np.int64, arena, (self._width,))

    def _reserve(self, n_groups: int, n_events: int) -> None:
        self._ordered.reserve(n_groups, n_events)
        self._results.reserve(n_groups)

    def _forget_members(self) -> None:
        renumbered = self._members.forget()
        if renumbered is None:
            return
        self._ordered.renumber(renumbered)
        if self._holds_members:
            # A group that is empty keeps a result of the past, which nobody reads.
            results = self._results.array
            results[:] = renumbered[np.minimum(results, len(renumbered) - 1)]
