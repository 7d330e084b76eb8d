"""Starts a Spark session made for Sash, and says which settings of a user's own session would hurt."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sash.errors import PlanError, ResourceError
from sash.plan.memory_forecast import MemoryForecast, forecast_memory
from sash.plan.physical import Plan
from sash.spark.failures import describe_java_error, translate
from sash.spark.group_cache import Budget
from sash.spark.java import find_java
from sash.spark.scratch import make_log, remove_log, sweep
from sash.store.byte_sizes import parse_bytes

STATE_STORE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG_CHECKPOINTING = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WORKER_REUSE = "spark.python.worker.reuse"
LOCAL_DIRECTORY = "spark.local.dir"
MEMORY = "spark.sash.memory"
"""Not a setting of Spark's: what windows may take of the memory of each machine, all queries together."""
LOG = "spark.sash.log"
"""Not a setting of Spark's: where the JVM that Sash launched writes its log."""

TASK_ATTEMPTS = 4
_LOOPBACK = "127.0.0.1"
_GIB = 1 << 30
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
    settings = _choose_settings(master) | {"spark.master": _with_retries(master), "spark.app.name": app_name}
    settings |= {key: _spell(value) for key, value in config.items()}
    is_new = SparkContext._active_spark_context is None
    _prepare_environment(master)
    if _must_launch():
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


def read_budget(spark: SparkSession) -> Budget:
    """What windows may take of the memory of each machine."""
    setting = spark.conf.get(MEMORY, None)
    cores = _count_local_cores(spark.conf.get("spark.master", "") or "") or spark.conf.get("spark.executor.cores", None)
    return Budget(None if setting is None else _parse_bytes(setting), int(cores) if cores else None)


def forecast_memory_of(
    spark: SparkSession, plans: Sequence[Plan], tables: Mapping[str, pa.Table] | None = None
) -> MemoryForecast | None:
    """What plans that run together are expected to keep on a machine that has all groups; None if there is no limit.
    Of `tables` it is known how large they are.
    """
    budget = read_budget(spark)
    if not budget.n_bytes:
        return None
    found = forecast_memory(plans, budget.of_machine(Path(LOCAL_DIRECTORY)), tables, budget.n_running)
    return replace(found, is_of_each_machine=True)


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


def check_session(spark: SparkSession) -> list[str]:
    """One sentence for every setting of `spark` that costs a query of Sash speed or safety, with the remedy.

    Raises `PlanError` if the session cannot run such a query at all.
    """
    _require_rocksdb(spark)
    findings = (_check_partitions(spark), _check_format(spark), _check_changelog(spark), _check_workers(spark))
    return [finding for finding in findings if finding]


def _choose_settings(master: str) -> dict[str, str]:
    settings = {
        STATE_STORE_PROVIDER: ROCKSDB_PROVIDER,
        CHANGELOG_CHECKPOINTING: "true",
        # With format 2 and a file sink some kills leave a checkpoint from which Spark cannot restart.
        CHECKPOINT_FORMAT: "1",
        "spark.sql.session.timeZone": "UTC",
        # Rows are packed into blocks in Python: fewer, larger hand-overs. Spark cuts at 64 MiB in any case.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # By default a worker on a busy machine has 15 seconds to say who it is.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if _count_local_cores(master) is not None:
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.memory": f"{_choose_driver_gib()}g",
            # With the default one every state store took a tenth of a second to commit, with this one a hundredth. Both
            # write beside the file and rename.
            FILE_MANAGER: LOCAL_FILE_MANAGER,
            # Over TCP the first rows of a task came 40 ms late.
            "spark.python.unix.domain.socket.enabled": "true",
        }
    return settings


def _count_local_cores(master: str) -> int | None:
    """How many cores a local master uses; None for a cluster."""
    local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", master)
    if not local:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _with_retries(master: str) -> str:
    """A local master that tries a task as often as a cluster does; by itself it gives up at the first failure."""
    local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*\])?", master)
    return f"local[{local[1] or 1},{TASK_ATTEMPTS}]" if local else master


def _choose_driver_gib() -> int:
    """A quarter of the memory, 1 to 4 GiB: windows live in RocksDB and in Python workers, outside the JVM's heap."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(4, physical // 4 // _GIB))


def _parse_bytes(text: str) -> int:
    size = parse_bytes(text)
    if size is None:
        raise PlanError(f"`{MEMORY}` is `{text}`, which is not a size; write it like `512m` or `4g`")
    return size


def _spell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _prepare_environment(master: str) -> None:
    """Sets what the JVM and its workers inherit; a Python or address that the user chose stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _count_local_cores(master) is not None:
        # The Spark UI, if switched on, listens on all interfaces unless this names one; no setting does.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def _must_launch() -> bool:
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
    cores = _count_local_cores(master)
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
