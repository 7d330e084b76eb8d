"""Makes the builder of a user's own Spark session right, in one step; what the user has set stays.

    spark = sash.configure(SparkSession.builder.appName("mine").master("local[4]")).getOrCreate()

What is fixed when a JVM starts is set before there is one: so this comes before `getOrCreate`, not after it.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sash.errors import PlanError
from sash.runtime.callers import warn_caller
from sash.runtime.memory_settings import Size
from sash.spark.java import find_java
from sash.spark.machine_budget import parse_memory
from sash.spark.outside_settings import settings_of_jvm, settings_of_next_jvm
from sash.spark.session_settings import (
    LOCAL_DIRECTORY,
    MEMORY,
    SHUFFLE_PARTITIONS,
    TIME_ZONE,
    choose_settings,
    count_local_cores,
    is_on_this_machine,
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
    "Spark runs already in this process: its session keeps what was fixed when it started, such as master and memory "
    "of the driver; call `sash.configure(builder)` before the first `getOrCreate()`, or stop the session before"
)


def configure_builder(builder: Any, memory: Size | None, spill: str | os.PathLike[str] | None) -> Any:
    """Sets what Sash needs and nobody has set, and how much memory windows may take on each machine; returns the same
    builder.
    """
    own: dict[str, Any] = dict(builder._options)
    running = SparkContext._active_spark_context
    remote = own.get(_REMOTE) or os.environ.get("SPARK_REMOTE")
    if remote:
        settings = _behind(remote)
    elif running is not None:
        warn_caller(_TOO_LATE)
        session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        outside = dict(running.getConf().getAll()) | (session.conf.getAll if session else {})
        settings = _of_a_session(str(running.master), outside)
    else:
        settings = _of_a_new_context(own)
    for key, value in settings.items():
        if key not in own or key == _MASTER:
            builder.config(key, value)
    if memory is not None:
        parse_memory(str(memory), "`memory`")
        builder.config(MEMORY, str(memory))
    if spill is not None:
        if remote or running is not None:
            raise PlanError(
                f"`spill` is `{LOCAL_DIRECTORY}`, which is fixed when Spark starts, and this one runs already; set it "
                "where Spark is started"
            )
        builder.config(LOCAL_DIRECTORY, os.fspath(spill))
    return builder


def _of_a_new_context(own: dict[str, Any]) -> dict[str, str]:
    """For the Spark that `getOrCreate` will start, in a JVM that there is or that it launches."""
    is_launched = must_launch()
    outside = settings_of_next_jvm() if is_launched else settings_of_jvm()
    master = own.get(_MASTER) or outside.get(_MASTER) or _DEFAULT_MASTER
    if is_launched:
        os.environ["JAVA_HOME"] = str(find_java())
    if is_on_this_machine(master):
        prepare_environment(master)
    return _missing(choose_settings(master) | _partitions(master), outside) | {_MASTER: with_retries(master)}


def _behind(remote: str) -> dict[str, str]:
    """For a session of Spark Connect. Where `remote` is a local master, PySpark starts the server in this process."""
    if is_on_this_machine(remote):
        prepare_environment(remote)
        if must_launch():
            os.environ["JAVA_HOME"] = str(find_java())
    return _of_a_session(remote, {})


def _of_a_session(master: str, outside: dict[str, str]) -> dict[str, str]:
    every = _missing(choose_settings(master) | _partitions(master), outside)
    return {key: value for key, value in every.items() if key.startswith(_OF_A_SESSION)}


def _missing(settings: dict[str, str], outside: dict[str, str]) -> dict[str, str]:
    """What nobody has set. The time zone is how Spark shows times, and what other queries of the user's read: any is
    right for Sash.
    """
    return {key: value for key, value in settings.items() if key not in outside and key != TIME_ZONE}


def _partitions(master: str) -> dict[str, str]:
    """One for each core of this machine; how many a cluster has is not known yet."""
    cores = count_local_cores(master)
    return {} if cores is None else {SHUFFLE_PARTITIONS: str(cores)}
