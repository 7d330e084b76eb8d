"""`sash` as a user runs it, but somebody is killed at a place that is named:

    python dying.py PLACE AT VICTIM NOTES run script.sql …

The victim dies when the place is reached for the AT-th time: before an operation of the driver on the disk, or in a
worker before, in or after the step of a group. NOTES is a directory in which it leaves what it has seen. Nothing here
is imported by workers: it goes to them by value.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from sash.io.disk import Disk
from sash.spark import frame

OPERATION = "operation"
IN_WORKERS = ("before the step", "while answering", "after saving")
VICTIMS = {"group": -signal.SIGKILL, "driver": -signal.SIGKILL, "jvm": 1, "worker": 0}
"""And how a run ends that loses one: another worker takes over from one that is gone."""


def kill(victim: str, driver: int) -> None:
    """Kills by SIGKILL a driver, its JVM, the workers of that, or driver and JVM at once."""
    jvms = _children(driver)
    victims = {"group": [*jvms, driver], "driver": [driver], "jvm": jvms}.get(victim, _workers(driver))
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _workers(driver: int) -> list[int]:
    """Below the JVM there is a process that forks workers."""
    return [pid for jvm in _children(driver) for daemon in _children(jvm) for pid in _children(daemon)]


def _children(pid: int) -> list[int]:
    """Linux."""
    found: list[int] = []
    with suppress(OSError):  # it has just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def main() -> None:
    place, at, victim, notes, *arguments = sys.argv[1:]
    notes, driver, n_seen = Path(notes), os.getpid(), 0

    def pass_by(here: str) -> None:
        """Processes count together, by files."""
        if here == place:
            number = sum(1 for _ in notes.glob("passed-*"))
            (notes / f"passed-{number}").touch()
            if number == int(at):
                (notes / "killed").touch()
                if victim == "worker" and os.getpid() != driver:
                    os.kill(os.getpid(), signal.SIGKILL)
                kill(victim, driver)

    class DyingStage(frame.GroupStage):
        def _load(self, *args: Any, **named: Any) -> Any:
            home = super()._load(*args, **named)
            pass_by("before the step")
            return home

        def _run_group(self, messages: Any) -> Any:
            for each in super()._run_group(messages):
                yield each
                pass_by("while answering")

        def _save(self, *args: Any, **named: Any) -> None:
            super()._save(*args, **named)
            pass_by("after saving")

    def before(operation: str, path: str) -> None:
        nonlocal n_seen
        if os.getpid() != driver:
            return
        if not path.endswith(".lock"):  # these come before Spark
            (notes / "started").touch()
        is_there = victim != "jvm" or _children(driver)  # what is locked is locked before there is a JVM
        if place == OPERATION and n_seen >= int(at) and is_there and not (notes / "killed").exists():
            (notes / "killed").write_text(f"{operation} {path}")
            kill(victim, driver)
        n_seen += 1

    frame.GroupStage = DyingStage
    Disk.before = staticmethod(before)
    atexit.register(lambda: (notes / "operations").write_text(str(n_seen)))
    sys.argv[1:] = arguments
    from sash.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
