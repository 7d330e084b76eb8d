"""What runs without the extras, and what those are told who ask for more."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.errors import ResourceError
from support.bare import EXTRA_MODULES, run_bare
from support.commands import run_command

IN_THIS_PROCESS = "pass Arrow, pandas or Polars frames, to answer in this process"
ROWS = pa.table({"k": [1], "ts": pa.array([0], pa.timestamp("us"))})
TEXT = "SELECT k FROM a WINDOW 1 SECOND"


class SparkLike:
    """What `sash.sql` takes for a Spark frame."""

    __module__ = "pyspark.sql.dataframe"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets a package seem not to be installed."""
    return lambda module: monkeypatch.setitem(sys.modules, module, None)


WAYS_TO_SPARK = {
    "sql": (lambda: sash.sql(TEXT, a=SparkLike()), "a query over Spark frames", IN_THIS_PROCESS),
    "explain": (lambda: sash.explain(TEXT, a=SparkLike()), "a query over Spark frames", IN_THIS_PROCESS),
    "stream": (lambda: sash.Session().stream("a", SparkLike()), "a query over Spark frames", IN_THIS_PROCESS),
    "relation": (lambda: sash.Session().relation("a", SparkLike()), "a query over Spark frames", IN_THIS_PROCESS),
    "session": (lambda: sash.spark_session(), "a Spark session", IN_THIS_PROCESS),
    "complete": (
        lambda: sash.complete(SparkLike()),
        "`sash.complete`",
        "use sash.query, whose `advance` says it in this process",
    ),
}


@pytest.mark.parametrize("way", WAYS_TO_SPARK)
@pytest.mark.parametrize(
    ("module", "package"), [("pyspark", "pyspark"), ("pandas", "pandas"), ("google.protobuf", "protobuf")]
)
def test_spark_from_python(way, module, package, without):
    """Who has pyspark need not have what else Sash needs there."""
    call, what, otherwise = WAYS_TO_SPARK[way]
    without(module)
    with pytest.raises(ResourceError) as raised:
        call()
    assert str(raised.value) == (
        f"{what} needs {package}, which is not installed; install it with `pip install 'sash[spark]'`, or {otherwise}"
    )


