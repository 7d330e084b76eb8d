"""Laws 4 and 5 on Spark while attempts fail, workers come and go, and memory is short.

Each session below is a process of its own, since what it is set to is fixed when it starts. Whatever happens in it,
the output is that of embedded, and the tally shows that it did happen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sash.plan.physical import Plan
from support.masters import MASTER
from support.profiles import everyday

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ONE_FRAGMENT = "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 12 SECONDS EMIT CHANGES"
TWO_FRAGMENTS = (
    "SELECT A.id AS a, B.id AS b, C.id AS c FROM a A [PARTITION BY k ROWS 4], b B, a C "
    "WHERE A.k = B.k AND B.id % 7 = C.id % 7 WINDOW 12 SECONDS"
)

PROGRAM = '''
"""Runs a script's query once for each given output, with settings of its own, and prints what each run has counted."""
import json, os, signal, sys
from dataclasses import asdict
from pathlib import Path

from pyspark import TaskContext

from sash.errors import SashError
from sash.runtime.job import Job
from sash.runtime.script import bind_script
from sash.spark import frame
from sash.spark.spark_run import run_on_spark
from sash.spark.spark_session import spark_session

order = json.loads(sys.argv[1])
faults = {(batch, fragment): (place, how) for batch, fragment, place, how in order["faults"]}
happened = Path(order["happened"])


class FaultyStage(frame.GroupStage):
    """The first attempt at the first partition of chosen batches fails at the chosen place."""

    def _load(self, *args):
        home = super()._load(*args)
        self._fail("before the step")
        return home

    def _run_group(self, messages):
        for each in super()._run_group(messages):
            yield each
            self._fail("while answering")

    def _save(self, *args):
        super()._save(*args)
        self._fail("after saving")

    def _fail(self, here):
        context = TaskContext.get()
        batch = int(context.getLocalProperty("streaming.sql.batchId"))
        place, how = faults.get((batch, self._fragment), (None, None))
        if here == place and context.attemptNumber() == 0:
            (happened / f"{batch}-{self._fragment}").touch()
            if how == "raise":
                raise RuntimeError("a fault that was asked for")
            os.kill(os.getpid(), signal.SIGKILL)


if faults:
    frame.GroupStage = FaultyStage
spark = spark_session(order["master"], log=order["log"], **order["session"])
told = []
for out, settings in order["runs"].items():
    for key, value in settings.items():
        spark.conf.set(key, value)
    runs = bind_script(order["script"].replace("{out}", out)).runs()
    try:
        (tally,) = run_on_spark([*map(Job.alone, runs)], spark, lambda name, tally: None, files_per_batch=1).values()
        told.append(asdict(tally))
    except SashError as error:
        told.append({"error": f"{type(error).__name__}: {error}"})
print(json.dumps(told))
'''


def write_streams(folder, query: str, n_files: int = 8) -> None:
    folder.script = folder.script.replace(
        "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS", query
    )
    assert query in folder.script
    for number in range(n_files):
        low = 5 * number
        folder.write("a", [f"{low + i},k{i % 3},{low + i}" for i in range(5)])
        folder.write("b", [f"{low + i},k{i % 2},{low + i // 2}" for i in range(5)])


def run_program(folder, runs: dict[str, dict], environment: dict[str, str] | None = None, **order) -> list[dict]:
    """What each run has counted, or the error that has stopped it."""
    happened = folder.root / "happened"
    happened.mkdir(exist_ok=True)
    script = folder.script.replace("{root}", str(folder.root))
    log = folder.root / "spark.log"
    order = {"master": MASTER, "session": {}, "faults": []} | order
    order |= {"runs": runs, "script": script, "log": str(log), "happened": str(happened)}
    program = folder.root / "program.py"
    program.write_text(PROGRAM)
    answer = subprocess.run(
        [sys.executable, program, json.dumps(order)],
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr + log.read_text()[-5000:]
    return json.loads(answer.stdout)


@pytest.mark.deep
def test_workers_that_serve_one_task_each(folder, outputs):
    """They find in the cache what others have left there."""
    write_streams(folder, ONE_FRAGMENT, 3)
    expected, _ = folder.run_embedded("embedded")
    (tally,) = run_program(folder, {"spark": {}}, session={"spark.python.worker.reuse": "false"})
    assert outputs(folder.run("spark")) == outputs(expected)
    assert tally["n_index_hits"] > 0
    assert tally["n_index_rebuilds"] == 0


@pytest.mark.deep
def test_no_memory_and_little_memory(folder, outputs):
    write_streams(folder, TWO_FRAGMENTS, 5)
    expected, _ = folder.run_embedded("embedded")
    assert len(Plan.alone(expected.plan).fragments) == 2
    nothing, little = run_program(
        folder, {"nothing": {"spark.sash.memory": "0"}, "little": {"spark.sash.memory": "64k"}}
    )
    for out in ("nothing", "little"):
        assert outputs(folder.run(out)) == outputs(expected)
    assert (nothing["n_index_hits"], nothing["n_evictions"]) == (0, 0)
    assert nothing["n_index_rebuilds"] > 0
    assert little["n_evictions"] > 0
    assert little["n_index_hits"] > 0


FAULTS = [
    (1, 0, "before the step", "raise"),
    (1, 1, "while answering", "kill"),
    (2, 0, "after saving", "raise"),
    (2, 1, "before the step", "kill"),
    (3, 0, "while answering", "raise"),
    (3, 1, "after saving", "kill"),
]
"""By batch and fragment."""


def test_attempts_that_fail(folder, outputs):
    write_streams(folder, TWO_FRAGMENTS, 5)
    expected, _ = folder.run_embedded("embedded")
    (tally,) = run_program(folder, {"spark": {}}, faults=FAULTS)
    assert outputs(folder.run("spark")) == outputs(expected)
    assert {path.name for path in (folder.root / "happened").iterdir()} == {f"{each[0]}-{each[1]}" for each in FAULTS}
    assert tally["n_index_rebuilds"] >= len(FAULTS)
    assert tally["n_index_hits"] > 0


@pytest.mark.deep
def test_a_worker_that_does_not_start_in_time(folder, outputs):
    """Spark gives the one that it starts on the driver ten seconds; here the first never comes."""
    write_streams(folder, ONE_FRAGMENT, 1)
    expected, _ = folder.run_embedded("embedded")
    python, late = folder.root / "python", folder.root / "late"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *driver_worker*) mkdir "{late}" 2> /dev/null && exit ;; esac\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    run_program(folder, {"spark": {}}, {"PYSPARK_PYTHON": str(python)})
    assert late.exists()
    assert outputs(folder.run("spark")) == outputs(expected)


HIDING = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "{module}":
            raise ModuleNotFoundError("No module named '{module}'", name="{module}")


sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.parametrize("module", everyday(["numba"], ["sash", "numba"]))
def test_an_executor_that_lacks_a_module(folder, module):
    """Its Python is another one than the driver's: here a wrapper that hides the module."""
    write_streams(folder, ONE_FRAGMENT, 1)
    hiding, python = folder.root / "hiding", folder.root / "python"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(HIDING.format(module=module))
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{hiding}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (told,) = run_program(folder, {"spark": {}}, {"PYSPARK_PYTHON": str(python)})
    assert told["error"].startswith("ResourceError: the Python of an executor (")
    assert told["error"].endswith(
        f") has no module `{module}`; install sash there as it is on the driver, or let PYSPARK_PYTHON name a Python "
        "that has it"
    )
    assert not (folder.root / "spark").exists()
