"""PartitionedJoin (Exact, ch. 6, Alg. 8 and 9): a stream meets a relation on disk that is far larger than memory.

    stream ── input buffer ──┬── its segment is in memory: joined at once
                             └── wait buffer, a list for each segment ── disk probe: read, join the list, perhaps keep

The relation is cut by hash or by range. A segment is read when the wait buffer is full, the longest lists first until a
part of it is free, or when there is nothing else to do and a list is long enough. What is in memory follows from what
arrives (`join_memory`). If the input buffer grows, tuples whose segment is in memory wait until they are a block, which
shares a scan.

    Law: with `finish`, every tuple is joined with all rows of its key, as they were when it was fed, and once.

A list whose segment is in memory is never read for: it is joined with what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from sash.papers.exact.exact_kernels import partitioned_runs, relation_frames
from sash.papers.exact.exact_kernels.block_frames import KEY
from sash.papers.exact.exact_kernels.partitioned_runs import FedTuples, LoopRules
from sash.papers.exact.hash_partitions import HashPartitions
from sash.papers.exact.join_memory import JoinMemory
from sash.papers.exact.relation_segments import RelationRows, RelationSegments
from sash.papers.exact.relation_settings import HASH_PARTITIONED, PartitionedSettings
from sash.papers.exact.slot_array import NO_SEGMENT, SlotArray, make_slot_array
from sash.papers.exact.stream_relation_join import StreamRelationJoin
from sash.papers.exact.wait_buffer import WaitBuffer
from sash.papers.exact.work_clock import FoundPairs, PairBuffer


class PartitionedJoin(StreamRelationJoin[PartitionedSettings]):
    """Tuples wait for segments."""

    def _begin(self, relation: RelationRows) -> None:
        self.n_invoked = self.n_overflown = self.n_aged = self.n_flushed = 0
        """How often the disk was probed for a list that was long enough, because the wait buffer was full, because a
        tuple had waited for long enough, and in the end.
        """
        self.n_served = 0
        """How many tuples were joined with a segment that was read for them."""
        self._found = PairBuffer()
        self._cursor = np.zeros(partitioned_runs.N_CURSOR, np.int64)
        self._cut(relation)

    def feed(self, records: np.ndarray) -> Iterator[FoundPairs]:
        """Takes in tuples (`stream_tuples`), in order of arrival; pairs, as found. Some may wait beyond it."""
        fed = FedTuples(records, self.partitions.segments_of(records[:, KEY]), self._cursor)
        self._cursor[[partitioned_runs.TAKEN, partitioned_runs.ARRIVED]] = 0
        reason = partitioned_runs.NO_ROOM
        while reason != partitioned_runs.DONE:
            state = self.waiting.arrays, self.memory.arrays, self.memory.frequencies
            reason = partitioned_runs.run_partitioned(fed, *state, self._rules, self.clock.log, self._found.room)
            self._act(reason, int(self._cursor[partitioned_runs.PARTITION]))
            yield from self._found.take() if self._found.is_full else ()
        yield from self._found.take()

    def finish(self) -> Iterator[FoundPairs]:
        """Joins all who wait, the longest lists first: then no pair of the tuples so far is missing."""
        while (longest := self.waiting.longest()) is not None:
            self.n_flushed += self._probe(longest)
            yield from self._found.take()

    def update(self, deleted: RelationRows, inserted: RelationRows) -> Iterator[FoundPairs]:
        """The relation changes: who was fed before meets it as it was, who is fed later as it is now.

        So lists of segments that change are joined first. If a segment outgrows the R-buffer, or a key is outside the
        slot array's domain, all who wait are joined and the relation is cut anew.
        """
        changed = [self.partitions.segments_of(each.keys) for each in (deleted, inserted)]
        segments = np.unique(np.concatenate(changed)).tolist()
        for segment in segments:
            if segment >= 0 and len(self.waiting.waiting_for(segment)):
                self.n_flushed += self._probe(segment)
        rows = {segment: self._changed_rows(segment, deleted, inserted) for segment in segments if segment >= 0}
        n_room = len(self.memory.arrays.frames[-1]) * self.settings.block_rows
        if NO_SEGMENT in segments or any(len(each.rows) > n_room for each in rows.values()):
            yield from self.finish()
            others = [self.relation.rows(each) for each in range(len(self.relation)) if each not in rows]
            outside = RelationRows(*(each[changed[1] == NO_SEGMENT] for each in inserted))
            self._cut(RelationRows(*map(np.concatenate, zip(*rows.values(), *others, outside))))
        else:
            for segment, each in rows.items():
                self._replace(segment, each)
        yield from self._found.take()

    @property
    def is_block_mode(self) -> bool:
        """Whether it works block by block."""
        return bool(self._cursor[partitioned_runs.MODE] == partitioned_runs.BLOCK)

    @property
    def n_switches(self) -> int:
        """How often the granularity has changed."""
        return int(self._cursor[partitioned_runs.N_SWITCHES])

    @property
    def n_memory_blocks(self) -> int:
        """Blocks of all that it has in memory of tuples and rows."""
        return len(self.memory.arrays.records) + self.waiting.n_blocks

    def _cut(self, relation: RelationRows) -> None:
        """Writes the segments of a relation, in order of keys, and starts with an empty memory."""
        self.partitions = self._partition(relation.keys)
        self.relation = RelationSegments(self.disk, self.settings.block_rows, self.clock.wait_for_disk)
        segments = self.partitions.segments_of(relation.keys)
        order = np.lexsort((relation.rows, relation.keys, segments))
        bounds = np.searchsorted(segments[order], np.arange(self.partitions.n_parts + 1))
        for first, last in pairwise(bounds.tolist()):
            chosen = order[first:last]
            self.relation.append(RelationRows(relation.rows[chosen], relation.keys[chosen]))
        self.memory = JoinMemory(self.settings, self.relation)
        self.waiting = WaitBuffer(self.settings.wait, self.settings.stream_rows, self.partitions.n_parts)

    def _changed_rows(self, segment: int, deleted: RelationRows, inserted: RelationRows) -> RelationRows:
        """The rows of a segment as they are now, in order of keys."""
        old = self.relation.rows(segment)
        is_kept = ~np.isin(old.rows, deleted.rows)
        is_own = self.partitions.segments_of(inserted.keys) == segment
        rows, keys = (np.concatenate([one[is_kept], other[is_own]]) for one, other in zip(old, inserted))
        order = np.lexsort((rows, keys))
        return RelationRows(rows[order], keys[order])

    def _replace(self, segment: int, rows: RelationRows) -> None:
        """Writes a segment that has changed; what was in memory of it is out of date."""
        if self.memory.is_resident(segment):
            self.memory.drop(segment)
        self.relation.replace(segment, rows)

    def _partition(self, keys: np.ndarray) -> HashPartitions | SlotArray:
        if self.settings.partitioning == HASH_PARTITIONED:
            return HashPartitions(self.settings.n_part)
        return make_slot_array(keys, self.settings.theta, self.settings.max_levels)

    @property
    def _rules(self) -> LoopRules:
        settings = self.settings
        return LoopRules(
            settings.n_invoke,
            settings.h_mark * settings.stream_rows,
            settings.l_mark * settings.stream_rows,
            settings.is_eager,
            -1.0 if settings.max_wait_us is None else float(settings.max_wait_us),
            settings.epoch,
            settings.alpha,
            self.clock.looked_at_us,
        )

    def _act(self, reason: int, partition: int) -> None:
        """Does what the loop has stopped for."""
        if reason == partitioned_runs.NO_ROOM:
            self._found.make_room()
        elif reason == partitioned_runs.OVERFLOW:
            self._make_free()
        elif reason == partitioned_runs.CLEAN_UP:
            for each in self.memory.residents.tolist():
                self._join(each, each)
        elif reason == partitioned_runs.INVOKE:
            self.n_invoked += self._probe(partition)
        elif reason == partitioned_runs.AGED:
            self.n_aged += self._probe(partition)
        elif reason == partitioned_runs.BLOCK_FULL:
            self._join(partition, partition)
        elif reason == partitioned_runs.LOOK:
            self.clock.look()

    def _make_free(self) -> None:
        """Alg. 8, lines 27–32."""
        while self.waiting.n_free <= self.settings.r_wb * self.waiting.n_blocks:
            longest = self.waiting.longest()
            assert longest is not None
            self.n_overflown += self._probe(longest)

    def _probe(self, partition: int) -> int:
        """DISKPROBE (Alg. 9); how many segments were read: none if it is in memory."""
        if self.memory.is_resident(partition):
            self._join(partition, partition)
            return 0
        self.memory.load(partition)
        self.n_served += int(self.waiting.arrays.n_tuples[partition])
        self._join(partition, self.memory.buffer)
        self.memory.admit(partition)
        return 1

    def _join(self, partition: int, where: int) -> None:
        """Joins a list with its segment, which is at a place of memory, and gives its blocks back."""
        progress = self.waiting.start_of(partition)
        state = self.waiting.arrays, self.memory.arrays, progress, self.clock.log
        while not relation_frames.join_list(partition, where, *state, self._found.room):
            self._found.make_room()
        self.waiting.release(partition)
