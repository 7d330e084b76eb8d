"""Laws 4 and 8 on Spark, the hard way: runs of queries that share a join die by SIGKILL, and the next goes on, with
other queries. One that is there in all of them has written what a single undisturbed run writes.

`SASH_VOLUME` says how many times as many runs die at random moments as usual, `SASH_SEED` at which.
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

from sash.embedded.run_to_end import run_files
from sash.runtime.job import Job
from sash.runtime.script import bind_script
from support.masters import MASTER
from support.profiles import SEED, in_depth

pytestmark = [pytest.mark.spark, pytest.mark.slow]

N_KILLS = in_depth(10)
LONGEST_DELAY_SECONDS = 2.5
SECONDS_FOR_A_RUN = 300

STREAMS = """
CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/a' FORMAT csv;
CREATE STREAM b (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/b' FORMAT csv;
"""
QUERIES = {
    "joined": "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS",
    "counted": "SELECT A.id % 3 AS m, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.id % 3 WINDOW 5 SECONDS",
    "large": "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k AND A.id > 3 WINDOW 12 SECONDS",
    "total": "SELECT count(*) AS n FROM a A, b B WHERE A.k = B.k WINDOW 8 SECONDS EMIT CHANGES",
}
ALWAYS = ("joined", "counted")
SETS = [("large",), (), ("large", "total"), ("total",)]
"""What runs beside those that always do, run by run."""

RUN = '''
"""Runs a script, and dies at the given place after it was passed so often, or says in a file that a batch is done."""
import os, signal, sys
from pathlib import Path

from sash.runtime.script import read_script
from sash.runtime.jobs import decide_script, group_runs
from sash.io.sink import FileSink
from sash.spark.spark_run import run_on_spark
from sash.spark.spark_session import spark_session

script = Path(sys.argv[1])
place, at = (sys.argv[2], int(sys.argv[3])) if sys.argv[3].isdecimal() else ("", 0)
done = Path(sys.argv[2])
n_passed, publish = 0, FileSink.publish


def pass_by(here):
    global n_passed
    n_passed += here == place
    if here == place and n_passed > at:
        os.killpg(os.getpgid(0), signal.SIGKILL)


def dying_publish(self, *args, **kwargs):
    publish(self, *args, **kwargs)
    pass_by("after a sink")


def tell(name, tally):
    if not place:
        done.touch()
    pass_by("between batches")


FileSink.publish = dying_publish
spark = spark_session(MASTER, log=script.parent / "spark.log", **{"spark.sql.shuffle.partitions": "2"})
read, root = read_script(str(script)), str(script.parent / "checkpoint")
found = group_runs(read.runs(), decide_script(read.plans, root), root)
assert len(found.all) == 1
run_on_spark(found.all, spark, tell, files_per_batch=1)
'''


def write_script(folder, directory: Path, out: str, extra: tuple[str, ...]) -> Path:
    text = STREAMS + "".join(
        f"CREATE QUERY {name} AS {QUERIES[name]} INTO '{{root}}/{out}/{name}' FORMAT parquet;\n"
        for name in (*ALWAYS, *extra)
    )
    script = directory / "script.sql"
    script.write_text(text.format(root=folder.root))
    (directory / "run.py").write_text(f"MASTER = {MASTER!r}\n{RUN}")
    return script


DEATHS = {1: ("large", "total"), 4: ("total",)}
"""Of each batch every query's sink is published in turn. After how many a run dies, and what runs beside the others."""


def test_runs_killed_between_two_sinks_with_other_queries_each_time(folder, outputs, tmp_path):
    write_streams(folder)
    script = Path()
    for at, extra in DEATHS.items():
        script = write_script(folder, tmp_path, "spark", extra)
        assert run_program(tmp_path / "run.py", script, "after a sink", at) == -9
    assert run_program(tmp_path / "run.py", script, "nowhere", 0) == 0
    check_outputs(folder, outputs)


@pytest.mark.deep
def test_runs_killed_at_random_moments_with_other_queries_each_time(folder, outputs, tmp_path):
    moments, files, delays, script = random.Random(SEED), count(), [], Path()
    while len(delays) < N_KILLS:
        write_files(folder, files, 4)
        script = write_script(folder, tmp_path, "spark", SETS[len(delays) % len(SETS)])
        delays.append(moments.uniform(0, LONGEST_DELAY_SECONDS))
        with started(tmp_path / "run.py", script, tmp_path) as run:
            try:
                run.wait(delays[-1])
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
        assert run.returncode in (0, -9), story(delays, tmp_path)
        if run.returncode == 0:  # not killed
            delays.pop()
    with started(tmp_path / "run.py", script, tmp_path) as run:
        run.wait(SECONDS_FOR_A_RUN)
    assert run.returncode == 0, story(delays, tmp_path)
    check_outputs(folder, outputs)


def check_outputs(folder, outputs) -> None:
    """What those have written that were there all the time, against runs that nothing has disturbed."""
    text = (folder.root / "script.sql").read_text()
    seen = [each for each in bind_script(text).runs() if each.name in ALWAYS]
    expected = [each for each in bind_script(text.replace("/spark/", "/embedded/")).runs() if each.name in ALWAYS]
    for each in expected:
        run_files(Job.alone(each), lambda name, tally: None)
    for one, other in zip(seen, expected, strict=True):
        assert outputs(one) == outputs(other), one.name
        assert len(outputs(one)[0]) > 20


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
