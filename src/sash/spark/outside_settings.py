"""What a Spark has been told outside of the program that makes its session: by files, arguments, and who started it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home

_DEFAULTS = "spark-defaults.conf"
_PROPERTY = re.compile(r"\s*(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(.*?)\s*")


def settings_of_jvm() -> dict[str, str]:
    """Of the JVM that this process has, or that `spark-submit` has started for it."""
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def settings_of_next_jvm() -> dict[str, str]:
    """Of one that PySpark will launch: `spark-defaults.conf`, and the arguments in `PYSPARK_SUBMIT_ARGS`, which win."""
    told, _ = _parser().parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    home = os.environ.get("SPARK_HOME") or _find_spark_home()
    directory = Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf")
    settings = _read_properties(Path(told.properties_file) if told.properties_file else directory / _DEFAULTS)
    settings |= dict(each.split("=", 1) for each in told.conf if "=" in each)
    named = {"spark.master": told.master, "spark.remote": told.remote, "spark.driver.memory": told.driver_memory}
    return settings | {key: value for key, value in named.items() if value}


def _parser() -> argparse.ArgumentParser:
    """Of the arguments of `spark-submit` that say what Sash would set."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--conf", "-c", action="append", default=[])
    for name in ("--master", "--remote", "--driver-memory", "--properties-file"):
        parser.add_argument(name)
    return parser


def _read_properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for line in lines if (found := _PROPERTY.fullmatch(line))}
