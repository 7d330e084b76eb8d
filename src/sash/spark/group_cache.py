"""Where partition groups rest between batches: in files that every Python worker of a machine can map.

    <root>/<group>.<token>/         a group at rest: its vectors, and `head`, the rest of its state; see `Directory`
        batch-<number>                  in which it came to rest
    <root>/taken-<pid>-<random>/    a group at work, and the worker that has it

Spark hands the tasks of a batch to whichever Python worker is free, so the worker that has a group's index is often not
the one that needs it next. In the cache the index belongs to no worker. The root is in shared memory as long as the
memory budget lasts. A group at work has an equal share of it and seals what its joins keep before it grows beyond, into
files that belong to it and lie on the local disk. Groups that were not used for longest go there whole, and are worked
on there until there is room again.

A group is taken by renaming its directory, which only one worker can do, and put back under a new token, which goes to
the state store as well. A token that is not found means that the cache does not have the group as it was committed:
after a failed attempt, a restart, on another machine. It is then rebuilt from the blocks in the state store, and what
workers that have died were working on is removed. So are groups that have moved to another machine: a query's groups
are all worked on in every batch, and one that others of its fragment have left behind is worked on elsewhere.

A machine may have several executors, each with a daemon and a cache of its own: they share the memory equally.

The directories go when the process that owns them (Spark's Python daemon) has ended.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.spark.machine_budget import MachineBudget
from sash.spark.scratch import is_running
from sash.store.directory import Directory, remove
from sash.store.vector import dump, load

SHARED_MEMORY = Path("/dev/shm")
HEAD = "head"
_PREFIX = "sash-"
_TAKEN = "taken-"
_BATCH = "batch-"
KEPT_BATCHES = 8
"""A group that was not worked on in so many batches, while others of its fragment were, has moved."""
_swept: dict[tuple[Path, str], int] = {}
"""By cache and fragment, the last batch in which this worker has looked for groups that have moved."""


@dataclass(slots=True)
class Moves:
    """What a cache has done since it was last asked."""

    n_hits: int = 0
    n_rebuilds: int = 0
    n_evictions: int = 0


class GroupCache:
    """The groups of one executor. `root` is in memory; `disks` are directories on disks, and each group has one."""

    def __init__(self, root: Path, disks: Sequence[Path], budget: MachineBudget):
        self._root = root
        self._disks = tuple(disks)
        self._budget = budget
        self.moves = Moves()

    def check_out(self, group: str, token: str) -> tuple[Any, Directory] | None:
        """A group as it was put back under this token, and where its vectors are; None if it is not here."""
        for place in (self._root, self._disk_of(group)):
            arena = self._claim(place / f"{group}.{token}")
            if arena is not None:
                self.moves.n_hits += 1
                return load(arena.collect(HEAD), arena), arena
        return None

    def create(self, group: str) -> Directory:
        """Room for a group that starts or is rebuilt. Whatever else is here of it is out of date."""
        for place in (self._root, self._disk_of(group)):
            for stale in [*place.glob(f"{group}.*"), *_abandoned(place)]:
                remove(stale)
        path = _taken_name(self._root)
        path.mkdir(parents=True)
        return self._arena(path, self._disk_of(group))

    def check_in(self, group: str, token: str, state: Any, arena: Directory, batch: int = 0) -> None:
        """Puts a group back after a batch; then as many groups go to disk as the budget demands.

        One for which there is no room at all is given up. It is rebuilt when it is needed.
        """
        if self._budget.n_bytes == 0:
            remove(arena.path)
            return
        try:
            arena.leave(HEAD, dump(state, arena))
            _note_batch(arena.path, batch)
        except OSError:
            remove(arena.path)
            return
        os.utime(arena.path)
        arena.path.rename(arena.path.parent / f"{group}.{token}")
        self._remove_moved(group.rpartition("-")[0], batch)
        self._evict()

    def _claim(self, path: Path) -> Directory | None:
        taken = _taken_name(path.parent)
        try:
            path.rename(taken)
        except FileNotFoundError:
            return None
        return self._arena(self._brought_back(taken), self._disk_of(_group_of(path)))

    def _brought_back(self, taken: Path) -> Path:
        """Where a group is now that may have been on disk: in memory, if there is room for it again."""
        if taken.parent == self._root:
            return taken
        n_held = sum(_size(path) for path in self._root.glob("*"))
        if n_held + _size(taken) > self._budget.shared_bytes:
            return taken
        copy = self._root / taken.name
        try:
            shutil.copytree(taken, copy, symlinks=True)
        except OSError:
            shutil.rmtree(copy, ignore_errors=True)
            return taken
        shutil.rmtree(taken, ignore_errors=True)
        return copy

    def _arena(self, path: Path, disk: Path) -> Directory:
        share = self._budget.share(self._count_groups(), disk)
        return Directory(path, disk, self._budget.resident_bytes, share)

    def _disk_of(self, group: str) -> Path:
        return self._disks[zlib.crc32(group.encode()) % len(self._disks)]

    def _count_groups(self) -> int:
        """Groups at rest in memory, and at work wherever they are."""
        at_work = (path for disk in self._disks if disk != self._root for path in disk.glob(f"{_TAKEN}*"))
        return max(1, len([*self._root.glob("*"), *at_work]))

    def _remove_moved(self, fragment: str, batch: int) -> None:
        """Removes groups of a query's fragment that are worked on elsewhere; looked for once a batch."""
        if not fragment or _swept.get((self._root, fragment), -1) >= batch:
            return
        _swept[self._root, fragment] = batch
        for place in {self._root, *self._disks}:
            for path in place.glob(f"{fragment}-*"):
                if _batch_of(path) < batch - KEPT_BATCHES:
                    taken = _taken_name(place)
                    with suppress(FileNotFoundError):  # another worker has taken it
                        path.rename(taken)
                        remove(taken)

    def _evict(self) -> None:
        if self._root in self._disks:
            return
        sizes = {path: _size(path) for path in self._root.iterdir() if path.is_dir()}
        excess = sum(sizes.values()) - self._budget.shared_bytes
        if excess <= 0:
            return
        resting = sorted((path for path in sizes if not path.name.startswith(_TAKEN)), key=_last_used)
        for path in resting:
            if excess > 0 and self._move_to_disk(path):
                excess -= sizes[path]
                self.moves.n_evictions += 1

    def _move_to_disk(self, path: Path) -> bool:
        taken = _taken_name(path.parent)
        try:
            path.rename(taken)
        except FileNotFoundError:  # another worker has taken it
            return False
        disk = self._disk_of(_group_of(path))
        disk.mkdir(parents=True, exist_ok=True)
        copy = disk / taken.name
        try:
            shutil.copytree(taken, copy, symlinks=True)
        except OSError:  # no room there either
            shutil.rmtree(copy, ignore_errors=True)
            remove(taken)
            return True
        copy.rename(disk / path.name)
        shutil.rmtree(taken, ignore_errors=True)
        return True


