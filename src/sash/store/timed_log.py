"""A log whose rows leave memory in order of time, where memory is limited.

    rows     oldest ──────────────────────────────── newest
             segment    segment    segment    head
             on disk, each in order of time   in memory, as they have come

Nobody looks for its rows by key. What is in memory is sealed into a segment when there is no room for more, and nothing
is written while all fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.errors import ResourceError
from sash.store.batch import EXPIRES, TS
from sash.store.block import Block
from sash.store.block_log import BlockLog
from sash.store.memory_budget import GROWTH, LEAST_SHARE, MemoryBudget
from sash.store.segment import WindowSegment
from sash.store.segment_writer import BATCH_BYTES, LEAST_BATCH_BYTES, SealedRows, write_times
from sash.store.vector import Arena


class TimedLog:
    """Tuples in a log. Whoever extends it knows what to keep of those that are sealed."""

    def __init__(self, schema: pa.Schema, arena: Arena):
        self.log = BlockLog(schema, arena)

    def make_room(self, n_bytes: int = 0) -> None:
        """Seals what is in memory if there is no room for so much more. If the disk has none either, all stays as it
        is, and the budget knows why.
        """
        budget = self.log.arena.budget
        if budget is None:
            return
        n_head_bytes = sum(block.n_bytes for block in self.log.head)
        coming = max(GROWTH * n_bytes, (GROWTH - 1) * n_head_bytes)
        if budget.n_state_bytes + coming > budget.state_bytes and LEAST_SHARE * n_head_bytes >= budget.state_bytes:
            try:
                self._seal(budget)
            except ResourceError as error:
                budget.refused = error

    def _note_sealed(self, segment: WindowSegment, blocks: Sequence[Block], times: np.ndarray) -> None:
        """The rows of these blocks are in a segment now, at these times."""

    def _seal(self, budget: MemoryBudget) -> None:
        blocks, rows = self.log.head, self.log.rows
        numbers = np.concatenate([np.arange(block.first, block.last) for block in blocks])
        ts, expires = (rows.int64(name)[numbers - rows.base] for name in (TS, EXPIRES))
        order = np.argsort(ts, kind="stable")
        sealed = SealedRows(numbers[order], np.zeros(len(order), np.int64), ts[order], expires[order])
        batch_bytes = min(BATCH_BYTES, max(LEAST_BATCH_BYTES, budget.step_bytes // 8))
        segment = write_times(self.log.arena.spill_files, sealed, rows.take, blocks[0].first, batch_bytes)
        self.log.seal(blocks, segment)
        self._note_sealed(segment, blocks, sealed.ts)
