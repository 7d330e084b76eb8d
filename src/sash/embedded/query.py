"""A query that runs in this process, fed batch by batch.

    query.push("temperature", batch)  -> changes that are due
    query.advance(time)               -> changes that are due because nothing up to `time` is still to come
    query.finish()                    -> the rest, up to the last timestamp seen

Changes come out in order of `_ts`, each as soon as no row that could change what is before it can still come.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import astuple

import pyarrow as pa

from sash.errors import BindError, SourceError, suggest
from sash.operators.changes import read_times, to_changes
from sash.operators.operator import Operator
from sash.operators.pipeline import Work
from sash.operators.stream_clock import StreamClock
from sash.plan.physical import Plan
from sash.store.batch import BEGINNING


class Query:
    """A running query."""

    def __init__(self, plan: Plan, relations: Mapping[str, pa.Table], clocks: Mapping[str, StreamClock] | None = None):
        self.plan = plan
        self.late: dict[str, list[pa.Table]] = {name: [] for name in plan.streams}
        """Rows that came too late, by stream, with all the columns they were pushed with."""
        self.n_read = dict.fromkeys(plan.streams, 0)
        self._clocks = dict(clocks or {name: StreamClock(info.slack_us) for name, info in plan.streams.items()})
        self._pipeline = plan.pipeline(relations, in_order=True)
        self._schemas = {name: info.schema for name, info in plan.streams.items()}

    def push(self, stream: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now."""
        name = self._known(stream)
        arrived = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        rows = _conform(arrived, self._schemas[name], name)
        ts = read_times(rows.column(self.plan.streams[name].time))
        in_time = self._clocks[name].admit(ts)
        self.n_read[name] += rows.num_rows
        if not in_time.all():
            self.late[name].append(arrived.filter(pa.array(~in_time)))
            rows, ts = rows.filter(pa.array(in_time)), ts[in_time]
        slots = [slot for slot in self.plan.slots if slot.source.name == name]
        return self._step({slot.number: slot.ingest.apply(rows, ts) for slot in slots})

    def advance(self, time_us: int, stream: str | None = None) -> pa.Table:
        """Declares one stream, or all, complete up to and including a time; returns the changes that are due now."""
        for name in self._clocks if stream is None else [self._known(stream)]:
            self._clocks[name].complete(time_us)
        return self._step({})

    def finish(self) -> pa.Table:
        """Declares all streams complete up to the last timestamp seen in any of them."""
        newest = max(clock.newest_us for clock in self._clocks.values())
        return self.advance(newest) if newest > BEGINNING else self._step({})

    @property
    def clock(self) -> int:
        """Up to and including this time the answer is final."""
        return min(clock.clock for clock in self._clocks.values())

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

    @property
    def n_late(self) -> dict[str, int]:
        """Late rows so far, by stream."""
        return {name: sum(table.num_rows for table in tables) for name, tables in self.late.items()}

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        clocks = {name: astuple(clock) for name, clock in self._clocks.items()}
        state = self._pipeline.entries(), self._pipeline.registers()
        return pickle.dumps((self.plan.fingerprint, state, clocks, self.n_read, self.late))

    def restore(self, snapshot: bytes) -> None:
        """Becomes the query that the snapshot was taken of; it must be of the same text."""
        fingerprint, state, clocks, n_read, late = pickle.loads(snapshot)
        if fingerprint != self.plan.fingerprint:
            raise SourceError("the snapshot belongs to another query; restore it into the query it was taken of")
        self.n_read, self.late = n_read, late
        self._pipeline.restore(*state)
        self._clocks = {name: StreamClock(*values) for name, values in clocks.items()}

    def _step(self, arrivals: dict[int, pa.Table]) -> pa.Table:
        clocks = {slot.number: self._clocks[slot.source.name].clock for slot in self.plan.slots}
        parts = self._pipeline.paced_steps(arrivals, self.clock, clocks)
        return pa.concat_tables(to_changes(part, self.plan.schema, self.plan.emit_changes) for part in parts)

    def _known(self, stream: str) -> str:
        for name in self._clocks:
            if name.lower() == stream.lower():
                return name
        raise BindError(f"the query reads no stream `{stream}`; {suggest(stream, self._clocks)}")


def _conform(table: pa.Table, schema: pa.Schema, stream: str) -> pa.Table:
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise SourceError(
            f"a batch of `{stream}` lacks the column `{missing[0]}`; it has {', '.join(table.column_names)}"
        )
    return table.select(schema.names).cast(schema).combine_chunks()
