"""Makes the builder of a user's own Spark session right, in one step; what the user has set stays.

    spark = sash.configure(SparkSession.builder.appName("mine").master("local[4]")).getOrCreate()

What is fixed when a JVM starts is set before there is one: so this comes before `getOrCreate`, not after it.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import SparkContext

from sash.runtime.callers import warn_caller
from sash.runtime.memory_settings import Size
from sash.spark.java import find_java
from sash.spark.session_settings import (
    LOCAL_DIRECTORY,
    MEMORY,
    SHUFFLE_PARTITIONS,
    choose_settings,
    count_local_cores,
    prepare_environment,
    with_retries,
)
from sash.spark.spark_session import must_launch

_MASTER, _REMOTE = "spark.master", "spark.remote"
_DEFAULT_MASTER = "local[*]"
"""What Spark takes if nobody names a master."""
_OF_A_SESSION = "spark.sql."
"""How settings begin that each session has for itself, whoever started its Spark, and when."""
_TOO_LATE = (
    "Spark runs already in this process: its session keeps what was fixed when it started, such as master and memory; "
    "call `sash.configure(builder)` before the first `getOrCreate()`, or stop the session"
)


def configure_builder(builder: Any, memory: Size | None, spill: str | os.PathLike[str] | None) -> Any:
    """Sets what Sash needs, and how much memory windows may take on each machine; returns the same builder."""
    own: dict[str, Any] = dict(builder._options)
    remote = own.get(_REMOTE) or os.environ.get("SPARK_REMOTE")
    master = own.get(_MASTER) or _DEFAULT_MASTER
    settings = _of_a_session(remote) if remote or not must_launch() else _of_a_new_jvm(master)
    if memory is not None:
        settings[MEMORY] = str(memory)
    if spill is not None:
        settings[LOCAL_DIRECTORY] = os.fspath(spill)
    for key, value in settings.items():
        if key not in own or key == _MASTER:
            builder.config(key, value)
    return builder


def _of_a_new_jvm(master: str) -> dict[str, str]:
    """For the JVM that `getOrCreate` will start, and whose environment this process is."""
    prepare_environment(master)
    os.environ["JAVA_HOME"] = str(find_java())
    return choose_settings(master) | _partitions(master) | {_MASTER: with_retries(master)}


def _of_a_session(remote: str | None) -> dict[str, str]:
    """For a Spark that is there already: one behind Spark Connect, of `spark-submit`, or in this process."""
    running = SparkContext._active_spark_context
    if running is not None:
        warn_caller(_TOO_LATE)
    master = remote or (running and running.master) or ""
    if count_local_cores(master) is not None:
        prepare_environment(master)
    every = choose_settings(master) | _partitions(master)
    return {key: value for key, value in every.items() if key.startswith(_OF_A_SESSION)}


def _partitions(master: str) -> dict[str, str]:
    """One for each core of this machine; how many a cluster has is not known yet."""
    cores = count_local_cores(master)
    return {} if cores is None else {SHUFFLE_PARTITIONS: str(cores)}
