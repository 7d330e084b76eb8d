"""`sash bench join`, and `multiway` and `outer` on Spark: the same files, up to three engines, one answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sash import __version__
from sash.errors import PlanError, suggest
from sash.lab.bench.agreement import Checksum, check_agreement
from sash.lab.bench.join_texts import output_columns, told_by_all
from sash.lab.bench.measure import Measured
from sash.lab.bench.other_engines import run_builtin, run_duckdb
from sash.lab.bench.sash_engine import run_sash
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, write_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = {"sash": "Sash", "builtin": "Spark's join", "duckdb": "DuckDB"}
ON_SPARK = {"sash", "builtin"}
COMPARED = (
    "tuples_per_second",
    "steady_tuples_per_second",
    "steady_tuples_per_cpu_second",
    "state_rows",
    "state_bytes",
    "store_bytes",
    "checkpoint_bytes_per_batch",
)
_OUTPUT_FILES = {"sash": "batch=*/*.parquet", "builtin": "*.parquet", "duckdb": "*.parquet"}


@dataclass(frozen=True, slots=True)
class JoinResult:
    """What came out: measures by engine, and the checksum that all of them share."""

    workload: JoinWorkload
    measured: Mapping[str, Measured]
    answer: Checksum

    @property
    def is_full(self) -> bool:
        """Whether the windows were full before steady state began."""
        return is_window_full(self.workload)

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        engines = {engine: measured.facts() for engine, measured in self.measured.items()}
        return {
            "benchmark": "outer" if self.workload.is_outer else "join",
            "workload": describe_workload(self.workload),
            "environment": describe_environment(),
            "answer": {"rows": self.answer.n_rows, "checksum": f"{self.answer.sum:x}-{self.answer.xor:x}"},
            "window_is_full": self.is_full,
            "engines": engines,
            "ratios": {f"sash/{other}": _ratios(engines, other) for other in ("builtin", "duckdb")},
        }


def bench_join(
    workload: JoinWorkload, directory: Path, engines: Sequence[str], spark: SparkSession | None, stages: Stages
) -> JoinResult:
    """Writes the workload below `directory`, runs the engines one after the other, and compares their answers.

    `spark` may be None if no engine needs it. Raises `MismatchError` if the answers differ.
    """
    files = directory / "streams"
    with stages.stage("writing the streams", workload.total_rows) as note:
        write_workload(workload, files, note)
    measured = {}
    for engine in engines:
        with stages.stage(ENGINES[engine], None if engine == "duckdb" else workload.total_rows) as note:
            if engine == "duckdb":
                measured[engine] = run_duckdb(workload, files, directory / engine)
                continue
            assert spark is not None, "this engine needs Spark"
            run = run_sash if engine == "sash" else run_builtin
            measured[engine] = run(workload, files, directory / engine, spark, note)
    with stages.stage("comparing the answers", None):
        return JoinResult(workload, measured, check_outputs(workload, directory, engines))


def check_outputs(workload: JoinWorkload, directory: Path, engines: Sequence[str]) -> Checksum:
    """The checksum of the answers that the engines left below `directory`, which must be the same."""
    outputs = {engine: sorted((directory / engine).glob(_OUTPUT_FILES[engine])) for engine in engines}
    return check_agreement(outputs, output_columns(workload), told_by_all(workload, directory / "streams"))


def parse_engines(text: str, known: Mapping[str, str] = ENGINES) -> list[str]:
    """The engines named in a list with commas, in the order in which they run."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    for name in named:
        if name not in known:
            raise PlanError(f"there is no engine `{name}`; {suggest(name, known)}")
    if not named:
        raise PlanError(f"no engine is named; {suggest('', known)}")
    return [engine for engine in known if engine in named]


def is_window_full(workload: JoinWorkload) -> bool:
    """Whether the first half of the batches fills the windows."""
    sizes = workload.batches
    return sum(sizes[: len(sizes) // 2]) / workload.n_streams >= workload.rate * workload.window_us / 1e6


def describe_workload(workload: JoinWorkload) -> dict[str, Any]:
    """What was generated, for JSON."""
    columns = {field.name: str(field.type) for field in workload.schema}
    return asdict(workload) | {"n_keys": workload.keys, "columns": columns, "n_batches": len(workload.batches)}


def describe_environment() -> dict[str, Any]:
    """What the figures depend on, besides the workload."""
    packages = ("pyspark", "duckdb", "numba", "pyarrow")
    return {"cores": os.cpu_count(), "sash": __version__} | {package: _version(package) for package in packages}


def _version(package: str) -> str | None:
    """None if it is not installed, as it need not be for a benchmark in this process."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ratios(engines: Mapping[str, Mapping[str, Any]], other: str) -> dict[str, float] | None:
    """Sash's figures as multiples of another engine's, where both are known."""
    if "sash" not in engines or other not in engines:
        return None
    pairs = {figure: (engines["sash"][figure], engines[other][figure]) for figure in COMPARED}
    return {figure: own / others for figure, (own, others) in pairs.items() if own is not None and others}
