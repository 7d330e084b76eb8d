"""How much memory Sash may take on each machine of Spark's, and what it is for."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from sash.errors import PlanError
from sash.spark.session_settings import MEMORY
from sash.store.byte_sizes import parse_bytes
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget


@dataclass(frozen=True, slots=True)
class MachineBudget:
    """How much memory the windows on one machine may take, all queries together."""

    n_bytes: int | None = None
    """None: a quarter of the memory. 0: nothing is kept between batches."""
    n_workers: int | None = None
    """How many Python workers run at a time; None: one per core."""
    application: str = ""
    """Whose memory it is, as Spark names applications: what another one takes is not counted."""
    n_executors: int = 1
    """How many executors of the machine share the memory. Each has so many workers."""

    @property
    def shared_bytes(self) -> int:
        """For groups at rest; the other half is for those at work whose files are on disk."""
        return self._n_bytes // 2

    @property
    def resident_bytes(self) -> int:
        """For the one group that a worker works on."""
        return self._n_bytes // 2 // self.n_running

    def part(self, n_executors: int) -> MachineBudget:
        """What one of so many executors has of the machine's."""
        return replace(self, n_executors=max(1, n_executors))

    @property
    def n_running(self) -> int:
        """How many Python workers run at a time."""
        return self.n_workers or os.cpu_count() or 1

    def share(self, n_groups: int, spill: Path) -> MemoryBudget:
        """Of one group at work, of so many that there are: what it keeps may take its part of what rests, and what
        else it needs is half for steps and half for disk.
        """
        state, work = self.shared_bytes // n_groups, self.resident_bytes // 2
        least = LEAST_BYTES // 4
        return MemoryBudget(max(2 * least, state), max(least, work), max(least, work), spill)

    def of_machine(self, spill: Path) -> MemoryBudget:
        """Of all groups of a machine together."""
        least = LEAST_BYTES // 4
        work = max(least, (self._n_bytes - self.shared_bytes) // 2)
        return MemoryBudget(max(2 * least, self.shared_bytes), work, work, spill)

    @property
    def _n_bytes(self) -> int:
        """If nothing is kept between batches, a group at work still has what it would have by default."""
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return (self.n_bytes or physical // 4) // self.n_executors


def parse_memory(text: str, name: str = f"`{MEMORY}`") -> int:
    """Raises PlanError if a setting is no size."""
    size = parse_bytes(text)
    if size is None:
        raise PlanError(f"{name} is `{text}`, which is not a size; write it like `512m` or `4g`")
    return size
