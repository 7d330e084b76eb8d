"""How much memory `sash run --memory` takes above a process that is idle, measured from outside every 100 ms.

The process that is measured has run the same script over a few rows before: what it has then, and says, is idle.

    python -m support.memory_peaks 64m 20        a limit, and how many times larger the window is
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.store.byte_sizes import parse_bytes

ROWS_PER_FILE = 20_000
KEYS_PER_ROW = 10
"""So that one row in ten meets another: what is measured is the windows."""
TEXT_BYTES = 100
ROW_BYTES = TEXT_BYTES + 4 + 3 * 8
"""Of a tuple in a window: its text with where it ends, key, time and end."""
PAUSE_SECONDS = 0.1
QUERY = "SELECT A.k, A.s, B.s AS other FROM a A, b B WHERE A.k = B.k WINDOW 1000000 SECONDS"
FEW = "few"
CHILD = """
import sys
from sash.cli import main

def run(script, *options):
    sys.argv = ["sash", "run", "--engine", "embedded", "--rows", "0", "--json", *options, script]
    try:
        main.main()
    except SystemExit as ended:
        assert not ended.code, ended.code

few, many, memory = sys.argv[1:]
run(few)
run(few, "--memory", memory, "--fresh")
with open("/proc/self/status") as status:
    facts = dict(line.split(":", 1) for line in status)
print("IDLE", sum(int(facts[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024, flush=True)
run(many, "--memory", memory)
"""


@dataclass(frozen=True, slots=True)
class Peak:
    """Of one run."""

    n_rows: int
    n_changes: int
    n_window_bytes: int
    idle_bytes: int
    peak_bytes: int
    seconds: float

    @property
    def above_idle(self) -> int:
        return self.peak_bytes - self.idle_bytes


def measure_peak(memory: int, n_window_bytes: int, place: Path, query: str = QUERY) -> Peak:
    """Runs the query over two streams whose windows hold so many bytes together at the end."""
    n_files = max(1, round(n_window_bytes / ROW_BYTES / 2 / ROWS_PER_FILE))
    few = _write_script(place / FEW, query, 1)
    many = _write_script(place / "many", query, n_files)
    spill = place / "spill"
    environment = os.environ | {"SASH_SPILL": str(spill)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(few), str(many), str(memory)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert child.stdout is not None
    said = next(line for line in child.stdout if line.startswith("IDLE"))
    started, peak = time.monotonic(), 0
    while child.poll() is None:
        peak = max(peak, _resident(child.pid))
        time.sleep(PAUSE_SECONDS)
    seconds = time.monotonic() - started
    assert child.returncode == 0
    told = json.loads(child.stdout.read().splitlines()[-1])["queries"]["joined"]
    child.stdout.close()
    assert not list(spill.glob("*")), "files that nobody needs any more"
    n_rows = 2 * n_files * ROWS_PER_FILE
    return Peak(n_rows, told["n_changes"], n_rows * ROW_BYTES, int(said.split()[1]), peak, seconds)


def _write_script(place: Path, query: str, n_files: int) -> Path:
    """Files of both streams in turns, and the script that reads them."""
    rng = np.random.default_rng(1)
    texts = pa.array(["x" * TEXT_BYTES] * ROWS_PER_FILE)
    for number in range(n_files):
        for turn, stream in enumerate("ab"):
            (place / stream).mkdir(parents=True, exist_ok=True)
            times = 1000 * (number * ROWS_PER_FILE + np.arange(ROWS_PER_FILE))
            keys = rng.integers(0, KEYS_PER_ROW * n_files * ROWS_PER_FILE, ROWS_PER_FILE)
            path = place / stream / f"{number:05}.parquet"
            pq.write_table(pa.table({"k": keys, "s": texts, "ts": pa.array(times, pa.timestamp("us"))}), path)
            os.utime(path, (2 * number + turn, 2 * number + turn))
    columns = "(k BIGINT, s VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts"
    streams = [f"CREATE STREAM {name} {columns} FROM '{place / name}' FORMAT parquet;" for name in "ab"]
    script = place / "script.sql"
    script.write_text("\n".join([*streams, f"CREATE QUERY joined AS {query} INTO '{place / 'out'}' FORMAT parquet;"]))
    return script


def _resident(pid: int) -> int:
    """RssAnon + RssShmem in bytes; 0 if the process has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) * 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        n_bytes = parse_bytes(sys.argv[1])
        assert n_bytes is not None
        found = measure_peak(n_bytes, int(float(sys.argv[2]) * n_bytes), Path(directory))
        print(json.dumps(asdict(found) | {"above_idle": found.above_idle}))
