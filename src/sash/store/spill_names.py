"""How files of what finds no room in memory are called, which tells whose they are: who has died needs his no more."""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PREFIX = "sash-spill-"


def stem_of(pid: int) -> str:
    """How the names of a process's files begin. Processes of different machines may have one number."""
    return f"{PREFIX}{zlib.crc32(socket.gethostname().encode()):08x}-{pid}-"


def find_abandoned(directory: Path) -> Iterator[Path]:
    """Files of processes of this machine that have died; no one else will remove them."""
    own = stem_of(0).removesuffix("0-")
    for path in sorted(directory.glob(f"{own}*")):
        pid = path.name.removeprefix(own).split("-")[0]
        if pid.isdigit() and not _is_running(int(pid)):
            yield path


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def remove_own(directory: Path, stem: str, pid: int) -> None:
    """When the owner is forgotten, or its process ends; a process that was forked from it owns nothing."""
    if os.getpid() == pid:
        for path in directory.glob(f"{stem}*"):
            with suppress(OSError):
                path.unlink()
