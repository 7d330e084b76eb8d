"""A query that runs in this process, fed batch by batch.

    query.push("temperature", batch)  -> changes that are due
    query.advance(time)               -> changes that are due because nothing up to `time` is still to come
    query.finish()                    -> the rest, up to the last timestamp seen

Changes come out in order of `_ts`, each as soon as no row that could change what is before it can still come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sash.embedded.row_notes import Notes
from sash.embedded.running_job import Answer, RunningJob
from sash.embedded.snapshot import seal, unseal
from sash.errors import PlanError, SashWarning, SourceError
from sash.operators.operator import Stateful
from sash.operators.operator_tree import Work
from sash.operators.stream_clock import StreamClock
from sash.plan.least_memory import require_memory
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.runtime.callers import short_tracebacks, warn_caller
from sash.runtime.kept_answer import NOT_IN_SNAPSHOT, NOT_KEPT, Keep, KeptAnswer, history_of
from sash.runtime.memory_settings import Size, configured
from sash.runtime.moments import Moment, moment_us
from sash.store.spill_arena import SpillArena


@short_tracebacks
class Query:
    """A query that runs by itself: what `sash.query` gives."""

    is_quiet = False
    """Whether warnings are told by somebody else."""

    def __init__(
        self,
        plan: QueryPlan,
        relations: Mapping[str, pa.Table],
        clocks: Mapping[str, StreamClock] | None = None,
        waiting: Mapping[str, Sequence[pa.Table]] | None = None,
        memory: Size | None = None,
        keep_answer: Keep = False,
    ):
        """`memory` is the limit if it is another one than this process has. With `keep_answer` what is in the answer is
        kept for `answer`.
        """
        self.plan = plan
        alone, budget = Plan.alone(plan), configured(memory).budget()
        require_memory([alone], budget)
        self._job = RunningJob(alone, relations, clocks, waiting, budget)
        self._intake = self._job.intake
        history_us = history_of(keep_answer)
        self._kept = None if history_us is None else KeptAnswer(plan, history_us)

    def push(self, stream: str, rows: Any) -> pa.Table:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now.

        The rows are an Arrow, pandas or Polars frame, or a list of dictionaries. What has no time is in `rejected`.
        Where a warning is an error, nothing of them is taken: they may be pushed again, without it.
        """
        self._job.require_room()
        mark = self._intake.mark(stream)
        arrivals = self._intake.take(stream, rows, self.plan.slots)
        try:
            self._warn()
        except SashWarning:
            self._intake.give_back(mark)
            raise
        return self._gathered(self._job.step(arrivals))

    def advance(self, time_us: Moment, stream: str | None = None) -> pa.Table:
        """Declares one stream, or all, complete up to and including a time, in microseconds or as a datetime; returns
        the changes that are due now.
        """
        return self._gathered(self._job.advance(moment_us(time_us), stream))

    def finish(self) -> pa.Table:
        """Declares all streams complete up to the last timestamp seen in any of them."""
        return self._gathered(self._job.finish())

    def answer(self, at: Moment | None = None) -> pa.Table:
        """The rows that are in the answer at an instant, or at the clock; for a query that was made with `keep_answer`.

        With `keep_answer=True` it is known at the clock alone, with a length of time since so long before.
        """
        if self._kept is None:
            raise PlanError(f"the answer {NOT_KEPT}")
        return self._kept.answer(at, self.clock)

    @property
    def clock(self) -> int:
        """Up to and including this time the answer is final."""
        return self._intake.clock

    @property
    def clocks(self) -> Mapping[str, StreamClock]:
        """How far each stream has come."""
        return self._intake.clocks

    @property
    def late(self) -> dict[str, list[pa.Table]]:
        """Rows that came too late, by stream, with all the columns they were pushed with."""
        return self._intake.late

    @property
    def n_read(self) -> dict[str, int]:
        """Rows so far, by stream."""
        return self._intake.n_read

    @property
    def n_late(self) -> dict[str, int]:
        """Late rows so far, by stream."""
        return self._intake.n_late

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return self._intake.rejected

    @property
    def n_rejected(self) -> dict[str, int]:
        """Rejected rows so far, by stream."""
        return self._intake.n_rejected

    @property
    def notes(self) -> Notes:
        """What whoever pushes should be told."""
        return self._intake.notes

    @property
    def n_held(self) -> dict[str, int]:
        """Rows that may be too far ahead, by stream: what comes next decides."""
        return self._intake.n_held

    @property
    def n_state_rows(self) -> int:
        """Rows held in state now."""
        return self._job.pipeline.n_rows

    @property
    def n_state_bytes(self) -> int:
        """Bytes held in state now."""
        return self._job.pipeline.n_bytes

    @property
    def arena(self) -> SpillArena | None:
        """Where what is kept is, if memory is limited."""
        return self._job.arena

    def work(self) -> dict[str, Work]:
        """What each operator did in the last step, by its name."""
        return {name.operator: work for name, work in self._job.pipeline.work().items()}

    def operators(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that run, by name."""
        return ((name.operator, operator) for name, operator in self._job.pipeline.operators())

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        kept = None if self._kept is None else self._kept.export_state()
        return seal("query", (self._job.export_state(), kept))

    def restore(self, snapshot: bytes) -> None:
        """Becomes the query that the snapshot was taken of; it must be of the same text.

        Raises SourceError, and stays as it was, if the snapshot is damaged, or of another query or version.
        """
        job, kept = unseal("query", snapshot)
        if self._kept is not None and kept is None:
            raise SourceError(NOT_IN_SNAPSHOT)
        self._job.import_state(job)
        if self._kept is not None:
            self._kept.import_state(kept)

    def _warn(self) -> None:
        """Tells whoever pushes."""
        for note in () if self.is_quiet else self._intake.notes.take():
            warn_caller(note)

    def _gathered(self, answers: Iterable[Answer]) -> pa.Table:
        changes = pa.concat_tables([self.plan.schema.empty_table(), *(changes for _, changes in answers)])
        if self._kept is not None:
            self._kept.take(changes)
            self._kept.go_on(self.clock)
        return changes
