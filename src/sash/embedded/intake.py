"""The streams of whatever runs in this process: who is late, how far each stream has come, and rows as tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import Any

import pyarrow as pa

from sash.errors import BindError, SourceError, suggest
from sash.operators.changes import read_times
from sash.operators.stream_clock import StreamClock
from sash.plan.physical import Slot
from sash.sql.query import StreamInfo
from sash.store.batch import BEGINNING, is_timed


class Intake:
    """Takes rows in, stream by stream."""

    def __init__(self, streams: Mapping[str, StreamInfo], clocks: Mapping[str, StreamClock] | None = None):
        self.late: dict[str, list[pa.Table]] = {name: [] for name in streams}
        """Rows that came too late, by stream, with all the columns they were pushed with."""
        self.n_read = dict.fromkeys(streams, 0)
        self._streams = streams
        self.clocks = dict(clocks or {name: StreamClock(info.slack_us) for name, info in streams.items()})
        """How far each stream has come."""

    def take(self, stream: str, rows: pa.Table | pa.RecordBatch, slots: Iterable[Slot]) -> dict[int, pa.Table]:
        """The tuples that rows, in order of arrival, make for each slot of their stream; late ones are put aside."""
        name = self._known(stream)
        arrived = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        rows = _conform(arrived, self._streams[name].schema, name)
        ts = read_times(_told(rows, self._streams[name].time, name))
        in_time = self.clocks[name].admit(ts)
        self.n_read[name] += rows.num_rows
        if not in_time.all():
            self.late[name].append(arrived.filter(pa.array(~in_time)))
            rows, ts = rows.filter(pa.array(in_time)), ts[in_time]
        return {slot.number: slot.ingest.apply(rows, ts) for slot in slots if slot.source.name == name}

    def complete(self, time_us: int, stream: str | None = None) -> None:
        """One stream, or all, is complete up to and including a time."""
        for name in self.clocks if stream is None else [self._known(stream)]:
            self.clocks[name].complete(time_us)

    def complete_all(self) -> None:
        """All streams are complete up to the last timestamp seen in any of them."""
        if self.newest_us > BEGINNING:
            self.complete(self.newest_us)

    @property
    def clock(self) -> int:
        """Every row up to and including this time has come."""
        return min(clock.clock for clock in self.clocks.values())

    @property
    def newest_us(self) -> int:
        """The last timestamp seen in any stream."""
        return max(clock.newest_us for clock in self.clocks.values())

    @property
    def n_late(self) -> dict[str, int]:
        """Late rows so far, by stream."""
        return {name: sum(table.num_rows for table in tables) for name, tables in self.late.items()}

    def clocks_of(self, slots: Iterable[Slot]) -> dict[int, int]:
        """How far the stream of each slot has come."""
        return {slot.number: self.clocks[slot.source.name].clock for slot in slots}

    def held(self) -> Any:
        """All that is needed to go on; see `hand`."""
        return {name: astuple(clock) for name, clock in self.clocks.items()}, self.n_read, self.late

    def hand(self, state: Any) -> None:
        """Goes on with what `held` gave."""
        clocks, self.n_read, self.late = state
        self.clocks = {name: StreamClock(*values) for name, values in clocks.items()}

    def _known(self, stream: str) -> str:
        for name in self.clocks:
            if name.lower() == stream.lower():
                return name
        raise BindError(f"the query reads no stream `{stream}`; {suggest(stream, self.clocks)}")


def _told(rows: pa.Table, time: str, stream: str) -> pa.ChunkedArray:
    """The times of rows, each of which has one."""
    if not is_timed(rows.column(time)).all():
        reason = "is NULL or the least of 64 bits; filter such rows out first"
        raise SourceError(f"a row of stream `{stream}` has no time: `{time}` {reason}")
    return rows.column(time)


def _conform(table: pa.Table, schema: pa.Schema, stream: str) -> pa.Table:
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise SourceError(
            f"a batch of `{stream}` lacks the column `{missing[0]}`; it has {', '.join(table.column_names)}"
        )
    return table.select(schema.names).cast(schema).combine_chunks()
