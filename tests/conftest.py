"""What every test may use: the Hypothesis profiles `dev` and `ci`, and one Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what uses the `spark` fixture, however deep, so that `-m "not spark"` never starts a JVM."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


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
