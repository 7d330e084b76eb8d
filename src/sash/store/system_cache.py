"""How much of files the operating system may keep in memory: nobody's budget covers it, and it comes and goes.

What is told is a guess for estimates alone. Half of what is available now is taken to be for files.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_LIMIT, _TAKEN = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")


def cacheable_bytes() -> int:
    """What files may take; 0 where nobody tells."""
    with suppress(OSError, ValueError, KeyError):
        told = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return max(0, min(1024 * int(told["MemAvailable"].split()[0]), _left_in_container())) // 2
    return 0


def _left_in_container() -> int:
    """What the limit of a container leaves; more than anybody has if there is none."""
    with suppress(OSError, ValueError):
        return int(_LIMIT.read_text()) - int(_TAKEN.read_text())
    return 1 << 62
