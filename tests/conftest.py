"""What every test may use: the Hypothesis profiles `dev` and `ci`, and one Spark session; and who runs which test."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import sash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci", max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# The default only: `--hypothesis-profile` is applied after this file is read.
settings.load_profile("dev")

# What a machine's calibration says must not change what plans look like here.
os.environ["SASH_COSTS"] = os.devnull + "/none"


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark, and before xdist reads the order
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what uses the `spark` fixture, however deep, so that `-m "not spark"` never starts a JVM."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if config.getoption("loadgroup", default=False):
        _share_out(items)


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
    if item.get_closest_marker("spark"):
        return Turn.SPARK
    if item.get_closest_marker("slow"):
        return Turn.SLOW
    return Turn.LAW if "laws" in item.path.parts else Turn.QUICK


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session all tests share, as starting Spark takes seconds; change settings in `spark.newSession()` only."""
    from sash.spark.session import spark_session

    scratch = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "local[2]",
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
