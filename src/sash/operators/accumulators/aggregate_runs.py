"""What an aggregate function is given, and what it must give back.

An accumulator keeps one aggregate of every group. Its result is a function of the multiset of values that are in the
group, exactly: neither the order in which they came, nor values that have left, nor a restart leave a trace in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from sash.kernels.running_sums import BeforeAfter, GroupRuns
from sash.store.vector import Arena


@dataclass(frozen=True, slots=True)
class AggregateRuns:
    """Events in order of time, cut into runs: the events of one group at one instant, positives first."""

    starts: np.ndarray
    """Where each run begins among the events, and where the last one ends; int64."""
    groups: np.ndarray
    """The group of each run, a number below `n_groups`; int64. A group may have several runs."""
    n_groups: int
    signs: np.ndarray
    """Of each event: +1 the value enters the group, -1 it leaves; int8."""
    ts: np.ndarray
    """When the tuple of each event had entered, also for one that leaves; int64."""

    def only(self, passes: np.ndarray) -> AggregateRuns:
        """The same runs with the events that pass; one that loses all of them stays, as an empty run."""
        n_before = np.concatenate([[0], np.cumsum(passes)])
        return AggregateRuns(n_before[self.starts], self.groups, self.n_groups, self.signs[passes], self.ts[passes])

    def for_kernels(self, valid: np.ndarray) -> GroupRuns:
        """As kernels are given them; events that are not `valid` are skipped, none if that is empty."""
        return GroupRuns(self.starts, self.groups, self.signs, valid)

    def room_for_doubles(self) -> BeforeAfter:
        """Where a kernel writes the results of all runs."""
        return BeforeAfter(np.empty((2, len(self.groups))), np.empty((2, len(self.groups)), np.bool_))


class Accumulator(Protocol):
    """One aggregate function over one argument, for all groups."""

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        """The aggregate of each run's group before the run and after it. A value that leaves did enter before."""
        ...

    def compact(self, mapping: np.ndarray) -> None:
        """Renumbers groups: the new number by the old one, -1 for a group that is gone, which must be empty."""
        ...

    def reset(self, arena: Arena) -> None:
        """Forgets all groups, and goes on in `arena`."""
        ...


class RunningAccumulator(Accumulator, Protocol):
    """One whose state stays small while values enter and none leaves: it can be written down for each group."""

    def dump(self, groups: np.ndarray) -> list[pa.Array]:
        """The state of each of these groups, as columns."""
        ...

    def load(self, groups: np.ndarray, columns: list[pa.Array]) -> None:
        """Puts back the state that `dump` gave of these groups, none of which is known yet."""
        ...