@pytest.mark.parametrize("options", [[], ["--fresh"], ["--follow"], ["--json"]])
def test_sash_run(options, without, tmp_path, monkeypatch, capsys):
    """Said at once: even the script is not looked at."""
    without("pyspark")
    monkeypatch.chdir(tmp_path)
    assert run_command(monkeypatch, "run", "script.sql", *options) == 1
    assert tuple(capsys.readouterr()) == (
        "",
        "error: `sash run` on Spark needs pyspark, which is not installed; "
        "install it with `pip install 'sash[spark]'`, or use --engine embedded\n",
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bench", ["join", "multiway", "outer", "shared", "window"])
def test_sash_bench_on_spark(bench, without, tmp_path, monkeypatch, capsys):
    without("pyspark")
    monkeypatch.chdir(tmp_path)
    assert run_command(monkeypatch, "bench", bench) == 1
    assert capsys.readouterr().err == (
        "error: `sash bench` on Spark needs pyspark, which is not installed; "
        "install it with `pip install 'sash[spark]'`, or use --engine embedded\n"
    )
    assert not list(tmp_path.iterdir())


def test_sash_bench_memory_with_spark(without, tmp_path, monkeypatch, capsys):
    without("pyspark")
    monkeypatch.chdir(tmp_path)
    assert run_command(monkeypatch, "bench", "memory") == 1
    assert capsys.readouterr().err == (
        "error: Spark's join needs pyspark, which is not installed; "
        "install it with `pip install 'sash[spark]'`, or name the other --engines\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("bench join --engine embedded", "drawing the result of `sash bench`"),
        ("bench multiway --engine embedded", "drawing the result of `sash bench`"),
        ("bench shared --engine embedded", "drawing the result of `sash bench`"),
        ("bench window --engine embedded", "drawing the result of `sash bench`"),
        ("bench memory --quick", "drawing the result of `sash bench`"),
        ("bench outer --engine embedded", "drawing the result of `sash bench`"),
        ("bench topk", "drawing the result of `sash bench`"),
        ("bench plans", "drawing the result of `sash bench`"),
        ("experiment run wjoin7 --quick", "drawing the figures of an experiment"),
    ],
)
def test_pictures(command, what, without, tmp_path, monkeypatch, capsys):
    """Said before anything is measured."""
    without("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert run_command(monkeypatch, *command.split()) == 1
    assert capsys.readouterr().err == (
        f"error: {what} needs matplotlib, which is not installed; install it with `pip install 'sash[plots]'`\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["sash.testing.strategies", "sash.testing.plans"])
def test_strategies(module, without, monkeypatch):
    without("hypothesis")
    for each in ("sash.testing.strategies", "sash.testing.plans"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    with pytest.raises(ResourceError) as raised:
        importlib.import_module(module)
    assert str(raised.value) == (
        "`sash.testing.strategies` needs hypothesis, which is not installed; "
        "install it with `pip install 'sash[testing]'`"
    )


def test_a_package_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    """What is wrong with it is told by itself."""
    (tmp_path / "hypothesis").mkdir()
    (tmp_path / "hypothesis" / "__init__.py").write_text("raise ImportError('broken')")
    monkeypatch.syspath_prepend(tmp_path)
    for each in [name for name in sys.modules if name.split(".")[0] == "hypothesis"]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.delitem(sys.modules, "sash.testing.strategies", raising=False)
    with pytest.raises(ImportError, match=r"^broken$"):
        importlib.import_module("sash.testing.strategies")


SCRIPT = """
CREATE STREAM a (k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'a' FORMAT csv;
CREATE QUERY every AS SELECT k, COUNT(*) AS n FROM a GROUP BY k WINDOW 5 SECONDS INTO 'out' FORMAT parquet;
"""
QUERIES = f"""
import sys
import pyarrow as pa
import sash
import sash.testing

loaded = sorted(set({EXTRA_MODULES}) & set(sys.modules))
assert not loaded, loaded
rows = pa.table({{"k": [1, 1], "ts": pa.array([0, 10], pa.timestamp("us"))}})
assert sash.sql("SELECT A.k FROM a A, b B WHERE A.k = B.k WINDOW 1 SECOND", a=rows, b=rows).num_rows == 4
assert sash.verify("SELECT k, MEDIAN(k) AS m FROM a GROUP BY k WINDOW 1 SECOND", a=rows)
session = sash.Session()
session.stream("a", rows)
session.query("one", "SELECT DISTINCT k FROM a WINDOW 1 SECOND")
session.push("a", [{{"k": 1, "ts": "2026-01-01"}}])
query = sash.query("SELECT k FROM a [ROWS 1]", a=rows)
query.push("a", rows)
query.restore(query.snapshot())
"""


COMMANDS = """
from sash.cli.main import app

for command in (
    "--version",
    "repair script.sql",
    "run script.sql --engine embedded",
    "explain script.sql",
    "explain --analyze script.sql",
    "verify script.sql",
    "experiment list",
    "workload sensors --duration 1s",
):
    assert app(command.split(), standalone_mode=False) in (None, 0), command
"""


class TestWithoutExtras:
    """In processes that can import none of what they bring."""

    @pytest.mark.slow
    def test_queries(self, tmp_path):
        done = run_bare(["-c", QUERIES], tmp_path, tmp_path / "shim")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.slow
    def test_commands(self, tmp_path: Path):
        """One after the other in one process, as each would take seconds to begin."""
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "1.csv").write_text("k,ts\n1,2026-01-01 00:00:01\n1,2026-01-01 00:00:02\n")
        (tmp_path / "script.sql").write_text(SCRIPT)
        done = run_bare(["-c", COMMANDS], tmp_path, tmp_path / "shim")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
