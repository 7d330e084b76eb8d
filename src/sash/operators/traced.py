"""What operators share that keep the tuples of their inputs in traces: pacing, room, logs and registers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from sash.store.block_log import BlockLog
from sash.store.trace import Trace


class Traced(ABC):
    """Of an operator whose logs are those of traces, which all go by the same clock."""

    @abstractmethod
    def traces(self) -> Mapping[str, Trace]:
        """Its traces, by the names of their logs."""

    def pace(self, clock: int, n_max: int) -> int:
        return min(trace.pace(clock, n_max) for trace in self.traces().values())

    def make_room(self, n_bytes: int = 0) -> None:
        for trace in self.traces().values():
            trace.make_room(n_bytes=n_bytes)

    def logs(self) -> dict[str, BlockLog]:
        return {name: trace.log for name, trace in self.traces().items()}

    def registers(self) -> dict[str, int]:
        """The clock, and of every log the number of its next tuple."""
        traces = self.traces()
        clock = next(iter(traces.values())).clock
        return {"clock": clock, **{name: trace.log.next_number for name, trace in traces.items()}}
