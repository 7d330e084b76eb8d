"""Which settings of a user's own Spark session would hurt, and what Sash cannot run on at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from sash.errors import PlanError, ResourceError
from sash.spark.session_settings import (
    CHANGELOG_CHECKPOINTING,
    CHECKPOINT_FORMAT,
    ROCKSDB_PROVIDER,
    SHUFFLE_PARTITIONS,
    STATE_STORE_PROVIDER,
    WORKER_REUSE,
    count_local_cores,
    is_on_this_machine,
)


def check_session(spark: SparkSession) -> list[str]:
    """One sentence for every setting of `spark` that costs a query of Sash speed or safety, with the remedy.

    Raises PlanError or ResourceError if the session cannot run such a query at all.
    """
    _require_rocksdb(spark)
    require_same_python(spark)
    findings = (_check_partitions(spark), _check_format(spark), _check_changelog(spark), _check_workers(spark))
    return [finding for finding in findings if finding]


def _require_rocksdb(spark: SparkSession) -> None:
    provider = spark.conf.get(STATE_STORE_PROVIDER) or ""
    # By its last name, as vendors of Spark ship the same store under their own package.
    if not provider.endswith("RocksDBStateStoreProvider"):
        raise PlanError(
            f"`{STATE_STORE_PROVIDER}` is `{provider}`, but transformWithState, which keeps windows, needs RocksDB; "
            f'run `spark.conf.set("{STATE_STORE_PROVIDER}", "{ROCKSDB_PROVIDER}")` before the query'
        )


def _check_partitions(spark: SparkSession) -> str | None:
    master = spark.conf.get("spark.master", "") or ""
    cores = count_local_cores(master)
    partitions = int(spark.conf.get(SHUFFLE_PARTITIONS) or 0)
    if cores is None or partitions <= 4 * cores:
        return None
    return (
        f"`{SHUFFLE_PARTITIONS}` is {partitions} on `{master}`: every batch runs that many tasks and commits that many "
        f"state stores; set it to {cores} before the query first starts, as its checkpoint keeps the number"
    )


def _check_format(spark: SparkSession) -> str | None:
    version = spark.conf.get(CHECKPOINT_FORMAT)
    if version == "1":
        return None
    return (
        f"`{CHECKPOINT_FORMAT}` is {version}: after some kills Spark cannot restart from such a checkpoint; set it to 1"
    )


def _check_changelog(spark: SparkSession) -> str | None:
    if spark.conf.get(CHANGELOG_CHECKPOINTING, "false") == "true":
        return None
    return (
        f"`{CHANGELOG_CHECKPOINTING}` is not true: every batch uploads whole files of state instead of its changes; "
        f"set it to true"
    )


def _check_workers(spark: SparkSession) -> str | None:
    if spark.conf.get(WORKER_REUSE, "true") != "false":
        return None
    return f"`{WORKER_REUSE}` is false: every task starts a Python process of its own; start the session with it true"


def refuse_connect(frames: Iterable[Any]) -> None:
    """Raises PlanError if a session of Sash could not run over these."""
    if any(_is_of_connect(frame) for frame in frames):
        raise PlanError(
            "a session publishes its batches from the process that drives Spark, which with Spark Connect is not this "
            "one; ask each query by `sash.sql`, or make the Spark session with `master` instead of `remote`"
        )


def _is_of_connect(it: object) -> bool:
    """Whether a frame or session only talks to a Spark that is driven elsewhere."""
    return type(it).__module__.startswith("pyspark.sql.connect")


def require_same_python(spark: SparkSession) -> None:
    """Raises ResourceError unless workers on this machine have the Python and the Sash that this process has: they run
    its code. Of a cluster this machine cannot tell.
    """
    if _is_of_connect(spark) or not is_on_this_machine(spark.conf.get("spark.master", "") or ""):
        return
    python = spark.sparkContext.pythonExec
    if python in _same or os.path.abspath(shutil.which(python) or python) == os.path.abspath(sys.executable):
        return
    found, ours = _look_at_python(python), _version_of(*sys.version_info[:2], sys.modules["sash"].__version__)
    if found is not None and found != ours:
        chosen = "PYSPARK_PYTHON" in os.environ
        raise ResourceError(
            f"Spark's workers run `{python}`, which {found}, but this process {ours}; "
            f"{'correct' if chosen else 'set'} PYSPARK_PYTHON={sys.executable} and start Python anew"
        )
    _same.add(python)


_same: set[str] = set()
"""Interpreters that were looked at, and are right."""
_ANSWER = "python of sash:"
_QUESTION = f"""
import sys
try:
    from sash import __version__
except ImportError:
    __version__ = ""
print("\\n{_ANSWER}", *sys.version_info[:2], __version__)
"""


def _look_at_python(python: str) -> str | None:
    """What an interpreter has, in words; None if it takes too long to say."""
    try:
        told = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        return None
    except OSError:
        told = ""
    for line in told.splitlines():
        if line.startswith(_ANSWER):
            major, minor, *sash = line.removeprefix(_ANSWER).split()
            return _version_of(int(major), int(minor), *sash)
    return "does not start"


def _version_of(major: int, minor: int, of_sash: str | None = None) -> str:
    return f"has Python {major}.{minor} and {f'Sash {of_sash}' if of_sash else 'no Sash'}"
