"""A query that runs in this process, fed batch by batch.

    query.push("temperature", batch)  -> changes that are due
    query.advance(time)               -> changes that are due because nothing up to `time` is still to come
    query.finish()                    -> the rest, up to the last timestamp seen

Changes come out in order of `_ts`, each as soon as no row that could change what is before it can still come.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sash.embedded.intake import Intake
from sash.embedded.row_notes import Notes
from sash.embedded.snapshot import seal, unseal
from sash.errors import SashWarning, SourceError
from sash.operators.changes import to_changes
from sash.operators.operator import Operator
from sash.operators.pipeline import Work
from sash.operators.stream_clock import StreamClock
from sash.plan.physical import Plan
from sash.runtime.moments import Moment, moment_us


class Query:
    """A running query."""

    is_quiet = False
    """Whether warnings are told by somebody else."""

    def __init__(
        self,
        plan: Plan,
        relations: Mapping[str, pa.Table],
        clocks: Mapping[str, StreamClock] | None = None,
        waiting: Mapping[str, Sequence[pa.Table]] | None = None,
    ):
        self.plan = plan
        self._intake = Intake(plan.streams, clocks, waiting)
        self._pipeline = plan.pipeline(relations, in_order=True)

    def push(self, stream: str, rows: Any) -> pa.Table:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now.

        The rows are an Arrow, pandas or Polars frame, or a list of dictionaries. What has no time is in `rejected`.
        Where a warning is an error, nothing of them is taken: they may be pushed again, without it.
        """
        mark = self._intake.mark(stream)
        arrivals = self._intake.take(stream, rows, self.plan.slots)
        try:
            self._warn()
        except SashWarning:
            self._intake.give_back(mark)
            raise
        return self._step(arrivals)

    def advance(self, time_us: Moment, stream: str | None = None) -> pa.Table:
        """Declares one stream, or all, complete up to and including a time, in microseconds or as a datetime; returns
        the changes that are due now.
        """
        return self._step(self._intake.complete(moment_us(time_us), stream, self.plan.slots))

    def finish(self) -> pa.Table:
        """Declares all streams complete up to the last timestamp seen in any of them."""
        return self._step(self._intake.complete_all(self.plan.slots))

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
        return self._pipeline.n_rows

    @property
    def n_state_bytes(self) -> int:
        """Bytes held in state now."""
        return self._pipeline.n_bytes

    def work(self) -> dict[str, Work]:
        """What each operator did in the last step, by its name."""
        return self._pipeline.work()

    def operators(self) -> Iterator[tuple[str, Operator]]:
        """The operators that run, by name."""
        return self._pipeline.operators()

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        return seal("query", self.held())

    def restore(self, snapshot: bytes) -> None:
        """Becomes the query that the snapshot was taken of; it must be of the same text.

        Raises SourceError, and stays as it was, if the snapshot is damaged, or of another query or version.
        """
        self.hand(unseal("query", snapshot))

    def held(self) -> Any:
        """All that is needed to go on, as plain data; see `hand`."""
        return self.plan.fingerprint, (self._pipeline.entries(), self._pipeline.registers()), self._intake.held()

    def hand(self, held: Any) -> None:
        """Goes on with what `held` gave."""
        fingerprint, state, intake = held
        if fingerprint != self.plan.fingerprint:
            raise SourceError("the snapshot belongs to another query; restore it into the query it was taken of")
        self._pipeline.restore(*state)
        self._intake.hand(intake)

    def _warn(self) -> None:
        """Tells whoever pushes."""
        for note in () if self.is_quiet else self._intake.notes.take():
            warnings.warn(note, SashWarning, stacklevel=3)

    def _step(self, arrivals: dict[int, pa.Table]) -> pa.Table:
        parts = self._pipeline.paced_steps(arrivals, self.clock, self._intake.clocks_of(self.plan.slots))
        return pa.concat_tables(to_changes(part, self.plan.schema, self.plan.emit_changes) for part in parts)
