"""The segments that hold the sealed rows of a log: which row is in which, and when they are not needed any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sash.errors import ResourceError
from sash.store.block import Block
from sash.store.memory_budget import Guided, MemoryBudget
from sash.store.segment import WindowSegment


def split_by_segment(
    segments: Sequence[WindowSegment], base: int, rows: np.ndarray
) -> Iterator[tuple[WindowSegment, np.ndarray]]:
    """The segments that hold some of the rows, and which of them; those from `base` on, in memory, are left out."""
    order = np.arange(len(rows)) if np.all(rows[1:] >= rows[:-1]) else np.argsort(rows, kind="stable")
    bounds = np.searchsorted(rows[order], [*(segment.first for segment in segments), base])
    for segment, low, high in zip(segments, bounds[:-1], bounds[1:]):
        if high > low:
            yield segment, order[low:high]


def original_rows(segments: Sequence[WindowSegment], base: int, rows: np.ndarray) -> np.ndarray:
    """The numbers that rows had when their blocks were appended."""
    origins = rows.copy()
    for segment, mine in split_by_segment(segments, base, rows) if segments else ():
        origins[mine] = segment.origins(rows[mine])
    return origins


def free_unused(segments: Sequence[WindowSegment], blocks: Iterable[Block]) -> list[WindowSegment]:
    """Removes segments none of whose blocks is left; the others."""
    used = {id(block.segment) for block in blocks}
    for segment in segments:
        if id(segment) not in used:
            segment.free()
    return [segment for segment in segments if id(segment) in used]


def put_guides_away(segments: Sequence[WindowSegment], log: Guided, budget: MemoryBudget | None) -> None:
    """Those of the oldest segments of a log, as long as all take more than they may."""
    assert budget is not None
    for segment in segments:
        if budget.has_room_for_guides(log):
            return
        try:
            segment.put_guides_away()
        except ResourceError as error:
            budget.refused = error
            return
