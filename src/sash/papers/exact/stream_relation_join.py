"""What joins of a stream with a relation on disk (Exact, ch. 6) have in common: settings, a disk and a clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

from sash.papers.exact.relation_segments import RelationRows
from sash.papers.exact.relation_settings import RelationSettings
from sash.papers.exact.work_clock import FoundPairs, WorkClock
from sash.store.block_disk import BlockDisk
from sash.store.model_disk import ModelDisk

S = TypeVar("S", bound=RelationSettings)


class StreamRelationJoin(ABC, Generic[S]):
    """Joins a stream, fed in order of arrival, with a relation. Pairs are of a tuple's number and a row's."""

    def __init__(
        self,
        settings: S,
        relation: RelationRows,
        disk: BlockDisk | None = None,
        clock: WorkClock | None = None,
    ):
        """`disk` is a `ModelDisk` if nothing is said; see `WorkClock` for the clock."""
        self.settings = settings
        self.clock = clock or WorkClock()
        self.disk = disk or ModelDisk(settings.block_bytes, adjacent_blocks=settings.basic_window)
        self._begin(relation)

    @abstractmethod
    def _begin(self, relation: RelationRows) -> None:
        """Writes the relation, and is ready for tuples."""

    @abstractmethod
    def feed(self, records: np.ndarray) -> Iterator[FoundPairs]:
        """Takes in tuples (`stream_tuples`), in order of arrival; pairs, as found. Some may wait beyond it."""

    @abstractmethod
    def finish(self) -> Iterator[FoundPairs]:
        """Joins all who wait: then no pair of the tuples so far is missing."""

    @property
    @abstractmethod
    def n_memory_blocks(self) -> int:
        """Blocks of all that it has in memory."""
