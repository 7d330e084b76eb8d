"""`sash.configure(builder)`: what is set in a builder of one's own, and that sessions made by it run Sash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sash
from sash.errors import PlanError, ResourceError, SashWarning
from sash.runtime.memory_settings import configured
from sash.spark import own_builder, session_checks
from sash.spark.session_checks import check_session
from sash.spark.session_settings import ROCKSDB_PROVIDER

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if none ran yet. What is set in the environment then is taken back."""
    monkeypatch.setattr(own_builder, "must_launch", lambda: True)
    for name in ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def options_of(builder: Any) -> dict[str, str]:
    return dict(builder._options)


@pytest.mark.usefixtures("no_jvm")
class TestNewSession:
    def test_what_is_missing_is_set_and_what_is_set_stays(self) -> None:
        builder = SparkSession.builder.master("local[3]").config("spark.sql.session.timeZone", "Asia/Tokyo")
        assert sash.configure(builder, memory="64m", spill="/data/spill") is builder
        found = options_of(builder)
        assert found[PROVIDER] == ROCKSDB_PROVIDER
        assert found["spark.sql.session.timeZone"] == "Asia/Tokyo"
        assert found["spark.sql.shuffle.partitions"] == "3"
        assert found["spark.driver.bindAddress"] == "127.0.0.1"
        assert found["spark.sash.memory"] == "64m"
        assert found["spark.local.dir"] == "/data/spill"

    @pytest.mark.parametrize(
        ("master", "found"),
        [(None, "local[*,4]"), ("local[3]", "local[3,4]"), ("local[3,1]", "local[3,1]"), ("yarn", "yarn")],
    )
    def test_the_master(self, master: str | None, found: str) -> None:
        builder = SparkSession.builder if master is None else SparkSession.builder.master(master)
        assert options_of(sash.configure(builder))["spark.master"] == found

    def test_a_cluster_keeps_its_addresses_and_its_number_of_partitions(self) -> None:
        found = options_of(sash.configure(SparkSession.builder.master("spark://head:7077")))
        assert not {"spark.driver.host", "spark.driver.memory", "spark.sql.shuffle.partitions"} & found.keys()

    def test_a_server_is_given_what_sessions_may_set(self) -> None:
        found = options_of(sash.configure(SparkSession.builder.remote("sc://elsewhere:15002"), memory="1g"))
        assert found.pop("spark.remote") == "sc://elsewhere:15002"
        assert found.pop("spark.sash.memory") == "1g"
        assert found[PROVIDER] == ROCKSDB_PROVIDER
        assert all(name.startswith("spark.sql.") for name in found)

    def test_the_memory_of_this_process_stays(self) -> None:
        sash.configure(memory="64 KiB")
        sash.configure(SparkSession.builder.master("local[2]"), memory="1g")
        assert configured().memory == "64 KiB"


def test_spark_that_runs_already_keeps_what_it_was_started_with(spark: SparkSession) -> None:
    with pytest.warns(SashWarning, match="keeps what was fixed when it started") as caught:
        builder = sash.configure(SparkSession.builder.master("local[7]"))
    assert [each.filename for each in caught] == [__file__]
    assert "spark.driver.memory" not in options_of(builder)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("64m", r"`configure` takes memory by its name: sash\.configure\(memory='64m'\)"),
        (5, r"`configure` takes memory by its name: sash\.configure\(memory=5\)"),
        (
            object(),
            r"`configure` takes the builder of a Spark session, not object: pass `SparkSession\.builder`, before",
        ),
    ],
)
def test_what_is_no_builder_is_refused(given: object, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        sash.configure(given)


class TestInterpreter:
    """Of the workers, looked at before anything starts."""

    def test_this_one_is_right(self, spark: SparkSession) -> None:
        assert check_session(spark) == []

    @pytest.mark.parametrize(
        ("says", "told"),
        [
            (None, "which does not start"),
            ("3 9\n", "which has Python 3.9 and no Sash"),
            ("3 11\n0.0.1\n", "which has Python 3.11 and Sash 0.0.1"),
        ],
    )
    def test_another_one_is_refused(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, told: str
    ) -> None:
        other = tmp_path / "python"
        if says is not None:
            other.write_text(f"#!/bin/sh\nprintf '{says.encode('unicode_escape').decode()}'\n")
            other.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
        with pytest.raises(ResourceError, match=f"Spark's workers run `{other}`, {told}, but this process has Python"):
            check_session(spark)

    def test_another_path_to_the_same_is_right(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path / "python"
        other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        other.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
        assert check_session(spark) == []

    def test_it_is_asked_once(self, tmp_path: Path) -> None:
        other = tmp_path / "python"
        assert session_checks._look_at_python(str(other)) == session_checks._look_at_python(str(other))
        assert session_checks._look_at_python.cache_info().hits


QUERY = """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession
import sash

place = Path(sys.argv[1])
spark = sash.configure({builder}).getOrCreate()
(place / "in").mkdir()
rows = pa.table({{"ts": pa.array(range(0, 10_000_000, 1_000_000), pa.timestamp("us", "UTC")), "frame": [0, 1] * 5}})
pq.write_table(rows, place / "in" / "rows.parquet")
s = spark.readStream.schema("ts timestamp, frame long").parquet(str(place / "in")).withWatermark("ts", "1 second")
out = sash.sql("SELECT frame, count(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY frame", s=s)
query = out.writeStream.format("memory").queryName("o").option("checkpointLocation", str(place / "checkpoint")).start()
query.processAllAvailable()
sash.complete(out)
query.processAllAvailable()
print("COUNTED", sorted(sash.answer(spark.table("o"), groups=["frame"]).collect()))
query.stop()
try:
    session = sash.Session()
    session.stream("s", s)
    session.query("q", "SELECT frame FROM s")
    print("SESSION may run")
except sash.PlanError as error:
    print("SESSION", error)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.deep  # each starts a Spark of its own
@pytest.mark.parametrize(
    ("builder", "of_session"),
    [
        ('SparkSession.builder.master("local[2]")', "may run"),
        (
            'SparkSession.builder.remote("local[2]")',
            "a session publishes its batches from the process that drives Spark",
        ),
    ],
    ids=["classic", "connect"],
)
def test_a_query_runs(tmp_path: Path, builder: str, of_session: str) -> None:
    script = QUERY.format(builder=builder)
    ended = subprocess.run(
        [sys.executable, "-W", "error::sash.SashWarning", "-c", script, tmp_path], capture_output=True, text=True
    )
    told = [line for line in ended.stdout.splitlines() if line.startswith(("COUNTED", "SESSION"))]
    assert len(told) == 2, ended.stderr
    assert told[0] == "COUNTED [Row(frame=0, n=2), Row(frame=1, n=3)]"
    assert told[1].startswith(f"SESSION {of_session}")
