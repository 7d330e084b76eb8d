"""One run at a time: an output, or the checkpoint of a shared join, is locked while somebody writes to it.

    output/.newest.lock     who holds it: process, machine, since when

The lock is the operating system's (`flock`), so it ends with the process, however that dies; what the file says is for
people. Whoever lets go of it removes the file. A command holds its locks until it is over (`hold_locks`); a session has
a `LockSet`, as its queries come and go.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime

from sash.errors import ResourceError, SourceError
from sash.io.disk import Disk, telling_of
from sash.io.places import real_place, shown_place


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def hold_locks(directories: Sequence[str], now: Callable[[], datetime] = _now) -> Generator[None]:
    """Holds the locks of directories, which need not be there. Raises ResourceError if another run has one.

    Directories on other file systems than the local one cannot be locked, and are not.
    """
    with ExitStack() as held:
        for directory in sorted({real_place(each) for each in directories if "://" not in each}):
            held.enter_context(_hold(directory, now))
        yield


class LockSet:
    """Locks of directories that come and go. They end when they are let go of, or when nobody has the set any more.

    One that yields is for sessions that nobody ends: another such set of this process gets its locks if it asks.
    So whoever writes has to see whether it still `holds` them.
    """

    def __init__(self, yields: bool = False):
        self._held: dict[str, ExitStack] = {}
        self._yields = yields
        if yields:
            _YIELDING.add(self)
        weakref.finalize(self, _end_all, self._held)

    def add(self, directories: Iterable[str]) -> list[str]:
        """Holds these directories, too, or none of them if another run has one (ResourceError). Returns what is new."""
        new = [each for each in directories if each not in self._held]
        for other in [*_YIELDING] if self._yields else []:
            other.drop(new)
        taken: dict[str, ExitStack] = {}
        try:
            for each in new:
                taken[each] = ExitStack()
                taken[each].enter_context(hold_locks([each]))
        except BaseException:
            _end_all(taken)
            raise
        self._held |= taken
        return new

    def drop(self, directories: Iterable[str]) -> None:
        """Lets go of directories; of others than it holds it cannot."""
        _end_all({each: self._held.pop(each) for each in directories if each in self._held})

    def keep(self, directories: Iterable[str]) -> None:
        """Lets go of all other directories."""
        self.drop(self._held.keys() - set(directories))

    def holds(self, directory: str) -> bool:
        return directory in self._held


_YIELDING: weakref.WeakSet[LockSet] = weakref.WeakSet()


def _end_all(held: Mapping[str, ExitStack]) -> None:
    for each in held.values():
        each.close()


@contextmanager
def _hold(directory: str, now: Callable[[], datetime]) -> Generator[None]:
    parent, name = os.path.split(directory)
    path, missing = f"{parent}/.{name}.lock", _missing(directory)
    with telling_of(path):
        for each in reversed(missing):
            Disk.before("mkdir", each)
            os.makedirs(each, exist_ok=True)
        descriptor = _acquire(path, directory)
    try:
        with telling_of(path):
            _sign(descriptor, path, now())
        yield
    finally:
        _let_go(descriptor, path)
        _remove_empty(missing)


def _missing(directory: str) -> list[str]:
    """Which directories have to be made for this one to stand in, the deepest first."""
    missing: list[str] = []
    above = os.path.dirname(directory)
    while not os.path.exists(above):
        missing.append(above)
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise SourceError(
            f"{shown_place(directory)} cannot be written: {shown_place(above)} is a file; write INTO another directory"
        )
    return missing


def _acquire(path: str, directory: str) -> int:
    """The open lock file, locked."""
    while True:
        Disk.before("open", path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0)
            os.close(descriptor)
            raise ResourceError(
                f"{shown_place(directory)} is written to by another run, {_describe(holder)}; wait for its end, or "
                "stop it, and run again"
            ) from None
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _sign(descriptor: int, path: str, since: datetime) -> None:
    note = {"pid": os.getpid(), "host": socket.gethostname(), "since": since.isoformat(" ", "seconds")}
    Disk.before("write", path)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(note).encode(), 0)


def _let_go(descriptor: int, path: str) -> None:
    """A file that cannot be removed harms nobody: it is not locked."""
    try:
        with suppress(OSError):
            Disk.before("unlink", path)
            os.unlink(path)  # while it is held: whoever opened it meanwhile sees that it is gone, and opens it anew
    finally:
        os.close(descriptor)


def _remove_empty(directories: Sequence[str]) -> None:
    """Those that were made for the lock, the deepest first, unless the run has written something there."""
    for each in directories:
        with suppress(OSError):
            Disk.before("rmdir", each)
            os.rmdir(each)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the locked file still has its name: its last holder may just have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _describe(holder: bytes) -> str:
    try:
        note = json.loads(holder)
        return f"process {note['pid']} on {note['host']}, since {note['since']}"
    except (ValueError, KeyError, TypeError):
        return "which has just begun"
