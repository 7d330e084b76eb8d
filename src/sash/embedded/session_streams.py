"""The streams of a session in this process: how far each has come, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import pyarrow as pa

from sash.embedded.intake import Intake
from sash.embedded.row_notes import REJECTED
from sash.errors import SashWarning, SourceError
from sash.operators.stream_clock import StreamClock
from sash.runtime.callers import warn_caller
from sash.sql.catalog import StreamInfo

Progress = tuple[dict[str, StreamClock], dict[str, list[pa.Table]]]
"""By stream, how far it is, and which rows of it wait for the next one."""


class SessionStreams:
    """An intake of each stream, as no query may be there to know how far it has come."""

    def __init__(self, streams: Mapping[str, StreamInfo]):
        self.is_quiet = False
        """Whether warnings are told by somebody else; see `notes`."""
        self._intakes: dict[str, Intake] = {}
        for name, info in streams.items():
            self.declare(name, info)

    def declare(self, stream: str, info: StreamInfo) -> None:
        """Tells of a stream, before its first row."""
        self._intakes[stream] = Intake({stream: info})

    def take(self, stream: str, rows: Any) -> pa.Table:
        """Takes rows of a stream, in order of arrival; returns them as a table. Where a warning is an error, nothing
        of them is taken: they may be pushed again.
        """
        intake = self._intakes[stream]
        table, mark = intake.read(stream, rows), intake.mark(stream)
        intake.take(stream, table, ())
        try:
            for note in () if self.is_quiet else intake.notes.take():
                warn_caller(note)
        except SashWarning:
            intake.give_back(mark)
            raise
        return table

    def complete(self, time_us: int, stream: str | None) -> None:
        """One stream, or all, is complete up to and including a time."""
        for name in self._intakes if stream is None else [stream]:
            self._intakes[name].complete(time_us, name, ())

    def believe(self) -> None:
        """Takes all rows that wait for being in time: nothing comes any more."""
        for intake in self._intakes.values():
            intake.believe()

    def clocks(self, others: Iterable[Mapping[str, StreamClock]]) -> dict[str, StreamClock]:
        """How far each stream has come; to its end, where one of the others, which queries have, says so."""
        found = {name: copy(intake.clocks[name]) for name, intake in self._intakes.items()}
        for each in others:
            for name, clock in each.items():
                found[name].complete(clock.complete_us)
        return found

    def progress(self, streams: Iterable[str], clocks: Mapping[str, StreamClock]) -> Progress:
        """For a query that comes later: what was late for others is late for it, and what they hold it holds."""
        found = {name: copy(clocks[name]) for name in streams}
        return found, {name: self._intakes[name].waiting[name] for name in found if found[name].is_holding}

    def late(self) -> dict[str, tuple[int, int]]:
        """By stream, how many rows came late, and how many were read."""
        return {name: (intake.n_late[name], intake.n_read[name]) for name, intake in self._intakes.items()}

    def notes(self) -> list[str]:
        """What whoever brought the rows should be told, beside of those that are late or rejected."""
        return [note for intake in self._intakes.values() for note in intake.notes.take(but=REJECTED)]

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return {name: intake.rejected[name] for name, intake in self._intakes.items()}

    def export_state(self) -> dict[str, Any]:
        """All that is needed to go on; see `import_state`."""
        return {name: intake.export_state() for name, intake in self._intakes.items()}

    def refuse_unknown(self, held: Iterable[str]) -> None:
        """Raises SourceError if a snapshot has streams that are not here."""
        for name in held:
            if name not in self._intakes:
                raise SourceError(f"the snapshot has the stream `{name}`, and this session has not; register it first")

    def import_state(self, held: Mapping[str, Any]) -> None:
        """Goes on with what `export_state` gave."""
        for name, state in held.items():
            self._intakes[name].import_state(state)
