"""CPU seconds of this process and of all that it has started: of Spark's Java machine and its Python workers too.

They come from Linux's /proc. Elsewhere, and on a cluster whose machines are others, they are not known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of /proc/<pid>/stat after the name: the parent; user and system ticks, own and of children waited for."""


def tree_cpu_seconds() -> float | None:
    """So far, of this process and its descendants, also of those that have ended; None where nobody tells."""
    if not (_PROC / "self" / "stat").exists():
        return None
    ticks = sum(sum(map(int, fields[_TIMES])) for fields in tree_stats(os.getpid()).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def tree_stats(root: int) -> dict[int, list[str]]:
    """The fields of /proc/<pid>/stat after the name, of a process, which comes first, and its descendants."""
    stats = dict(_read_stats())
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    tree, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        if pid in stats:
            tree[pid] = stats[pid]
            waiting += children.get(pid, [])
    return tree


def cpu_seconds_since(before: float | None) -> float | None:
    """How many were spent since `tree_cpu_seconds` gave this."""
    now = tree_cpu_seconds()
    return None if before is None or now is None else now - before


class CpuMarks:
    """How much CPU time went by until each batch was done; the first one's includes all that went before it."""

    def __init__(self):
        self._last = tree_cpu_seconds()
        self._lost = 0.0
        self._marks = [self._last]

    def mark(self, n_done: int) -> None:
        """So many batches are done by now."""
        if n_done >= len(self._marks):
            self._marks += [self.look()] * (n_done + 1 - len(self._marks))

    def seconds_of(self, batch: int) -> float | None:
        """What a batch took; None if that was not seen."""
        if batch + 1 >= len(self._marks):
            return None
        before, after = self._marks[batch : batch + 2]
        return None if before is None or after is None else after - before

    def seconds(self) -> float | None:
        """Since the start."""
        now, before = self.look(), self._marks[0]
        return None if now is None or before is None else now - before

    def look(self) -> float | None:
        """So far, and never less than before: idle Python workers end, and take their seconds with them."""
        now = tree_cpu_seconds()
        if now is None or self._last is None:
            return None
        self._lost += max(0.0, self._last - now)
        self._last = now
        return now + self._lost


def _read_stats() -> Iterator[tuple[int, list[str]]]:
    for directory in _PROC.iterdir():
        if directory.name.isdecimal():
            try:
                text = (directory / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            yield int(directory.name), text.rpartition(")")[2].split()
