"""MESHJOIN as Exact, §6.2 describes it: a relation goes round past a queue of stream tuples.

    queue    w1 ▏w2 ▏…  ▏wk          k segments of w tuples, found by a hash table over all of them
    disk     d1 ▏d2 ▏…  ▏dk          k segments of d blocks, read one after the other, round and round

When the head of the queue is full, the next segment of the relation is read and joined with all that is queued. The
tail has then met all k segments, and expires: every tuple leaves after exactly k reads. With memory for M blocks,
k = |R| / d and w = (M − d) / k, without what the table and pointers take. Nothing is read while the head is not full.

    Law: with `finish`, every tuple is joined with all rows of its key, once. The relation must not change meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from sash.errors import PlanError
from sash.papers.exact.exact_kernels import mesh_runs
from sash.papers.exact.exact_kernels.mesh_runs import MeshQueue
from sash.papers.exact.exact_kernels.relation_frames import STREAM_WIDTH
from sash.papers.exact.relation_segments import RelationRows, RelationSegments
from sash.papers.exact.relation_settings import MeshSettings
from sash.papers.exact.stream_relation_join import StreamRelationJoin
from sash.papers.exact.work_clock import FoundPairs, PairBuffer


class MeshJoin(StreamRelationJoin[MeshSettings]):
    """The relation goes past the tuples."""

    def _begin(self, relation: RelationRows) -> None:
        settings = self.settings
        self.relation = RelationSegments(self.disk, settings.block_rows, self.clock.wait_for_disk)
        rows = settings.read * settings.block_rows
        for first in range(0, max(1, len(relation.rows)), rows):
            self.relation.append(RelationRows(*(each[first : first + rows] for each in relation)))
        self.n_segments = len(self.relation)
        """k, of the queue and of the relation."""
        self.segment_rows = (settings.memory - settings.read) * settings.stream_rows // self.n_segments
        """w: the tuples of a segment of the queue."""
        if not self.segment_rows:
            raise PlanError(
                f"`memory` is {settings.memory} blocks, too little for a queue of {self.n_segments} segments, as many "
                "as the relation has; give more, or a larger `read`"
            )
        self.queued: deque[int] = deque()
        """Tuples of each segment of the queue behind the head, the tail first."""
        self.n_head = 0
        """Tuples of the head."""
        self._next_read = 0
        self._found = PairBuffer()
        self._queue = _make_queue(self.n_segments * self.segment_rows, settings.n_bucket)

    def feed(self, records: np.ndarray) -> Iterator[FoundPairs]:
        """Takes in tuples (`stream_tuples`), in order of arrival; pairs, as found. Most wait beyond it."""
        at = 0
        while at < len(records):
            n_wanted = self.segment_rows - self.n_head
            n_taken = mesh_runs.fill_head(records, at, n_wanted, self._queue, self.clock.log)
            at, self.n_head = at + n_taken, self.n_head + n_taken
            self.clock.look()
            if self.n_head == self.segment_rows:
                self._turn()
                self.clock.look()
            yield from self._found.take() if self._found.is_full else ()
        yield from self._found.take()

    def finish(self) -> Iterator[FoundPairs]:
        """Goes on until the queue is empty, as if heads were full: then no pair is missing."""
        while self.n_head or any(self.queued):
            self._turn()
            yield from self._found.take()

    @property
    def n_queued(self) -> int:
        """Tuples of the queue, with those of the head."""
        return sum(self.queued) + self.n_head

    @property
    def n_memory_blocks(self) -> int:
        """Blocks of the queue and of the R-buffer."""
        return self.settings.read - (-len(self._queue.records) // self.settings.stream_rows)

    def _turn(self) -> None:
        """The head is full: one segment is read and joined, the tail expires, and all others move on by one."""
        self.queued.append(self.n_head)
        self.n_head = 0
        number = self._next_read
        blocks, progress = self.relation.read(number), np.zeros(1, np.int64)
        n_rows = int(self.relation.n_rows[number])
        while not mesh_runs.probe_queue(blocks, n_rows, progress, self._queue, self.clock.log, self._found.room):
            self._found.make_room()
        self._next_read = (number + 1) % self.n_segments
        if len(self.queued) == self.n_segments:
            mesh_runs.expire_tail(self.queued.popleft(), self._queue, self.clock.log)


def _make_queue(n_places: int, n_bucket: int) -> MeshQueue:
    n_chains = 1 << max(4, n_places.bit_length())
    return MeshQueue(
        np.empty((n_places, STREAM_WIDTH), np.int64),
        np.full((n_places, 2), -1),
        np.full(n_chains, -1),
        np.zeros(n_bucket, np.int64),
        np.zeros(2, np.int64),
    )
