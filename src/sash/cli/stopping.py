"""How a run is told to stop: by Ctrl-C or SIGTERM, after the batch at hand."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType, TracebackType

import pyarrow as pa

SPOKEN = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class StoppedError(Exception):
    """Raised between two batches of a run that was told to stop."""


class TerminatedError(BaseException):
    """Raised wherever the command is, by a SIGTERM that ends it at once, as Ctrl-C raises KeyboardInterrupt."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM raise TerminatedError, so that what is held is let go; called in the main thread."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise TerminatedError


class StopRequest:
    """Takes note of the first signal; a second one ends the run where it is, as if there were none of this."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._asked = Event()
        self._before: dict[signal.Signals, object] = {}

    @property
    def exit_code(self) -> int:
        """What a shell says of a process that the signal has ended; 0 if there was none."""
        return 0 if self.signal is None else 128 + self.signal

    def listen(self) -> None:
        """Begins to take note, also where somebody else has begun to; called in the main thread."""
        for each in SPOKEN:
            before = signal.signal(each, self._note)
            self._before.setdefault(each, before)

    def wait(self, seconds: float) -> bool:
        """Waits so long, or until the run is to stop; says whether it is."""
        return self._asked.wait(seconds)

    def check(self) -> None:
        """Raises StoppedError if the run is to stop."""
        if self._asked.is_set():
            raise StoppedError

    def __enter__(self) -> StopRequest:
        pa.enable_signal_handlers(False)  # else Ctrl-C breaks off what Arrow reads, which looks like a broken file
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)  # pyright: ignore[reportArgumentType]
        self._before = {}
        pa.enable_signal_handlers(True)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            for each in SPOKEN:
                signal.signal(each, signal.SIG_DFL)
            raise KeyboardInterrupt if number == signal.SIGINT else TerminatedError
        self.signal = signal.Signals(number)
        self._asked.set()
