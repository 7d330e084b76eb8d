"""The streams of whatever runs in this process: who is late, how far each stream has come, and rows as tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import astuple
from typing import Any

import numpy as np
import pyarrow as pa

from sash.embedded.incoming import read_rows, tell_rows
from sash.embedded.row_notes import REASON, Notes
from sash.errors import BindError, suggest
from sash.kernels.verdicts import HELD, IN_TIME, LATE, TOO_FAR
from sash.operators.changes import read_times
from sash.operators.stream_clock import Judgement, StreamClock
from sash.plan.query_plan import Slot
from sash.runtime.lateness import too_far_reason
from sash.sql.catalog import StreamInfo
from sash.store.batch import BEGINNING, concat

Tuples = dict[int, pa.Table]
"""By slot."""


class Intake:
    """Takes rows in, stream by stream."""

    def __init__(
        self,
        streams: Mapping[str, StreamInfo],
        clocks: Mapping[str, StreamClock] | None = None,
        waiting: Mapping[str, Sequence[pa.Table]] | None = None,
    ):
        self.late: dict[str, list[pa.Table]] = {name: [] for name in streams}
        """Rows that came too late, by stream, with all the columns they were pushed with."""
        self.rejected: dict[str, list[pa.Table]] = {name: [] for name in streams}
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        self.waiting: dict[str, list[pa.Table]] = {name: list((waiting or {}).get(name, ())) for name in streams}
        """Rows that may be too far ahead, by stream: what comes next decides."""
        self.n_read = dict.fromkeys(streams, 0)
        self.notes = Notes(streams)
        self._streams = streams
        self.clocks = dict(clocks or {name: _make_clock(info) for name, info in streams.items()})
        """How far each stream has come."""

    def read(self, stream: str, rows: Any) -> pa.Table:
        """Rows of a stream, as whoever pushes them has them, as a table."""
        name = self._known(stream)
        return read_rows(rows, self._streams[name], name)

    def take(self, stream: str, rows: Any, slots: Sequence[Slot]) -> Tuples:
        """The tuples that rows, in order of arrival, make for each slot of their stream; those that came late, have no
        time or are too far ahead are put aside.
        """
        name, arrived = self._known(stream), self.read(stream, rows)
        info, clock = self._streams[name], self.clocks[name]
        timed = tell_rows(arrived, info, name)
        self.notes.see_first(name, timed.good, self.n_read[name])
        numbers = self.n_read[name] + 1 + np.arange(arrived.num_rows)
        self.n_read[name] += arrived.num_rows
        if timed.is_timed is not None:
            self._reject(name, arrived.filter(pa.array(~timed.is_timed)), timed.reasons)
            arrived, numbers = arrived.filter(pa.array(timed.is_timed)), numbers[timed.is_timed]
        rows, ts = timed.good, read_times(timed.good.column(info.time))
        base_us, newest_us = clock.base_us, clock.newest_us
        judgement = clock.judge(ts)
        parts = self._decide(name, judgement.before, base_us)
        if judgement.verdicts is not None:
            self._put_aside(name, arrived, ts, judgement)
            in_time = judgement.verdicts == IN_TIME
            rows, arrived = rows.filter(pa.array(in_time)), arrived.filter(pa.array(in_time))
            ts, numbers = ts[in_time], numbers[in_time]
        if clock.newest_us > newest_us:
            self.notes.see_mover(name, arrived, ts, numbers, clock.newest_us)
        late = judgement.are(LATE)
        n_late = 0 if late is None else int(np.count_nonzero(late))
        self.notes.see_late(name, n_late, timed.good.num_rows, clock.base_us)
        return self._tuples(name, [*parts, rows], slots)

    def complete(self, time_us: int, stream: str | None, slots: Sequence[Slot]) -> Tuples:
        """One stream, or all, is complete up to and including a time. The tuples of rows that were held and are not too
        far ahead of that.
        """
        tuples: Tuples = {}
        for name in self.clocks if stream is None else [self._known(stream)]:
            base_us = self.clocks[name].base_us
            tuples |= self._tuples(name, self._decide(name, self.clocks[name].complete(time_us), base_us), slots)
        return tuples

    def complete_all(self, slots: Sequence[Slot]) -> Tuples:
        """All streams are complete up to the last timestamp seen in any of them. The tuples of rows that were held:
        nothing comes any more that would say that they are too far ahead.
        """
        tuples = self.believe(slots)
        if self.newest_us > BEGINNING:
            self.complete(self.newest_us, None, ())
        return tuples

    def believe(self, slots: Sequence[Slot] = ()) -> Tuples:
        """Takes all rows that are held for being in time; their tuples."""
        tuples: Tuples = {}
        for name, clock in self.clocks.items():
            if clock.is_holding:
                clock.believe()
                tuples |= self._tuples(name, self._decide(name, IN_TIME, BEGINNING), slots)
        return tuples

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
        return _count(self.late)

    @property
    def n_rejected(self) -> dict[str, int]:
        """Rejected rows so far, by stream."""
        return _count(self.rejected)

    @property
    def n_held(self) -> dict[str, int]:
        """Rows that may be too far ahead, by stream."""
        return _count(self.waiting)

    def clocks_of(self, slots: Sequence[Slot]) -> dict[int, int]:
        """How far the stream of each slot has come."""
        return {slot.number: self.clocks[slot.source.name].clock for slot in slots}

    def export_state(self) -> Any:
        """All that is needed to go on; see `import_state`."""
        clocks = {name: astuple(clock) for name, clock in self.clocks.items()}
        return clocks, self.n_read, self.late, self.rejected, self.waiting

    def import_state(self, state: Any) -> None:
        """Goes on with what `export_state` gave."""
        clocks, self.n_read, self.late, self.rejected, self.waiting = state
        self.clocks = {name: StreamClock(*values) for name, values in clocks.items()}
        self.notes.forget()

    def mark(self, stream: str) -> Any:
        """Where a stream is, so that the next rows of it can be given back; see `give_back`."""
        name = self._known(stream)
        waiting, n_late, n_rejected = list(self.waiting[name]), len(self.late[name]), len(self.rejected[name])
        return name, copy(self.clocks[name]), self.n_read[name], waiting, n_late, n_rejected

    def give_back(self, mark: Any) -> None:
        """Undoes a `take`, as if its rows had not come."""
        name, self.clocks[name], self.n_read[name], self.waiting[name], n_late, n_rejected = mark
        del self.late[name][n_late:], self.rejected[name][n_rejected:]

    def _put_aside(self, name: str, arrived: pa.Table, ts: np.ndarray, judgement: Judgement) -> None:
        """The rows that are not in time, or not yet."""
        for verdict, place in ((LATE, self.late), (HELD, self.waiting)):
            if (found := judgement.are(verdict)) is not None:
                place[name].append(arrived.filter(pa.array(found)))
        if (found := judgement.are(TOO_FAR)) is not None:
            assert judgement.bases is not None
            reasons = [self._reason(name, us, base) for us, base in zip(ts[found], judgement.bases[found])]
            self._reject(name, arrived.filter(pa.array(found)), reasons)

    def _decide(self, name: str, verdict: int, base_us: int) -> list[pa.Table]:
        """Rows that were held and are in time, if that is the verdict on them."""
        if verdict == HELD or not self.waiting[name]:
            return []
        waiting, self.waiting[name] = self.waiting[name], []
        if verdict == IN_TIME:
            return [tell_rows(rows, self._streams[name], name).good for rows in waiting]
        for rows in waiting:
            ts = read_times(tell_rows(rows, self._streams[name], name).good.column(self._streams[name].time))
            self._reject(name, rows, [self._reason(name, us, base_us) for us in ts])
        return []

    def _tuples(self, name: str, parts: list[pa.Table], slots: Sequence[Slot]) -> Tuples:
        if not parts:
            return {}
        rows = concat(parts)
        ts = read_times(rows.column(self._streams[name].time))
        return {slot.number: slot.ingest.apply(rows, ts) for slot in slots if slot.source.name == name}

    def _reason(self, name: str, time_us: int, base_us: int) -> str:
        return too_far_reason(self._streams[name], int(time_us), int(base_us))

    def _reject(self, name: str, rows: pa.Table, reasons: list[str]) -> None:
        self.rejected[name].append(rows.append_column(REASON, pa.array(reasons, pa.string())))
        self.notes.see_rejects(name, rows.num_rows, reasons[0])

    def _known(self, stream: str) -> str:
        for name in self.clocks:
            if name.lower() == stream.lower():
                return name
        raise BindError(f"the query reads no stream `{stream}`; {suggest(stream, self.clocks)}")


def _make_clock(info: StreamInfo) -> StreamClock:
    return StreamClock(info.slack_us, ahead_us=info.ahead_us)


def _count(tables: Mapping[str, Sequence[pa.Table]]) -> dict[str, int]:
    return {name: sum(table.num_rows for table in parts) for name, parts in tables.items()}
