"""How much memory queries in this process may take for their state, and where the rest goes: read here alone.

    sash.configure(memory="256 MiB", spill="/data/spill")      for what starts from now on in this process
    SASH_MEMORY=256m  SASH_SPILL=/data/spill                   for whatever is not configured

Without either there is no limit, and nothing is written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from sash.errors import PlanError
from sash.plan.least_memory import require_memory
from sash.plan.memory_forecast import MemoryForecast, forecast_memory
from sash.plan.physical import Plan
from sash.store.byte_sizes import format_bytes, parse_bytes
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget

Size: TypeAlias = int | str
"""Bytes, or a text like `256 MiB` or `64k`."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """None: what the environment says, and no limit if it says nothing."""

    memory: Size | None = None
    spill: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            _checked(self.memory, "`memory`")

    def budget(self) -> MemoryBudget | None:
        """A budget by these settings, for what runs together; None if there is no limit."""
        n_bytes = self._n_bytes
        return None if n_bytes is None else MemoryBudget.of(n_bytes, self.spill_directory)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._n_bytes is not None

    def forecast(self, plans: Iterable[Plan], frames: Mapping[str, pa.Table] | None = None) -> MemoryForecast | None:
        """What plans that run together are expected to keep; None if there is no limit.

        Raises ResourceError if they need more than the limit.
        """
        plans, budget = list(plans), self.budget()
        require_memory(plans, budget)
        return None if budget is None else forecast_memory(plans, budget, frames)

    @property
    def _n_bytes(self) -> int | None:
        if self.memory is not None:
            return _checked(self.memory, "`memory`")
        size = os.environ.get("SASH_MEMORY")
        return _checked(size, "SASH_MEMORY") if size else None

    @property
    def spill_directory(self) -> Path:
        """Where what finds no room goes."""
        return Path(self.spill or os.environ.get("SASH_SPILL") or tempfile.gettempdir())


_configured = MemorySettings()


def set_memory(memory: Size | None, spill: str | os.PathLike[str] | None) -> None:
    """For what starts from now on in this process. What is None is as the environment says."""
    global _configured
    _configured = MemorySettings(memory, spill)


def configured(memory: Size | None = None) -> MemorySettings:
    """The settings of this process, with another limit if one is given."""
    return _configured if memory is None else replace(_configured, memory=memory)


def _checked(size: Size, name: str) -> int:
    n_bytes = parse_bytes(size) if isinstance(size, str) else size
    if n_bytes is None:
        raise PlanError(f"{name} is `{size}`, which is not a size; write it like `256 MiB` or `64k`")
    if n_bytes < LEAST_BYTES:
        least = format_bytes(LEAST_BYTES)
        raise PlanError(f"{name} is `{size}`, which is less than the {least} that any query needs; give it more")
    return n_bytes
