"""What is done to the files of a directory, counted as the operating system is asked for it; and failing at one of it.

    open   fallocate   write   fsync   rename   mkdir   unlink

A write that fails has written the first half: that is what a full disk and a dying process leave.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

CHANGING = os.O_WRONLY | os.O_RDWR
IsWrong = Callable[[int, str], bool]
Fault = Callable[[], None]


def full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def death() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class SpillOperations:
    """Stands between this process and a directory."""

    def __init__(self, directory: Path, is_wrong: IsWrong = lambda number, operation: False, fault: Fault = full_disk):
        """At operations that are wrong, which are asked for by number and name, there is a fault."""
        self.seen: list[str] = []
        self._root = str(directory.resolve())
        self._is_wrong = is_wrong
        self._fault = fault

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While it is open, all operations of this process pass through here."""
        by_path = {name: self._of_path(name) for name in ("rename", "mkdir", "unlink")}
        by_handle = {name: self._of_handle(name) for name in ("fsync", "posix_fallocate")}
        with ExitStack() as patches:
            for name, do in {"open": self._open(), "write": self._write(), **by_path, **by_handle}.items():
                patches.enter_context(mock.patch.object(os, name, do))
            yield

    def _goes_wrong(self, operation: str) -> bool:
        self.seen.append(operation)
        return self._is_wrong(len(self.seen) - 1, operation)

    def _is_within(self, path: Any) -> bool:
        return not isinstance(path, int) and f"{os.path.abspath(os.fspath(path))}/".startswith(f"{self._root}/")

    def _open(self) -> Callable[..., int]:
        do = os.open

        def open_watched(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            if flags & CHANGING and self._is_within(path) and self._goes_wrong("open"):
                self._fault()
            return do(path, flags, *arguments, **named)

        return open_watched

    def _write(self) -> Callable[[int, Any], int]:
        do = os.write

        def write_watched(handle: int, data: Any) -> int:
            if self._is_within(_path_of(handle)) and self._goes_wrong("write"):
                do(handle, data[: len(data) // 2])
                self._fault()
            return do(handle, data)

        return write_watched

    def _of_path(self, name: str) -> Callable[..., None]:
        do = getattr(os, name)

        def do_watched(path: Any, *arguments: Any, **named: Any) -> None:
            if self._is_within(path) and self._goes_wrong(name):
                self._fault()
            do(path, *arguments, **named)

        return do_watched

    def _of_handle(self, name: str) -> Callable[..., None]:
        do = getattr(os, name)

        def do_watched(handle: int, *arguments: Any) -> None:
            if self._is_within(_path_of(handle)) and self._goes_wrong(name):
                self._fault()
            do(handle, *arguments)

        return do_watched


def _path_of(handle: int) -> str:
    return os.readlink(f"/proc/self/fd/{handle}")
