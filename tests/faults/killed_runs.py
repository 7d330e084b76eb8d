"""Runs of a script that end by SIGKILL before an operation on the disk that is named by its number.

Sash is loaded once, by a process that does nothing else; each run is a copy of it (`fork`), which takes a moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import sash
from sash.cli.script_outputs import check_outputs, remove_outputs, shared_checkpoints
from sash.embedded.run_to_end import run_files
from sash.io.disk import Disk
from sash.runtime.job import QueryRun, new_identity
from sash.runtime.jobs import decide_script, group_runs
from sash.runtime.run_lock import hold_locks
from sash.runtime.script import read_script

ROOT = Path(__file__).parents[2]
FRESH, PLAIN = "fresh", "plain"


class Runner:
    """What `sash run --engine embedded` does, less what it shows, with `script.sql` of the directory it is in."""

    def __init__(self) -> None:
        self._script = read_script("script.sql")
        self._runs = self._script.runs()
        self._root = shared_checkpoints(Path("script.sql"))

    def run(self, is_fresh: bool = False) -> None:
        runs: list[QueryRun] = [replace(each, identity=new_identity()) for each in self._runs]
        with hold_locks([self._root, *(each.output.path for each in runs)]):
            if is_fresh:
                remove_outputs(runs, self._root)
            together = group_runs(runs, decide_script(self._script.plans, None), self._root).all
            check_outputs(together, may_resume=False)
            for each in together:
                run_files(each, lambda name, tally: None)


class KilledRuns:
    """The process that makes the others."""

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process

    def run(self, at: int, is_fresh: bool = False) -> int:
        """Runs the script in a process that kills itself before operation `at`; returns how it ended, as a shell."""
        assert self._process.stdin
        assert self._process.stdout
        print(at, FRESH if is_fresh else PLAIN, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def killed_runs(directory: Path, module: str = "killed_runs") -> Iterator[KilledRuns]:
    """While it is open, runs can be made in a directory. The module next to this one that has `run_until` says what is
    run, and which operations are counted.
    """
    environment = os.environ | {"PYTHONPATH": f"{Path(sash.__file__).parents[1]}{os.pathsep}{ROOT}"}
    command = [
        sys.executable,
        "-c",
        f"from tests.faults import killed_runs, {module}; killed_runs.serve({module}.run_until)",
    ]
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield KilledRuns(process)
        assert process.stdin
        process.stdin.close()


def serve(run_until: Callable[[int, bool], None]) -> None:
    """Makes a process for each line, and says how it ended."""
    for line in sys.stdin:
        at, way = line.split()
        child = os.fork()
        if child == 0:
            run_until(int(at), way == FRESH)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run_until(at: int, is_fresh: bool) -> None:
    """Runs the script, and dies at an operation on the outputs and what belongs to them; never returns."""
    left = at

    def die(operation: str, path: str) -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    Disk.before = staticmethod(die)
    os.fsync = lambda descriptor: None  # a process that dies takes nothing from the disk
    try:
        Runner().run(is_fresh)
    finally:
        os._exit(0 if sys.exc_info()[0] is None else 1)
