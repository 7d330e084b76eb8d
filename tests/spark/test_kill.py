"""Law 4 on Spark, the hard way: the driver, its JVM and all workers die by SIGKILL, and the next run goes on.

Each run below dies at one place; the last one ends. Together they must have written what a single run writes.
"""

from __future__ import annotations

import subprocess
import sys
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
