"""How much memory `sash run --memory` takes above what is idle, measured from outside every 100 ms, and if it is right.

In this process's child all is Sash; on Spark its workers are, and the driver, all Python processes together. Idle is
what they have after, or at most during, a run of the same script over a few rows. The answer is held against DuckDB's.

    python -m support.memory_peaks 64m 20 [spark]        a limit, and how many times larger the window is
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.lab.bench.cpu_time import tree_stats
from sash.lab.bench.process_facts import PeakWatch
from sash.store.byte_sizes import parse_bytes

ROWS_PER_FILE = 20_000
KEYS_PER_ROW = 10
"""So that one row in ten meets another: what is measured is the windows."""
TEXT_BYTES = 100
ROW_BYTES = TEXT_BYTES + 4 + 3 * 8
"""Of a tuple in a window: its text with where it ends, key, time and end."""
QUERY = "SELECT A.k, A.s, B.s AS other FROM a A, b B WHERE A.k = B.k WINDOW 1000000 SECONDS"
ANSWER = "SELECT A.k, A.s, B.s AS other FROM '{a}' A, '{b}' B WHERE A.k = B.k"
CHILD = """
import os
import sys
from sash.cli import main
from sash.lab.bench.process_facts import resident_bytes

def run(script, *options):
    sys.argv = ["sash", "run", "--rows", "0", "--json", *options, script]
    try:
        main.main()
    except SystemExit as ended:
        assert not ended.code, ended.code

few, many, memory, *how = sys.argv[1:]
run(few, *how)
run(few, "--memory", memory, "--fresh", *how)
print("IDLE", resident_bytes([os.getpid()]), flush=True)
run(many, "--memory", memory, *how)
"""


@dataclass(frozen=True, slots=True)
class Peak:
    """Of one run."""

    n_rows: int
    n_changes: int
    n_expected: int
    is_exact: bool
    n_window_bytes: int
    idle_bytes: int
    peak_bytes: int
    seconds: float

    @property
    def above_idle(self) -> int:
        return self.peak_bytes - self.idle_bytes


def measure_peak(memory: int, n_window_bytes: int, place: Path, engine: str = "embedded") -> Peak:
    """Runs a join over two streams whose windows hold so many bytes together at the end."""
    n_files = max(1, round(n_window_bytes / ROW_BYTES / 2 / ROWS_PER_FILE))
    few = _write_script(place / "few", 1)
    many = _write_script(place / "many", n_files)
    spill = place / "spill"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(few), str(many), str(memory), "--engine", engine],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"SASH_SPILL": str(spill)},
    )
    assert child.stdout is not None
    with (
        PeakWatch(lambda: _python_processes(child.pid)) as before,
        PeakWatch(lambda: _python_processes(child.pid)) as watch,
    ):
        before.begin(0)
        said = next(line for line in child.stdout if line.startswith("IDLE"))
        idle = int(said.split()[1]) if engine == "embedded" else before.peak_bytes
        started = time.monotonic()
        watch.begin(0)
        lines = child.stdout.read().splitlines()
        assert child.wait() == 0
        seconds, peak = time.monotonic() - started, watch.peak_bytes
    told = json.loads(lines[-1])["queries"]["joined"]
    child.stdout.close()
    assert not list(spill.glob("*")), "files that nobody needs any more"
    n_expected, is_exact = _held_against_duckdb(place / "many")
    n_rows = 2 * n_files * ROWS_PER_FILE
    return Peak(n_rows, told["n_changes"], n_expected, is_exact, n_rows * ROW_BYTES, idle, peak, seconds)


def _write_script(place: Path, n_files: int) -> Path:
    """Files of both streams in turns, and the script that reads them. Every row has a text of its own."""
    rng = np.random.default_rng(1)
    for number in range(n_files):
        for turn, stream in enumerate("ab"):
            (place / stream).mkdir(parents=True, exist_ok=True)
            rows = number * ROWS_PER_FILE + np.arange(ROWS_PER_FILE)
            keys = rng.integers(0, KEYS_PER_ROW * n_files * ROWS_PER_FILE, ROWS_PER_FILE)
            texts = np.char.rjust(rows.astype(str), TEXT_BYTES, stream)
            path = place / stream / f"{number:05}.parquet"
            pq.write_table(pa.table({"k": keys, "s": texts, "ts": pa.array(1000 * rows, pa.timestamp("us"))}), path)
            os.utime(path, (2 * number + turn, 2 * number + turn))
    columns = "(k BIGINT, s VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts"
    streams = [f"CREATE STREAM {name} {columns} FROM '{place / name}' FORMAT parquet;" for name in "ab"]
    script = place / "script.sql"
    script.write_text("\n".join([*streams, f"CREATE QUERY joined AS {QUERY} INTO '{place / 'out'}' FORMAT parquet;"]))
    return script


def _python_processes(root: int) -> Iterable[int]:
    """A process and its descendants without Java machines, which are beyond the limit."""
    return [pid for pid in tree_stats(root) if _program_of(pid) != "java"]


def _program_of(pid: int) -> str:
    """What a process runs. Its name would not do: as a Java machine starts a program, its child has for a moment the
    name of a thread, and all the memory of its parent.
    """
    try:
        return (Path("/proc") / str(pid) / "exe").readlink().name
    except OSError:
        return ""


def _held_against_duckdb(place: Path) -> tuple[int, bool]:
    """How many rows the answer has, and whether those that were put out are the same, as multisets."""
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '4GB'; SET temp_directory = '{place / 'duckdb'}'")
        answer = ANSWER.format(a=place / "a" / "*.parquet", b=place / "b" / "*.parquet")
        digest = "SELECT count(*), sum(hash(k, s, other)::HUGEINT) FROM ({})"
        expected = connection.execute(digest.format(answer)).fetchone()
        found = connection.execute(digest.format(f"FROM '{place / 'out' / 'batch=*' / '*.parquet'}'")).fetchone()
    assert expected is not None
    return expected[0], expected == found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        n_bytes = parse_bytes(sys.argv[1])
        assert n_bytes is not None
        peak = measure_peak(n_bytes, int(float(sys.argv[2]) * n_bytes), Path(directory), *sys.argv[3:])
        print(json.dumps(asdict(peak) | {"above_idle": peak.above_idle}))
