"""Temporary logs and control directories: who made them stands in them, and who comes later removes what is left.

    /tmp/sash-spark-<pid>-<random>.log    what Spark and its workers print; begins with a line like the one below
    /tmp/sash-control-<pid>-<random>/     what is said to a query over frames; has `.sash`, which is such a line

    {"sash": "scratch", "host": "nb12", "pid": 4711}

Only what has such a line and belongs to a process of this machine that has ended is removed: a log when it is a day
old, as somebody may want to read why a run failed; a directory if nothing was said in it, as a batch that is repeated
after a restart has to hear it again.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

LOG_SECONDS = 86_400
_NAME = re.compile(r"sash-(?:spark-(\d+)-\w+\.log|control-(\d+)-\w+)")
_MARK, _TABLES = ".sash", ".relations"
"""They begin with a dot, so that nobody takes them for something said."""


def make_log() -> Path:
    """A file for the log of this process's JVM."""
    handle, path = tempfile.mkstemp(prefix=f"sash-spark-{os.getpid()}-", suffix=".log")
    with os.fdopen(handle, "w") as file:
        file.write(_mark())
    return Path(path)


def make_control_directory() -> Path:
    """A directory to speak to a query in; it goes with this process if nothing was said."""
    directory = Path(tempfile.mkdtemp(prefix=f"sash-control-{os.getpid()}-"))
    (directory / _MARK).write_text(_mark())
    atexit.register(_remove_unused, directory)
    return directory


def make_relation_directory(control: Path) -> Path:
    """Where a query over frames has what does not travel with tasks, as large tables. It goes with this process, or the
    next one that sweeps, whatever was said: who starts the query again makes it again.
    """
    directory = control / _TABLES
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def remove_log(path: Path) -> None:
    """For a run that ended well. A log that the user has named stays."""
    if _NAME.fullmatch(path.name) and path.parent == Path(tempfile.gettempdir()):
        path.unlink(missing_ok=True)


def sweep(now: float | None = None) -> None:
    """Removes what processes have left that are no more."""
    for path in Path(tempfile.gettempdir()).glob("sash-*"):
        name = _NAME.fullmatch(path.name)
        with suppress(OSError):  # somebody else's, or removed by somebody else
            if not name or not _is_orphan(path, int(name[1] or name[2])):
                continue
            if path.is_dir():
                shutil.rmtree(path / _TABLES, ignore_errors=True)
                _remove_unused(path)
            elif (time.time() if now is None else now) - path.stat().st_mtime > LOG_SECONDS:
                path.unlink()


def _mark() -> str:
    return json.dumps({"sash": "scratch", "host": socket.gethostname(), "pid": os.getpid()}) + "\n"


def _is_orphan(path: Path, pid: int) -> bool:
    """Whether the mark says that a process of this machine made it, and there is none of that number."""
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        return False
    with (path / _MARK if path.is_dir() else path).open() as file:
        line = file.readline(1000)
    return line == json.dumps({"sash": "scratch", "host": socket.gethostname(), "pid": pid}) + "\n" and not is_running(
        pid
    )


def is_running(pid: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _remove_unused(directory: Path) -> None:
    if directory.exists() and all(path.name.startswith(".") for path in directory.iterdir()):
        shutil.rmtree(directory, ignore_errors=True)
