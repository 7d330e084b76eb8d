"""A trace whose ids are numbered anew while tuples that were taken back have not expired yet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import SIGNED_FIELDS
from sash.store.trace import Trace
from support.steps import Change, signed

COLUMNS = pa.schema([("k", pa.int64())])
KEPT, TAKEN_BACK = (1, 1, 17, (1,)), [(1, 1, 17, (0,)), (1, -1, 17, (0,))]


def step(trace: Trace, changes: list[Change], clock: int) -> list[tuple[int, int, int]]:
    batch = signed(changes, COLUMNS)
    events = trace.step(batch, batch["k"].to_numpy(), clock)
    return list(zip(*(each.tolist() for each in (events.times, events.ids, events.signs)), strict=True))


def test_what_was_taken_back_expires_without_a_word() -> None:
    """Key 0 is forgotten, and key 1 becomes 0; then nothing is renumbered but once more."""
    trace = Trace(pa.schema([*COLUMNS, *SIGNED_FIELDS]), 16, expires_by_negatives=False)
    step(trace, [*TAKEN_BACK, KEPT], 1)
    trace.renumber(np.array([-1, 0]))
    trace.renumber(np.array([0]))
    assert step(trace, [], 17) == [(17, 0, -1)]
