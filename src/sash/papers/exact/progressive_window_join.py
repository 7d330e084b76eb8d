"""RPWJ, Rate-based Progressive Window Join (Exact, ch. 4): XJoin's family made to slide.

    memory stage      while tuples are pending: each meets its partition of the other stream's memory, and is kept.
                      No frame is free: the partitions whose partners come least often are flushed, whole.
    reactive stage    nothing is pending: the task with the most results per second, see `reactive_tasks`.
    periodic stage    every slide: all tasks; then what has ended leaves, from memory and from disk.

Tuples are processed one by one, or in blocks while many are pending. Who has met whom follows from times alone (§4.4):
when a row arrived in memory, when its block left it, when tasks were run. All are numbers of events in one count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sash.papers.exact.block_memory import BlockMemory
from sash.papers.exact.exact_kernels import block_frames, progressive_runs
from sash.papers.exact.exact_kernels.block_frames import KEY, LATE, REMOVED, SEQ, TS
from sash.papers.exact.exact_kernels.exact_runs import AT, FedRows
from sash.papers.exact.exact_kernels.progressive_runs import EVENTS, LEVEL, Partitions
from sash.papers.exact.exact_settings import RpwjSettings
from sash.papers.exact.partition_runs import PartitionRuns
from sash.papers.exact.reactive_tasks import MEMORY, ReactiveTask, TaskPool
from sash.papers.exact.task_joiner import TaskJoiner
from sash.papers.exact.work_clock import FoundPairs, PairBuffer, WorkClock
from sash.store.batch import BEGINNING, NEVER
from sash.store.block_disk import BlockDisk
from sash.store.model_disk import DISK_9LZX, DiskModel, ModelDisk


class ProgressiveWindowJoin:
    """Joins two streams whose rows are fed in order of time."""

    def __init__(
        self,
        settings: RpwjSettings,
        disk: BlockDisk | None = None,
        clock: WorkClock | None = None,
        model: DiskModel = DISK_9LZX,
        is_gap_of_partition: bool = False,
    ):
        """`disk` is a `ModelDisk` if nothing is said; `model` says what tasks are expected to take.

        `is_gap_of_partition`: a gap is between reactive stages of the same partition, not between any two.
        """
        n_part = settings.n_part
        self.settings = settings
        self.clock = clock or WorkClock()
        self.disk = disk or ModelDisk(settings.block_bytes, model)
        self.memory = BlockMemory(settings.memory, settings.block_rows, n_part)
        self.pool = TaskPool(n_part, model, settings.m_read * settings.block_bytes)
        self.found = PairBuffer()
        self.parts: list[list[list[int]]] = [[[] for _ in range(n_part)] for _ in range(2)]
        """The blocks of each stream's partitions that are in memory, the oldest first."""
        runs = [PartitionRuns(self.disk, settings.block_bytes, self.clock.wait_for_disk) for _ in range(2 * n_part)]
        self.runs = [runs[:n_part], runs[n_part:]]
        self.task_times: list[list[list[int]]] = [[[] for _ in range(n_part)] for _ in range(2)]
        """When tasks of a partition's memory were run, as far as anything on disk was in memory then."""
        self.last_dd = np.zeros((2, n_part), np.int64)
        """What the last task of both disks has seen of each."""
        self.n_flushes = self.n_tasks = self.n_periods = self.n_reactions = 0
        self.partitions = Partitions(
            open=np.full((2, n_part), -1),
            arrivals=np.zeros((2, n_part)),
            expected=self.pool.expected_md,
            disk_rows=np.zeros((2, n_part), np.int64),
            state=np.array([0, 0, not self.clock.is_virtual], np.int64),
        )
        marks = settings.h_mark * settings.block_rows, settings.l_mark * settings.block_rows
        self._limits = np.array([np.inf, np.inf, *marks])
        self._joiner = TaskJoiner(self.memory, self.clock, self.found, settings.m_read)
        self._decay_us: float | None = None
        self._is_gap_of_partition = is_gap_of_partition
        self._gap_us = settings.gap_us / (n_part if is_gap_of_partition else 1)
        """After which it looks again if no task was worth its time."""
        self._ready_us = np.full(n_part, -np.inf)
        self._ats = np.zeros((len(self.memory.frame_of), 2), np.int64)
        self._sure_us, self._is_silent = BEGINNING, False

    def feed(
        self, records: np.ndarray, sides: np.ndarray, horizon: int = NEVER, is_silent: bool = False
    ) -> Iterator[FoundPairs]:
        """Takes in rows (`block_frames`: row, key, time, end) of both streams, in order of time; pairs, as found.

        No row that is fed later is older than `horizon`. `is_silent`: all pairs of these rows are known.
        """
        fed, self._is_silent = FedRows(records, sides, np.array([0, is_silent, 0])), is_silent
        if len(records):
            self._begin(float(records[0, TS]))
        reason = progressive_runs.NO_FRAME
        while reason != progressive_runs.DONE:
            state = self.memory.frames, self.memory.heads, self.partitions, self._limits, self.clock.log
            reason = progressive_runs.run_memory_stage(fed, *state, self.found.room)
            at = min(int(fed.state[AT]), max(len(records) - 1, 0))
            self._sure_us = min(int(records[at, TS]), horizon) if len(records) else self._sure_us
            self._answer(reason, fed)
            yield from self.found.take() if self.found.is_full else ()
        yield from self.found.take()

    def settle(self) -> Iterator[FoundPairs]:
        """A periodic stage: no pair of the rows so far is missing."""
        self._run_period()
        yield from self.found.take()

    @property
    def disks(self) -> list[BlockDisk]:
        return [self.disk]

    def _begin(self, first_us: float) -> None:
        """Time begins with the first row."""
        if self._decay_us is None:
            self._decay_us = first_us + self.settings.epoch_us
            self._limits[progressive_runs.PERIODIC_US] = first_us + self.settings.slide_us
            if self.clock.is_virtual:
                self._limits[progressive_runs.REACTIVE_US] = first_us

    def _answer(self, reason: int, fed: FedRows) -> None:
        """Does what the memory stage has stopped for."""
        at = int(fed.state[AT])
        if reason == progressive_runs.NO_ROOM:
            self.found.make_room()
        elif reason == progressive_runs.FULL:
            self._close(*self._place_of(fed, at - 1))
        elif reason == progressive_runs.NO_FRAME:
            self._open(*self._place_of(fed, at))
        elif reason == progressive_runs.SWITCH:
            self._close_all()
            self.partitions.state[LEVEL] = 1 - self.partitions.state[LEVEL]
        elif reason == progressive_runs.IDLE:
            self._react(float(fed.records[at, TS]))
        elif reason == progressive_runs.PERIODIC:
            self._wait_for_period(float(fed.records[at, TS]))
            self._run_period()

    def _place_of(self, fed: FedRows, at: int) -> tuple[int, int]:
        """Stream and partition of a row that is fed."""
        return int(fed.sides[at]), block_frames.bucket_of_key(fed.records[at, KEY], self.settings.n_part)

    def _tick(self) -> int:
        """The number of a new event."""
        self.partitions.state[EVENTS] += 1
        return int(self.partitions.state[EVENTS])

    def _open(self, side: int, partition: int) -> None:
        """Gives a partition an open block; if no frame is free, there is a flush first."""
        self._decay_arrivals()
        if not self.memory.n_free:
            self._flush()
        block = self.memory.open_block(side, partition, -1)
        if len(self._ats) < len(self.memory.frame_of):
            self._ats = np.pad(self._ats, ((0, len(self.memory.frame_of) - len(self._ats)), (0, 0)))
        self.parts[side][partition].append(block)
        self.partitions.open[side, partition] = self.memory.frame_of[block]

    def _close(self, side: int, partition: int) -> None:
        """The open block of a partition takes no more; its rows are joined, if they were not one by one."""
        frame = int(self.partitions.open[side, partition])
        if frame < 0:
            return
        n_rows, block = int(self.memory.frames.n_rows[frame]), int(self.memory.frames.blocks[frame])
        self.partitions.open[side, partition] = -1
        if not n_rows:
            self.parts[side][partition].remove(block)
            self.memory.drop(side, block)
            self.memory.forget(block)
            return
        if self.partitions.state[LEVEL]:
            self._join_block(side, partition, frame, n_rows)
        self._ats[block] = self.memory.frames.records[frame, [0, n_rows - 1], SEQ]
        self.memory.seal(block)

    def _join_block(self, side: int, partition: int, frame: int, n_rows: int) -> None:
        """All rows of a block meet the other stream's memory at one time."""
        memory, upto = self.memory, n_rows if self._is_silent else 0
        memory.frames.records[frame, :n_rows, SEQ] = self._tick()
        while upto < n_rows:
            upto = block_frames.meet_rows(memory.frames, memory.heads, frame, upto, self.clock.log, self.found.room)
            if upto < n_rows:
                self.found.make_room()
        block_frames.link_rows(memory.frames, memory.heads, frame, 0, n_rows)
        self.pool.expected_md[side, partition] += n_rows * self.partitions.disk_rows[1 - side, partition]

    def _close_all(self) -> None:
        for side in (0, 1):
            for partition in range(self.settings.n_part):
                self._close(side, partition)

    def _decay_arrivals(self) -> None:
        """Counts of arrivals are decayed as epochs go by."""
        assert self._decay_us is not None
        n_epochs = int((self.clock.now_us - self._decay_us) // self.settings.epoch_us) + 1
        if n_epochs > 0:
            self.partitions.arrivals[:] *= self.settings.alpha**n_epochs
            self._decay_us += n_epochs * self.settings.epoch_us

    def _flush(self) -> None:
        """Flushes the partitions whose partners come least often, until enough has gone (§4.3)."""
        self.n_flushes += 1
        wanted, n_flushed = self.settings.flush * self.settings.memory, 0
        for place in np.argsort(self.partitions.arrivals, axis=None, kind="stable").tolist():
            side, partition = divmod(place, self.settings.n_part)
            n_flushed += self._flush_part(1 - side, partition)
            if n_flushed >= wanted:
                return

    def _flush_part(self, side: int, partition: int) -> int:
        """Writes the memory of a partition as a run; of how many blocks."""
        self._close(side, partition)
        blocks, memory = self.parts[side][partition], self.memory
        if blocks:
            self.runs[side][partition].append(blocks, memory.records(blocks), self._tick())
            self.partitions.disk_rows[side, partition] += sum(map(memory.size, blocks))
            for block in blocks:
                memory.drop(side, block)
            self.pool.flush(side, partition)
            self.parts[side][partition] = []
        return len(blocks)

    def _react(self, next_us: float) -> None:
        """Nothing is pending until then: runs the most promising task."""
        self.clock.wait_until(float(self._limits[progressive_runs.REACTIVE_US]))
        is_ready = self._ready_us <= self.clock.now_us
        task = self.pool.best([[runs.part for runs in each] for each in self.runs], is_ready)
        if task is not None:
            self._run(task)
            self.n_reactions += 1
            own = task.partition if self._is_gap_of_partition else slice(None)
            self._ready_us[own] = self.clock.now_us + self.settings.gap_us
            next_us = float(self._ready_us.min())
        else:
            next_us = max(next_us, self.clock.now_us + self._gap_us)
        self._limits[progressive_runs.REACTIVE_US] = next_us

    def _wait_for_period(self, next_us: float) -> None:
        """The stage begins when it is due; within a step, where nothing is ever idle, with the next tuple."""
        due_us = float(self._limits[progressive_runs.PERIODIC_US])
        self.clock.wait_until(due_us if self.clock.is_virtual else next_us)

    def _run_period(self) -> None:
        """Runs all tasks, and then lets go what has ended."""
        self.n_periods += 1
        self._close_all()
        for task in self.pool.tasks():
            self._run(task)
        for side in (0, 1):
            for partition in range(self.settings.n_part):
                self._invalidate(side, partition)
        next_us = max(self._limits[progressive_runs.PERIODIC_US], self.clock.now_us)
        self._limits[progressive_runs.PERIODIC_US] = next_us + self.settings.slide_us

    def _run(self, task: ReactiveTask) -> None:
        """Runs a task if both of its parts have rows."""
        partition = task.partition
        if self._is_silent:
            self._note(task)
        elif task.kind == MEMORY and self.parts[task.side][partition] and self.runs[1 - task.side][partition]:
            times = self.task_times[task.side][partition]
            blocks = self._met_blocks(task.side, partition)
            runs = self.runs[1 - task.side][partition]
            self._joiner.join_memory(task.side, blocks, runs, times[-1] if times else 0)
            self._note(task)
        elif task.kind != MEMORY and self.runs[0][partition] and self.runs[1][partition]:
            times = [self.task_times[side][partition] for side in (0, 1)]
            runs = self.runs[0][partition], self.runs[1][partition]
            self._joiner.join_disks(runs, times, self.last_dd[:, partition].copy(), self._ats[:, 1])
            self._note(task)
        self.pool.done(task)

    def _met_blocks(self, side: int, partition: int) -> np.ndarray:
        """Of each block in memory whose rows can be met: when the last one arrived, and how many there are."""
        frames, found = self.memory.frames, []
        for block in self.parts[side][partition]:
            frame, n_rows = self.memory.frame_of[block], self.memory.size(block)
            is_open = frame == self.partitions.open[side, partition]
            if n_rows and not (is_open and self.partitions.state[LEVEL]):
                found.append((frames.records[frame, n_rows - 1, SEQ], n_rows))
        return np.array(found, np.int64).reshape(-1, 2)

    def _note(self, task: ReactiveTask) -> None:
        """Notes when a task was run, or what it has seen."""
        self.n_tasks += 1
        partition = task.partition
        if task.kind == MEMORY:
            self.task_times[task.side][partition].append(self._tick())
            return
        for side in (0, 1):
            if self.runs[side][partition]:
                self.last_dd[side, partition] = self.runs[side][partition].last_dts

    def _invalidate(self, side: int, partition: int) -> None:
        """Lets go the blocks of a partition that have ended, in memory and on disk, and times kept for them."""
        memory, runs = self.memory, self.runs[side][partition]
        blocks = self.parts[side][partition]
        n_rows = [sum(map(memory.size, blocks)), int(self.partitions.disk_rows[side, partition])]
        ended = [block for block in blocks if memory.last_end[block] <= self._sure_us]
        self.parts[side][partition] = [block for block in blocks if memory.last_end[block] > self._sure_us]
        for block in ended:
            memory.drop(side, block)
        gone = runs.drop_ended(memory.last_end, self._sure_us)
        self._forget(ended + gone)
        n_gone = [sum(map(memory.size, ended)), sum(map(memory.size, gone))]
        self.partitions.disk_rows[side, partition] -= n_gone[1]
        left = [1 - gone / before if before else 1.0 for gone, before in zip(n_gone, n_rows)]
        self.pool.shrink(side, partition, left[0], left[1])
        self._prune(side, partition)

    def _forget(self, blocks: list[int]) -> None:
        late_us = self.clock.now_us - self.settings.slide_us
        for block in blocks:
            self.clock.log.counters[REMOVED] += self.memory.size(block)
            self.clock.log.counters[LATE] += self.memory.size(block) * bool(self.memory.last_end[block] < late_us)
            self.memory.forget(block)

    def _prune(self, side: int, partition: int) -> None:
        """Times of tasks before all that is left of a partition arrived tell nothing."""
        left = np.concatenate([self.runs[side][partition].blocks, np.array(self.parts[side][partition], np.int64)])
        first = int(self._ats[left, 0].min()) if len(left) else NEVER
        times = self.task_times[side][partition]
        self.task_times[side][partition] = [each for each in times if each > first]
