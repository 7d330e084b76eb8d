"""What a session of Sash's is set to, that it keeps quiet, and what is said of a user's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import sash
from sash.errors import PlanError, ResourceError
from sash.spark import session_settings
from sash.spark import spark_session as sash_session
from sash.spark.machine_budget import MachineBudget
from sash.spark.session_checks import check_session
from sash.spark.spark_session import find_log, read_budget, spark_session


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    """A session whose settings a test may change; it starts from those the shared one was launched with."""
    return spark.newSession()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.streaming.stateStore.providerClass", session_settings.ROCKSDB_PROVIDER),
        ("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true"),
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "1"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.sql.streaming.checkpointFileManagerClass", session_settings.LOCAL_FILE_MANAGER),
        ("spark.python.unix.domain.socket.enabled", "true"),
        ("spark.python.authenticate.socketTimeout", "60s"),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
    ],
)
def test_a_local_session_is_set_up(spark: SparkSession, setting: str, value: str) -> None:
    assert spark.conf.get(setting) == value


def test_a_second_call_returns_the_running_session(spark: SparkSession, tmp_path: Path) -> None:
    again = spark_session("local[2]", log=tmp_path / "other.log")
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "2"
    assert find_log(again) == find_log(spark)
    assert not (tmp_path / "other.log").exists()


def test_a_cluster_keeps_its_own_addresses_and_memory() -> None:
    settings = session_settings.choose_settings("spark://head:7077")
    assert settings["spark.sql.streaming.stateStore.providerClass"] == session_settings.ROCKSDB_PROVIDER
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory", "spark.ui.enabled"} & set(
        settings
    )


def test_executors_on_this_machine_need_what_a_local_master_needs() -> None:
    local, cluster = (session_settings.choose_settings(master) for master in ("local[2]", "local-cluster[2,1,1024]"))
    assert local == cluster


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[3,2]", 3), ("local-cluster[2,1,1024]", None), ("yarn", None)],
)
def test_cores_of_a_master(master: str, cores: int | None) -> None:
    assert session_settings.count_local_cores(master) == cores


@pytest.mark.parametrize(
    ("master", "chosen"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3,1]", "local[3,1]"),
        ("spark://head:7077", "spark://head:7077"),
    ],
)
def test_a_task_is_tried_four_times(master: str, chosen: str) -> None:
    """A worker may die; a local master gives up at once unless it is told not to."""
    assert session_settings.with_retries(master) == chosen


@pytest.mark.parametrize(
    ("setting", "n_bytes"),
    [("512", 512), ("64k", 1 << 16), ("256m", 1 << 28), ("2g", 1 << 31), ("1TB", 1 << 40), ("0", 0), (None, None)],
)
def test_the_memory_for_windows(own: SparkSession, setting: str | None, n_bytes: int | None) -> None:
    if setting is not None:
        own.conf.set("spark.sash.memory", setting)
    assert read_budget(own) == MachineBudget(n_bytes, 2, own.sparkContext.applicationId)


def test_a_memory_that_is_no_size_is_refused(own: SparkSession) -> None:
    own.conf.set("spark.sash.memory", "much")
    with pytest.raises(PlanError, match=r"`spark\.sash\.memory` is `much`, which is not a size; write it like `512m`"):
        read_budget(own)


def test_an_error_is_raised_and_not_printed(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException, match="`nope`"):
        spark.sql("SELECT nope")
    assert capfd.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as error:
        sash_session._launch_jvm(None, tmp_path)  # type: ignore[arg-type]
    assert str(error.value) == f"cannot write Spark's log to `{tmp_path}`: Is a directory; name another file"


class TestCheck:
    def test_finds_nothing_in_a_session_of_ours(self, spark: SparkSession) -> None:
        assert check_session(spark) == []

    def test_any_time_zone_is_fine(self, own: SparkSession) -> None:
        own.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert check_session(own) == []

    def test_refuses_another_state_store(self, own: SparkSession) -> None:
        own.conf.unset("spark.sql.streaming.stateStore.providerClass")
        own.conf.set("spark.sql.streaming.stateStore.providerClass", "org.example.HDFSBackedStateStoreProvider")
        with pytest.raises(PlanError) as error:
            check_session(own)
        assert str(error.value) == (
            "`spark.sql.streaming.stateStore.providerClass` is `org.example.HDFSBackedStateStoreProvider`, "
            "but transformWithState, which keeps windows, needs RocksDB; "
            'run `spark.conf.set("spark.sql.streaming.stateStore.providerClass", '
            '"org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")` before the query'
        )

    def test_takes_a_vendors_rocksdb(self, own: SparkSession) -> None:
        own.conf.set("spark.sql.streaming.stateStore.providerClass", "com.example.RocksDBStateStoreProvider")
        assert check_session(own) == []

    @pytest.mark.parametrize(
        ("setting", "value", "sentence"),
        [
            (
                "spark.sql.shuffle.partitions",
                "200",
                "`spark.sql.shuffle.partitions` is 200 on `local[2,4]`: every batch runs that many tasks and commits "
                "that many state stores; set it to 2 before the query first starts, as its checkpoint keeps the number",
            ),
            (
                "spark.sql.streaming.stateStore.checkpointFormatVersion",
                "2",
                "`spark.sql.streaming.stateStore.checkpointFormatVersion` is 2: after some kills Spark cannot restart "
                "from such a checkpoint; set it to 1",
            ),
            (
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
                "false",
                "`spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled` is not true: every batch "
                "uploads whole files of state instead of its changes; set it to true",
            ),
        ],
    )
    def test_names_the_setting_and_the_remedy(self, own: SparkSession, setting: str, value: str, sentence: str) -> None:
        own.conf.set(setting, value)
        assert check_session(own) == [sentence]


QUIET = """
import sys
from pathlib import Path

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

