"""What Spark has to be set to for Sash: on a local master, and on a cluster."""

from __future__ import annotations

import os
import re
import sys

STATE_STORE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG_CHECKPOINTING = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WORKER_REUSE = "spark.python.worker.reuse"
LOCAL_DIRECTORY = "spark.local.dir"
TIME_ZONE = "spark.sql.session.timeZone"
MEMORY = "spark.sash.memory"
"""Not a setting of Spark's: what windows may take of the memory of each machine, all queries together."""
LOG = "spark.sash.log"
"""Not a setting of Spark's: where the JVM that Sash launched writes its log."""

TASK_ATTEMPTS = 4
_LOOPBACK = "127.0.0.1"
_GIB = 1 << 30


def choose_settings(master: str) -> dict[str, str]:
    """By name, without the master itself."""
    settings = {
        STATE_STORE_PROVIDER: ROCKSDB_PROVIDER,
        CHANGELOG_CHECKPOINTING: "true",
        # With format 2 and a file sink some kills leave a checkpoint from which Spark cannot restart.
        CHECKPOINT_FORMAT: "1",
        TIME_ZONE: "UTC",
        # Rows are packed into blocks in Python: fewer, larger hand-overs. Spark cuts at 64 MiB in any case.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # By default a worker on a busy machine has 15 seconds to say who it is.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if is_on_this_machine(master):
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


def count_local_cores(master: str) -> int | None:
    """How many cores a local master uses; None for a cluster."""
    local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", master)
    if not local:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def is_on_this_machine(master: str) -> bool:
    """Whether all that runs under a master runs here: in one process, or as executors of a cluster that it starts."""
    return count_local_cores(master) is not None or master.startswith("local-cluster[")


def with_retries(master: str) -> str:
    """A local master that tries a task as often as a cluster does; by itself it gives up at the first failure."""
    local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*\])?", master)
    return f"local[{local[1] or 1},{TASK_ATTEMPTS}]" if local else master


def _choose_driver_gib() -> int:
    """A quarter of the memory, 1 to 4 GiB: windows live in RocksDB and in Python workers, outside the JVM's heap."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(4, physical // 4 // _GIB))


def prepare_environment(master: str) -> None:
    """Sets what the JVM and its workers inherit; a Python or address that the user chose stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_this_machine(master):
        # The Spark UI, if switched on, listens on all interfaces unless this names one; no setting does.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
