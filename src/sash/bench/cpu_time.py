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
    stats = dict(_read_stats())
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    ticks, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        ticks += sum(map(int, stats[pid][_TIMES]))
        waiting += children.get(pid, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_seconds_since(before: float | None) -> float | None:
    """How many were spent since `tree_cpu_seconds` gave this."""
    now = tree_cpu_seconds()
    return None if before is None or now is None else now - before


def _read_stats() -> Iterator[tuple[int, list[str]]]:
    for directory in _PROC.iterdir():
        if directory.name.isdecimal():
            try:
                text = (directory / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            yield int(directory.name), text.rpartition(")")[2].split()
