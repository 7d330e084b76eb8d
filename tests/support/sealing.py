"""Limits on memory under which windows are sealed at once, however few rows they have."""

from __future__ import annotations

import os

import pytest

from sash.index import head_room
from sash.plan import least_memory
from sash.store import spill_files
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget

PAGE_BYTES = 64


def seal_all_the_time(patch: pytest.MonkeyPatch) -> None:
    """Wherever memory is limited it is short when a step begins, and pages have few rows."""
    patch.setattr(head_room, "LEAST_SHARE", 1 << 40)
    patch.setattr(spill_files, "LEAST_PAGE_BYTES", PAGE_BYTES)
    patch.setattr(least_memory, "least_memory", lambda plans: LEAST_BYTES)  # many plans need more
    patch.setattr(MemoryBudget, "n_state_bytes", property(lambda budget: budget.state_bytes + 1))
    patch.setattr(os, "fsync", lambda handle: None)  # nobody pulls the plug
