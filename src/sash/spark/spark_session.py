"""Starts a Spark session made for Sash, and ends it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sash.errors import ResourceError
from sash.plan.memory_forecast import MemoryForecast
from sash.plan.physical import Plan
from sash.spark.failures import describe_java_error, translate
from sash.spark.java import find_java
from sash.spark.machine_budget import MachineBudget, parse_memory
from sash.spark.machine_forecast import forecast_on_machine
from sash.spark.scratch import make_log, remove_log, sweep
from sash.spark.session_settings import (
    LOG,
    MEMORY,
    SHUFFLE_PARTITIONS,
    choose_settings,
    count_local_cores,
    prepare_environment,
    with_retries,
)

_JAVA_ENDED = re.compile(r'^Exception in thread "main" [\w.$]+: (.+)$', re.MULTILINE)
"""How a JVM tells why it does not begin."""


def spark_session(
    master: str = "local[*]", app_name: str = "sash", log: str | os.PathLike[str] | None = None, **config: object
) -> SparkSession:
    """A Spark session made for Sash, whose chatter goes to the file `log` instead of the terminal.

    Without `log` it is a temporary file; `find_log` tells which. What Python workers print is in there as well.
    `config` are settings of Spark, given as `**{"spark.driver.memory": "8g"}`; they win over Sash's own. On a cluster
    give `spark.sql.shuffle.partitions`: the default is one per core present at start, and a checkpoint keeps it.

    If this process already runs Spark, its session is returned: settings that are fixed at launch, and the log, stay.
    """
    settings = choose_settings(master) | {"spark.master": with_retries(master), "spark.app.name": app_name}
    settings |= {key: _spell(value) for key, value in config.items()}
    is_new = SparkContext._active_spark_context is None
    prepare_environment(master)
    if must_launch():
        sweep()
        settings[LOG] = str(log or make_log())
        _launch(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _telling_of_a_dead_jvm():
        spark = builder.getOrCreate()
        if is_new and not spark.sparkContext.getConf().contains(SHUFFLE_PARTITIONS):
            spark.conf.set(SHUFFLE_PARTITIONS, spark.sparkContext.defaultParallelism)
    return spark


@contextmanager
def _telling_of_a_dead_jvm() -> Iterator[None]:
    try:
        yield
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        raise translate(error) from error


def read_budget(spark: SparkSession) -> MachineBudget:
    """What windows may take of the memory of each machine."""
    setting = spark.conf.get(MEMORY, None)
    cores = count_local_cores(spark.conf.get("spark.master", "") or "") or spark.conf.get("spark.executor.cores", None)
    application = spark.conf.get("spark.app.id", "") or ""
    return MachineBudget(None if setting is None else parse_memory(setting), int(cores) if cores else None, application)


def forecast_memory_of(
    spark: SparkSession, plans: Sequence[Plan], tables: Mapping[str, pa.Table] | None = None
) -> MemoryForecast | None:
    """What plans that run together are expected to keep; see `forecast_on_machine`."""
    return forecast_on_machine(read_budget(spark), plans, tables)


def find_log(spark: SparkSession) -> Path | None:
    """The file that holds Spark's log, or None if Sash did not launch this session's JVM."""
    path = spark.conf.get(LOG, None)
    return Path(path) if path else None


def end_session(spark: SparkSession, is_well: bool) -> None:
    """Stops the session, whether its JVM still answers or not; its temporary log goes with it if all went well."""
    with suppress(Exception):
        log = find_log(spark)
        spark.stop()
        if is_well and log:
            remove_log(log)


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def must_launch() -> bool:
    """False if this process has a JVM, or spark-submit started one for it."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ


def _launch(settings: dict[str, str]) -> None:
    """Starts the JVM and its SparkContext with the JVM's stderr in the log file.

    A JVM keeps the stderr it was launched with, so this is the only moment to choose it. Its stdout stays the terminal:
    the console sink writes there.
    """
    os.environ["JAVA_HOME"] = str(find_java())
    # These print an error of Spark's with its whole JVM stack, although the same error is raised in Python.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")
    conf, log = SparkConf().setAll(list(settings.items())), Path(settings[LOG])
    gateway = _launch_jvm(conf, log)
    try:
        with _telling_of_a_dead_jvm():
            context = SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        raise _does_not_start(settings["spark.master"], describe_java_error(error), log) from error
    # Else a JVM that dies leaves a traceback on the terminal, beside the error that is raised.
    context._accumulatorServer.handle_error = lambda request, client_address: None  # pyright: ignore


def _launch_jvm(conf: SparkConf, log: Path) -> JavaGateway:
    try:
        sink = log.open("ab")
    except OSError as error:
        raise ResourceError(f"cannot write Spark's log to `{log}`: {error.strerror}; name another file") from error
    with sink:
        try:
            # In a session of its own: a signal to the group of this process, as Ctrl-C is, reaches neither the JVM nor
            # its workers, which have a batch to finish. They end when the pipe from this process breaks.
            return launch_gateway(conf, popen_kwargs={"stderr": sink, "start_new_session": True})
        except PySparkRuntimeError as error:
            reason = _JAVA_ENDED.search(log.read_text(errors="replace"))
            if reason:
                raise _does_not_start(conf.get("spark.master") or "", reason[1], log) from error
            raise ResourceError(
                f"Java at `{os.environ['JAVA_HOME']}` did not start Spark; the reason stands in `{log}`"
            ) from error


def _does_not_start(master: str, reason: str, log: Path) -> ResourceError:
    return ResourceError(
        f"Spark does not start on `{master}`: {reason}; correct the master or the setting; the details are in `{log}`"
    )
