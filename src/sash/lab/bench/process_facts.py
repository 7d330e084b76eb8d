"""What Linux tells of processes in /proc: how much memory is theirs, and how much they have read and written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple

from sash.errors import PlanError

_PROC = Path("/proc")
_OWN_MEMORY = ("RssAnon:", "RssShmem:")
"""Files that are mapped are not among it: the system can have their pages back at any time."""
SECONDS_BETWEEN_LOOKS = 0.1


class Moved(NamedTuple):
    """Bytes that were read from files and written to files, whether the system has them in memory or not."""

    n_read: int
    n_written: int


def require_proc() -> None:
    """Raises `PlanError` where nobody tells."""
    if not (_PROC / "self" / "io").exists():
        raise PlanError("memory and bytes are read from Linux's /proc, which is not there; run this on Linux")


def resident_bytes(pids: Iterable[int]) -> int:
    """The memory that these processes have now; one that has ended has none."""
    return sum(_resident_bytes(pid) for pid in pids)


class MovedMeter:
    """What some processes have read and written so far, without the looks at it if this process is among them."""

    def __init__(self, pids: Iterable[int]):
        self._pids = list(pids)
        self._n_looked = 0

    def look(self) -> Moved:
        """Until now."""
        told = [(_PROC / str(pid) / "io").read_text() for pid in self._pids]
        counts = [dict(line.split(": ") for line in each.splitlines()) for each in told]
        n_read, n_written = (sum(int(each[name]) for each in counts) for name in ("rchar", "wchar"))
        moved = Moved(n_read - self._n_looked, n_written)
        self._n_looked += sum(len(each) for pid, each in zip(self._pids, told) if pid == os.getpid())
        return moved


class PeakWatch:
    """The most memory that some processes have at once, looked at now and then."""

    def __init__(self, pids: Callable[[], Iterable[int]]):
        self._pids = pids
        self._idle_bytes = self._peak = 0
        self._is_over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin(self, idle_bytes: int) -> None:
        """Looks from now on; the processes have so much before they begin."""
        self._idle_bytes = idle_bytes
        self._thread.start()

    @property
    def peak_bytes(self) -> int:
        """So far, beside what there was before."""
        return max(0, self._peak - self._idle_bytes)

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            self._peak = max(self._peak, resident_bytes(self._pids()))
            is_over = self._is_over.wait(SECONDS_BETWEEN_LOOKS)


def _resident_bytes(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(_OWN_MEMORY))