def open_group_cache(disks: Sequence[Path], owner: int, budget: MachineBudget) -> GroupCache:
    """The cache of the process `owner`, in shared memory if there is any. `disks` are directories of the same owner,
    at least one.
    """
    disks = [disk.resolve() / "sash" for disk in disks]
    if not os.access(SHARED_MEMORY, os.W_OK):
        for disk in disks:
            disk.mkdir(parents=True, exist_ok=True)
        return GroupCache(disks[0], disks[:1], budget)
    own, name = _digest(budget.application), _digest(*map(str, disks))
    root = SHARED_MEMORY / f"{_PREFIX}{owner}-{own}-{name}"
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
        _remove_orphans()
        _remove_after(owner, root)
    n_executors = sum(is_running(_owner_of(path)) for path in SHARED_MEMORY.glob(f"{_PREFIX}*-{own}-*"))
    return GroupCache(root, disks, budget.part(n_executors))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _group_of(path: Path) -> str:
    """Of a group at rest."""
    return path.name.rpartition(".")[0]


def _note_batch(path: Path, batch: int) -> None:
    for old in path.glob(f"{_BATCH}*"):
        old.unlink()
    (path / f"{_BATCH}{batch}").touch()


def _batch_of(path: Path) -> int:
    """In which a group has come to rest; the latest there is, if that is not known."""
    return min((int(each.name.removeprefix(_BATCH)) for each in path.glob(f"{_BATCH}*")), default=sys.maxsize)


def _taken_name(place: Path) -> Path:
    return place / f"{_TAKEN}{os.getpid()}-{os.urandom(8).hex()}"


def _abandoned(place: Path) -> Iterator[Path]:
    """Groups at work in workers that have died; no one else will put them back."""
    for path in place.glob(f"{_TAKEN}*-*"):
        if not is_running(int(path.name.removeprefix(_TAKEN).split("-")[0])):
            yield path


def _remove_after(owner: int, root: Path) -> None:
    """Starts a process that waits for the end of another one, and then removes what it has left."""
    wait = f"while kill -0 {owner} 2>/dev/null; do sleep 1; done; rm -rf {shlex.quote(str(root))}"
    with suppress(OSError):  # no shell: the next owner of a cache on this machine removes it
        subprocess.Popen(
            ["sh", "-c", wait],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )


def _remove_orphans() -> None:
    for path in SHARED_MEMORY.glob(f"{_PREFIX}*-*"):
        if not is_running(_owner_of(path)):
            shutil.rmtree(path, ignore_errors=True)


def _owner_of(root: Path) -> int:
    """The process that a cache belongs to; this one, if it is none of ours."""
    owner = root.name.removeprefix(_PREFIX).split("-")[0]
    return int(owner) if owner.isdigit() else os.getpid()


def _size(directory: Path) -> int:
    total = 0
    with suppress(FileNotFoundError):  # it was taken just now
        for entry in os.scandir(directory):
            with suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
