"""Every way in which a join can find its pairs: its method, how much memory there is, and how rows are cut.

tiered, whj, wnl      memory is that of the process: beyond it, rows are in segments; a block is a bite of a step
hash                  in memory, whatever there is
ewj, rpwj, ahewj      memory is counted in blocks, of which the rest is on a disk; parts are hash partitions
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path

import pytest

import sash
from sash.cost.choose_join import JoinChoice
from sash.cost.join_cost import AHEWJ, EWJ, HASH, RPWJ, WHJ, WNL, JoinMethod
from sash.cost.replan import LoadWatch, ReplanPolicy
from sash.errors import PlanError
from sash.index import head_room
from sash.plan import least_memory
from sash.store import bites, spill_files
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget

TIERED = "tiered"
METHODS = (TIERED, HASH, WHJ, WNL, EWJ, RPWJ, AHEWJ)
ONE_BLOCK, SOME, NO_LIMIT = "one block", "64 KB", "none"
BUDGETS = (ONE_BLOCK, SOME, NO_LIMIT)
BLOCKS = (1, 2, 16)
PARTS = (1, 2, 7)
SOME_BYTES = 1 << 16
PAGE_BYTES = 64
_SHAPES: dict[str, dict[str, float]] = {
    EWJ: {"r": 0.5, "epoch": 2, "delta": 0.0, "recent": 0.5, "frequent": 0.25, "basic_window": 2},
    RPWJ: {"m_read": 16, "h_mark": 2, "l_mark": 1, "slide_us": 50, "epoch_us": 20},
    AHEWJ: {"r": 0.3, "epoch": 2, "epoch_us": 20, "slide_us": 0, "basic_window": 2, "train": 3},
}
"""What else is set of joins on disk, so that they do all that they can do within a few rows."""
_BLOCK_BYTES = {EWJ: 2 * 4096, RPWJ: 1024, AHEWJ: 1024}
"""Of memory, for a block more: the memory of EWJ is that of each stream."""


@dataclass(frozen=True, slots=True)
class JoinSetting:
    """A method with all that can be set of it."""

    method: str
    budget: str
    block_rows: int
    n_part: int

    @property
    def join_method(self) -> JoinMethod:
        if self.method in _SHAPES:
            return self._with_memory(_n_blocks(self)) if self.budget != NO_LIMIT else self._with_memory(None)
        if self.method == WHJ:
            return JoinMethod(WHJ, self.n_part)
        return JoinMethod(HASH if self.method == TIERED else self.method)

    @property
    def hint(self) -> str:
        """What a query writes that asks for it."""
        method = self.join_method
        settings = [f"{name}={value}" for name, value in method.settings]
        parts = [str(method.n_buckets)] if self.method in (WHJ, RPWJ, AHEWJ) else []
        return f"{method.algorithm}({', '.join(parts + settings)})" if parts + settings else method.algorithm

    @property
    def n_bytes(self) -> int | None:
        """The limit of the process."""
        if self.method not in (TIERED, WHJ, WNL) or self.budget == NO_LIMIT:
            return None
        return LEAST_BYTES if self.budget == ONE_BLOCK else SOME_BYTES

    @contextmanager
    def in_force(self, spill: Path) -> Iterator[None]:
        """What starts now has the limit, and of the least memory nothing left for a window when a step begins."""
        sash.configure(memory=self.n_bytes, spill=spill)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bites, "LEAST_ROWS", self.block_rows)
            patch.setattr(spill_files, "LEAST_PAGE_BYTES", PAGE_BYTES)
            patch.setattr(os, "fsync", lambda handle: None)  # nobody pulls the plug
            # Rows of many columns need more than one block.
            patch.setattr(least_memory, "least_memory", lambda plans: LEAST_BYTES)
            if self.n_bytes == LEAST_BYTES:
                patch.setattr(head_room, "LEAST_SHARE", 1 << 40)
                patch.setattr(MemoryBudget, "n_state_bytes", property(lambda budget: budget.state_bytes + 1))
            try:
                yield
            finally:
                sash.configure()

    def _with_memory(self, n_blocks: int | None) -> JoinMethod:
        memory = {} if n_blocks is None else {"memory": n_blocks}
        settings = tuple({**_SHAPES[self.method], "block_rows": self.block_rows, **memory}.items())
        return JoinMethod(self.method, 1 if self.method == EWJ else self.n_part, settings=settings)


def _n_blocks(setting: JoinSetting) -> int:
    """The memory of a join on disk: 64 KB, or the least that it accepts."""
    if setting.budget == SOME:
        return SOME_BYTES // _BLOCK_BYTES[setting.method]
    for n_blocks in count(1):
        try:
            setting._with_memory(n_blocks)
        except PlanError:
            continue
        return n_blocks
    raise AssertionError("some memory is enough")


@dataclass(frozen=True, slots=True)
class Restless(ReplanPolicy):
    """Another method after every step."""

    methods: Iterator[JoinMethod] = field(default_factory=lambda: cycle([JoinMethod(HASH), JoinMethod(WNL)]))

    def next_method(self, watch: LoadWatch, clock: int, method: JoinMethod, choice: JoinChoice) -> JoinMethod | None:
        return next(self.methods)
