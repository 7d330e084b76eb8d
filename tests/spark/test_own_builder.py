"""`sash.configure(builder)`: what is set in a builder of one's own, and that sessions made by it run Sash."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import sash
from sash.errors import PlanError, ResourceError, SashWarning
from sash.runtime.memory_settings import configured
from sash.spark import own_builder, session_checks
from sash.spark.session_checks import check_session
from sash.spark.session_settings import ROCKSDB_PROVIDER, TIME_ZONE

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if none ran yet. What is set in the environment then is taken back."""
    monkeypatch.setattr(own_builder, "must_launch", lambda: True)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    names = ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE")
    for name in (*names, "PYSPARK_SUBMIT_ARGS"):
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

    def test_the_time_zone_is_the_users(self) -> None:
        """Any is right for Sash; other queries of the session read it."""
        assert TIME_ZONE not in options_of(sash.configure(SparkSession.builder.master("local[2]")))

    def test_what_the_call_says_wins(self) -> None:
        builder = SparkSession.builder.config("spark.sash.memory", "1g").config("spark.local.dir", "/here")
        found = options_of(sash.configure(builder, memory="2g", spill="/there"))
        assert (found["spark.sash.memory"], found["spark.local.dir"]) == ("2g", "/there")

    def test_a_memory_that_is_no_size_is_refused(self) -> None:
        with pytest.raises(PlanError, match="`memory` is `much`, which is not a size"):
            sash.configure(SparkSession.builder, memory="much")

    def test_what_files_and_arguments_say_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = ["# spark.ui.enabled true", "spark.master yarn", "spark.driver.memory=9g", f"{PROVIDER}  : MyProvider"]
        (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
        found = options_of(sash.configure(SparkSession.builder))
        assert found["spark.master"] == "yarn"
        assert not {PROVIDER, "spark.driver.memory", "spark.driver.host"} & found.keys()
        said = "--master local[3] -c spark.sql.shuffle.partitions=7 --name mine pyspark-shell"
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", said)
        found = options_of(sash.configure(SparkSession.builder))
        assert found["spark.master"] == "local[3,4]"
        assert found["spark.driver.host"] == "127.0.0.1"
        assert not {"spark.sql.shuffle.partitions", "spark.driver.memory"} & found.keys()

    def test_workers_of_a_cluster_have_the_python_that_they_had(self) -> None:
        sash.configure(SparkSession.builder.master("yarn"))
        assert "PYSPARK_PYTHON" not in os.environ
        sash.configure(SparkSession.builder.master("local[2]"))
        assert os.environ["PYSPARK_PYTHON"] == sys.executable

    def test_a_server_is_given_what_sessions_may_set(self) -> None:
        found = options_of(sash.configure(SparkSession.builder.remote("sc://elsewhere:15002"), memory="1g"))
        assert found.pop("spark.remote") == "sc://elsewhere:15002"
        assert found.pop("spark.sash.memory") == "1g"
        assert found[PROVIDER] == ROCKSDB_PROVIDER
        assert all(name.startswith("spark.sql.") for name in found)
        with pytest.raises(PlanError, match=r"`spill` is `spark\.local\.dir`, which is fixed when Spark starts"):
            sash.configure(SparkSession.builder.remote("sc://elsewhere:15002"), spill="/data")

    def test_the_memory_of_this_process_stays(self) -> None:
        sash.configure(memory="64 KiB")
        sash.configure(SparkSession.builder.master("local[2]"), memory="1g")
        assert configured().memory == "64 KiB"


def test_spark_that_runs_already_keeps_what_it_was_started_with(spark: SparkSession) -> None:
    with pytest.warns(SashWarning, match="keeps what was fixed when it started") as caught:
        builder = sash.configure(SparkSession.builder.master("local[7]"))
    assert [each.filename for each in caught] == [__file__]
    found = options_of(builder)
    assert not {"spark.driver.memory", "spark.sql.shuffle.partitions", TIME_ZONE} & found.keys(), "it has these"


def test_a_jvm_that_is_there_keeps_what_it_was_told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `spark.stop()`, and where `spark-submit` has started it: a new context takes the builder's settings."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    found = options_of(sash.configure(SparkSession.builder.master("local[3]")))
    assert found["spark.master"] == "local[3,4]"
    told = {*dict(SparkConf().getAll())}
    assert "spark.local.dir" in told
    assert not told & (found.keys() - {"spark.master"})


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
            ("Loading\n", "which does not start"),
            ("python of sash: 3 9\n", "which has Python 3.9 and no Sash"),
            ("Loading 3 modules\npython of sash: 3 11 0.0.1\n", "which has Python 3.11 and Sash 0.0.1"),
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

    def test_one_that_is_right_is_asked_once_and_another_one_again(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, n_asked = tmp_path / "python", count()
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
        for _ in range(2):
            with pytest.raises(ResourceError, match="does not start"):
                session_checks.require_same_python(spark)
        ours = session_checks._version_of(*sys.version_info[:2], sash.__version__)
        monkeypatch.setattr(session_checks, "_look_at_python", lambda python: [ours, next(n_asked)][0])
        for _ in range(2):
            session_checks.require_same_python(spark)
        assert next(n_asked) == 1

    def test_one_that_takes_too_long_is_not_refused(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run(*_: object, **named: Any) -> None:
            raise subprocess.TimeoutExpired("python", named["timeout"])

        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "slow"))
        monkeypatch.setattr(subprocess, "run", run)
        session_checks.require_same_python(spark)

    def test_the_remedy_is_one(self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "python"))
        monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
        with pytest.raises(ResourceError, match=f"; correct PYSPARK_PYTHON={sys.executable} and start Python anew"):
            session_checks.require_same_python(spark)
        monkeypatch.delenv("PYSPARK_PYTHON")
        with pytest.raises(ResourceError, match=f"; set PYSPARK_PYTHON={sys.executable} and start Python anew"):
            session_checks.require_same_python(spark)


QUERY = """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession
import warnings
import sash

warnings.simplefilter("error", sash.SashWarning)
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
    ended = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    told = [line for line in ended.stdout.splitlines() if line.startswith(("COUNTED", "SESSION"))]
    assert len(told) == 2, ended.stderr
    assert told[0] == "COUNTED [Row(frame=0, n=2), Row(frame=1, n=3)]"
    assert told[1].startswith(f"SESSION {of_session}")
