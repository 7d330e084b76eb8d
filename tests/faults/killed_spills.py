"""What `killed_runs` runs to see a process die at an operation in the spill directory: a script, with little memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.faults.spill_operations import SpillOperations, death

from sash.cli.main import main

COMMAND = ("run", "script.sql", "--engine", "embedded", "--memory", "16k", "--rows", "0")


def run_until(at: int, is_fresh: bool) -> None:
    """Runs the command, and dies at an operation on the files of `SASH_SPILL`; never returns."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.argv = ["sash", *COMMAND, *(["--fresh"] if is_fresh else [])]
    os.fsync = lambda descriptor: None  # a process that dies takes nothing from the disk
    operations = SpillOperations(Path(os.environ["SASH_SPILL"]), lambda number, operation: number == at, death)
    try:
        with operations.watched():
            main()
    finally:
        os._exit(0 if sys.exc_info()[0] is None else 1)
