"""Law 4 on Spark, the hard way: the driver, its JVM and all workers die by SIGKILL, and the next run goes on.

Each run below dies, at a place that is named or at a random moment; the last one ends. Together they must have written
what a single run writes. `SASH_KILLS` says how many runs die at random moments, `SASH_SEED` at which; if it is even,
the plan has two fragments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DYING_RUN = '''
"""Runs the script's query and dies at the given place of the given batch of this run."""
import os, signal, sys

from sash.script import read_script
from sash.sources.sink import FileSink
from sash.spark import run as spark_run
from sash.spark.session import spark_session

script, place, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = 0


def die(here):
    global seen
    seen += here == place
    if here == place and seen > at:
        os.killpg(os.getpgid(0), signal.SIGKILL)


publish = FileSink.publish
seal = spark_run.Checkpoint.seal


def dying_publish(self, *args, **kwargs):
    die("before publishing")
    publish(self, *args, **kwargs)
    die("after publishing")


def dying_seal(self):
    die("before sealing")
    seal(self)


FileSink.publish = dying_publish
spark_run.Checkpoint.seal = dying_seal
spark = spark_session("local[2]")
spark.conf.set("spark.sql.shuffle.partitions", "2")
runs = read_script(script).runs()
spark_run.run_on_spark(runs, spark, lambda name, tally: die("between batches"), files_per_batch=1)
'''

DEATHS = [("before publishing", 0), ("after publishing", 1), ("between batches", 1), ("before sealing", 1)]


def test_killed_runs_together_write_what_one_run_writes(folder, outputs, tmp_path):
    write_streams(folder)
    expected, _ = folder.run_embedded("embedded")
    script = tmp_path / "script.sql"
    script.write_text(folder.script.format(root=folder.root, out="spark"))
    program = tmp_path / "dying_run.py"
    program.write_text(DYING_RUN)
    for place, at in DEATHS:
        assert run_program(program, script, place, at) == -9, f"the run did not die {place}"
    assert run_program(program, script, "nowhere", 0) == 0
    assert outputs(folder.run("spark")) == outputs(expected)


def write_streams(folder) -> None:
    for number in range(8):
        low = 5 * number
        folder.write("a", [f"{low + i},k{i % 3},{low + i}" for i in range(5)])
        folder.write("b", [f"{low + i},k{i % 2},{low + i // 2}" for i in range(5)])


def run_program(program: Path, script: Path, place: str, at: int) -> int:
    command = [sys.executable, str(program), str(script), place, str(at)]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        _, errors = run.communicate()
    assert run.returncode in (0, -9), errors.decode()
    return run.returncode


FOLLOWED_RUN = '''
"""Runs the script's query and says when the first batch is done, in a file. Snapshots of state are made often."""
import sys
from pathlib import Path

from sash.script import read_script
from sash.spark.run import run_on_spark
from sash.spark.session import spark_session

script, done = sys.argv[1], Path(sys.argv[2])
spark = spark_session(
    "local[2]",
    log=sys.argv[3],
    **{
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    },
)
run_on_spark(read_script(script).runs(), spark, lambda name, tally: done.touch(), files_per_batch=1)
'''

N_KILLS = int(os.environ.get("SASH_KILLS", "3"))
SEED = int(os.environ.get("SASH_SEED", "1"))
LONGEST_DELAY_SECONDS = 2.5
BATCHES_PER_RUN = 4
"""As many as a run may answer before it dies; if it gets further, there is more input for the next."""
SECONDS_FOR_A_RUN = 300
TWO_FRAGMENTS = (
    "SELECT A.id AS a, B.id AS b, C.id AS c FROM a A, b B, a C WHERE A.k = B.k AND B.id % 7 = C.id % 7 "
    "WINDOW 12 SECONDS"
)
ONE_FRAGMENT = "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 12 SECONDS"


def test_runs_killed_at_random_moments_together_write_what_one_run_writes(folder, outputs, tmp_path):
    """A moment is a delay after the first batch of a run: mostly in the middle of a task."""
    folder.script = folder.script.replace(
        "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS",
        ONE_FRAGMENT if SEED % 2 else TWO_FRAGMENTS,
    )
    script, program = tmp_path / "script.sql", tmp_path / "followed_run.py"
    script.write_text(folder.script.format(root=folder.root, out="spark"))
    program.write_text(FOLLOWED_RUN)
    moments, files, delays = random.Random(SEED), count(), []
    while len(delays) < N_KILLS:
        write_files(folder, files, BATCHES_PER_RUN)
        delays.append(moments.uniform(0, LONGEST_DELAY_SECONDS))
        with started(program, script, tmp_path) as run:
            try:
                run.wait(delays[-1])
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
        assert run.returncode in (0, -9), story(delays, tmp_path)
        if run.returncode == 0:  # not killed
            delays.pop()
    with started(program, script, tmp_path) as run:
        run.wait(SECONDS_FOR_A_RUN)
    assert run.returncode == 0, story(delays, tmp_path)
    expected, _ = folder.run_embedded("embedded")
    assert len(expected.plan.fragments) == 2 - SEED % 2
    changes, late = outputs(folder.run("spark"))
    assert (changes, late) == outputs(expected), story(delays, tmp_path)
    assert len(changes) > 100
    assert not any(late.values())


def write_files(folder, numbers: Iterator[int], n_files: int) -> None:
    """Each file is newer than all before it, as a run that ends declares its input complete."""
    for _ in range(n_files):
        low = 5 * next(numbers)
        for stream, step in (("a", 1), ("b", 2)):
            folder.write(stream, [f"{low + i},k{i % 3},{timestamp(low + i // step)}" for i in range(5)])


def timestamp(seconds: int) -> str:
    return f"2026-01-01 {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


@contextmanager
def started(program: Path, script: Path, directory: Path) -> Iterator[subprocess.Popen]:
    """A run that has answered its first batch, or has ended."""
    done = directory / "done"
    done.unlink(missing_ok=True)
    with (directory / "errors").open("w") as errors:
        command = [sys.executable, program, script, done, directory / "spark.log"]
        run = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            for _ in range(20 * SECONDS_FOR_A_RUN):
                if done.exists() or run.poll() is not None:
                    break
                with suppress(subprocess.TimeoutExpired):
                    run.wait(0.05)
            yield run
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def story(delays: list[float], directory: Path) -> str:
    """What happened before a failure."""
    errors, log = ((directory / name).read_text()[-3000:] for name in ("errors", "spark.log"))
    return f"seed {SEED}, killed after {delays} seconds; the last run said: {errors}\nSpark said: {log}"