from sash.spark.spark_session import find_log, spark_session


class Count(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key, rows, timerValues):
        self.seen.update((sum(map(len, rows)),))
        yield pd.DataFrame({"k": [key[0]], "n": [self.seen.get()[0]]})

    def close(self):
        pass


home = Path(sys.argv[1])
(home / "in").mkdir()
pd.DataFrame({"k": [1, 1, 1]}).to_parquet(home / "in" / "rows.parquet")
spark = spark_session("local[1]", log=home / "spark.log")
rows = spark.readStream.schema("k long").parquet(str(home / "in"))
counts = rows.groupBy("k").transformWithStateInPandas(Count(), "k long, n long", "append", "none")
query = counts.writeStream.format("memory").queryName("counts").trigger(availableNow=True)
query.option("checkpointLocation", str(home / "checkpoint")).start().awaitTermination()
assert spark.table("counts").collect() == [(1, 3)]
assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
assert find_log(spark) == home / "spark.log"
spark.stop()
print("to stdout")
print("to stderr", file=sys.stderr)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_the_terminal_stays_quiet(tmp_path: Path) -> None:
    answer = subprocess.run([sys.executable, "-c", QUIET, tmp_path], capture_output=True, text=True, cwd=tmp_path)
    assert (answer.stdout, answer.stderr) == ("to stdout\n", "to stderr\n")
    assert "TransformWithStateInPandas Python worker" in (tmp_path / "spark.log").read_text()


@pytest.mark.spark
@pytest.mark.slow
def test_a_java_that_does_not_start_spark_leads_to_the_log(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from sash.spark.spark_session import spark_session\n"
        "try: spark_session('local[1]', log=sys.argv[1], **{'spark.driver.memory': 'much'})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    log = tmp_path / "spark.log"
    answer = subprocess.run([sys.executable, "-c", script, log], capture_output=True, text=True)
    assert answer.stdout.startswith("ResourceError Java at `")
    assert answer.stdout.endswith(f"` did not start Spark; the reason stands in `{log}`\n")
    assert "much" in log.read_text()


def test_explain_tells_of_a_limit_on_memory(own: SparkSession) -> None:
    """What is told in one process, of each machine, and where Spark's local files are."""
    rows = own.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS k")
    known: dict[str, Any] = {"time": "ts", "rate": 2000, "distinct": {"k": 1_000_000}}
    frames: dict[str, Any] = {name: sash.stream(rows, **known) for name in "ab"}
    text = "SELECT A.k FROM a A, b B WHERE A.k = B.k WINDOW 10 HOURS"
    assert "Memory:" not in sash.explain(text, **frames)
    own.conf.set("spark.sash.memory", "256m")
    line = sash.explain(text, **frames).splitlines()[-1]
    assert line.startswith("Memory: 256 MiB of each machine; about ")
    assert line.endswith(" written per second; files are in `spark.local.dir`")
    session = sash.Session()
    for name in frames:
        session.stream(name, rows, **known)
    session.query("pairs", text)
    assert session.explain().splitlines()[-1] == line
    own.conf.set("spark.sash.memory", "0")
    assert "Memory:" not in sash.explain(text, **frames)
