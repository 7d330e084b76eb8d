"""What every test may use: the Hypothesis profiles, one Spark session, one PostgreSQL server; and who runs what."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from typer.testing import CliRunner

import sash
from sash.cli.main import app
from sash.store.byte_sizes import parse_bytes
from support.masters import MASTER
from support.postgres_server import MISSING, Server, find_programs, running_server
from support.profiles import in_depth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[1] / "examples"

settings.register_profile("dev", max_examples=3, deadline=None)
settings.register_profile(
    "ci", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "deep", settings.get_profile("ci"), max_examples=in_depth(75), derandomize=False, print_blob=True
)
# Where a mistake was planted, it is enough to know who notices: no example is made small.
settings.register_profile("planted", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
# The default only: `--hypothesis-profile` is applied after this file is read.
settings.load_profile("dev")

# What a machine's calibration says must not change what plans look like here.
os.environ["SASH_COSTS"] = os.devnull + "/none"

# Who looks for a mistake of ours wants to see all of our frames.
os.environ["SASH_TRACEBACK"] = "full"

# A JVM lives for seconds here: what its second compiler takes is never earned back. Half of its time in all.
for _options in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_options, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture
def without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """For plans that need more memory than the 64 KiB under which all else runs too, and for what EXPLAIN says then."""
    monkeypatch.delenv("SASH_MEMORY", raising=False)


@pytest.fixture
def four_times_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """For laws some of whose plans need more memory than all else runs under, if there is a limit."""
    if limit := parse_bytes(os.environ.get("SASH_MEMORY", "")):
        monkeypatch.setenv("SASH_MEMORY", f"{4 * limit} B")


def pytest_runtest_teardown() -> None:
    """A limit on memory that a test has set, and not taken back as it failed, is none of the next one's."""
    sash.configure()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark, and before xdist reads the order
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what uses the `spark` fixture, however deep, so that `-m "not spark"` never starts a JVM.

    Leaves out what is for `make deep`.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")  # as whoever comes first starts a server
    if settings.get_current_profile_name() != "deep":
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("deep")])
        items[:] = [item for item in items if not item.get_closest_marker("deep")]
    if config.getoption("loadgroup", default=False):
        _share_out(items)


def pytest_collection_finish() -> None:
    """What is there now stays to the end. Garbage is collected often, also by tests, and need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Else what DuckDB has made would still be there when its module goes, and it would complain."""
    gc.unfreeze()


def _share_out(items: list[pytest.Item]) -> None:
    """For `--dist loadgroup`: one process runs all that needs Spark, whoever is free takes the next of the rest.

    Tests are given out in the order of `items`. The longest come first, so that no process is left with one at the end.
    """
    items.sort(key=_turn)
    for item in items:
        if _turn(item) is Turn.SPARK:
            _put_into_group(item, "spark")
    _import_all()


def _put_into_group(item: pytest.Item, group: str) -> None:
    """What the mark `xdist_group` is for; but xdist 3.8 writes the group to where pytest 9.2 no longer looks."""
    item._id = type(item.id).parse(f"{item.nodeid}@{group}")
    assert item.nodeid.endswith(f"@{group}")


def _import_all() -> None:
    """Hypothesis draws from the constants of all modules there are: these must not depend on which tests ran before."""
    for module in pkgutil.walk_packages(sash.__path__, "sash."):
        importlib.import_module(module.name)


class Turn(IntEnum):
    SPARK, SLOW, LAW, QUICK = range(4)


def _turn(item: pytest.Item) -> Turn:
    """What is deep and starts a Spark of its own takes long enough to run beside those that share one."""
    shares_spark = "spark" in getattr(item, "fixturenames", ())
    if shares_spark or (item.get_closest_marker("spark") and not item.get_closest_marker("deep")):
        return Turn.SPARK
    if item.get_closest_marker("slow") or item.get_closest_marker("deep"):
        return Turn.SLOW
    return Turn.LAW if "laws" in item.path.parts else Turn.QUICK


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], str]:
    """The text of a script of examples/ by its name, its data generated by the command that it names; both the data
    and the output are in the test's directory.
    """

    def prepare(name: str) -> str:
        text = (EXAMPLES / f"{name}.sql").read_text().replace("examples/", f"{tmp_path}/")
        command = re.search(r"generated: sash (.*)", text)
        assert command
        done = CliRunner().invoke(app, shlex.split(command[1]))
        assert done.exit_code == 0, done.output
        return text

    return prepare


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session all tests share, as starting Spark takes seconds; change settings in `spark.newSession()` only."""
    from sash.spark.spark_session import spark_session

    scratch = tmp_path_factory.mktemp("spark")
    session = spark_session(
        MASTER,
        app_name="sash-tests",
        log=scratch / "spark.log",
        **{
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.warehouse.dir": scratch / "warehouse",
            "spark.local.dir": scratch / "local",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that the tests of a process share; without one on the machine they are skipped."""
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    with running_server(programs) as server:
        yield server
