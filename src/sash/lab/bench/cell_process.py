"""Has a cell of `sash bench memory` measured by a process of its own, and looks at its memory meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any

from sash.errors import InternalError
from sash.lab.bench.cpu_time import tree_stats
from sash.lab.bench.measure import Note
from sash.lab.bench.memory_cell import MemoryCell
from sash.lab.bench.process_facts import PeakWatch
from sash.lab.bench.step_engines import BUILTIN


def run_cell(cell: MemoryCell, directory: Path, patience_s: float, note: Note) -> dict[str, Any]:
    """The figures of a cell, whose files are in `directory`; or `left_out` with the reason. Its limit is its own,
    whatever the environment says.
    """
    command = [sys.executable, "-m", "sash.lab.bench.memory_cell", cell.to_json(), str(directory)]
    environment = {name: value for name, value in os.environ.items() if name != "SASH_MEMORY"}
    log = directory / "errors.txt"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
    ):
        killer = Timer(patience_s, process.kill)
        killer.start()
        told = _listen(cell, process, note)
        is_late = killer.finished.is_set()
        killer.cancel()
    if told is not None:
        return told
    if is_late:
        return {"left_out": f"took longer than {patience_s:g} s"}
    raise InternalError(f"measuring `{cell.engine}` failed: {log.read_text().strip()[-500:]}")


def _listen(cell: MemoryCell, process: subprocess.Popen[str], note: Note) -> dict[str, Any] | None:
    """What the process tells in the end, with its peak of memory; None if it ends without a word."""
    assert process.stdout is not None
    with PeakWatch(lambda: _pids_of(cell, process.pid)) as watch:
        for line in process.stdout:
            message = json.loads(line)
            if "idle_bytes" in message:
                watch.begin(message["idle_bytes"])
            elif "n_done" in message:
                note(message["n_done"])
            else:
                return message["found"] | {"peak_bytes": watch.peak_bytes}
    return None


def _pids_of(cell: MemoryCell, pid: int) -> list[int]:
    """Whose memory counts: the process of the cell, or the Java machine that it has started."""
    return [pid] if cell.engine != BUILTIN else [each for each in tree_stats(pid) if each != pid]
