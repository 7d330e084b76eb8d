"""What commands of `sash bench` do around what they measure: read sizes, have files and Spark, tell the result."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sash.errors import PlanError, SourceError, require_extra
from sash.store.byte_sizes import parse_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sash.lab.bench.stages import Stages


def parse_factors(text: str) -> tuple[int, ...]:
    """Whole numbers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise PlanError(f"the factors are `{text}`, but must be whole numbers with commas between them") from None


def parse_ratios(text: str) -> tuple[float, ...]:
    """Numbers."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise PlanError(f"the ratios are `{text}`, but must be numbers with commas between them") from None


def parse_memory(text: str) -> int:
    """A size in bytes."""
    n_bytes = parse_bytes(text)
    if n_bytes is None:
        raise PlanError(f"the memory is `{text}`, which is not a size; write it like `256 MiB` or `64k`")
    return n_bytes


def require_extras(is_on_spark: bool) -> None:
    """At once: what is measured first may take minutes, and all is drawn in the end."""
    if is_on_spark:
        require_extra("spark", "`sash bench` on Spark", "use --engine embedded")
    require_extra("plots", "drawing the result of `sash bench`")


@contextmanager
def open_files(out: Path, is_kept: bool) -> Iterator[Path]:
    """A directory for streams, answers and checkpoints, below `out`, so that they are on the disk the user chose."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"`{out}` cannot be made: {error.strerror}; name another directory with --out") from None
    if not is_kept:
        with tempfile.TemporaryDirectory(prefix=".files-", dir=out.absolute(), ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    files = out.absolute() / "files"
    if files.exists():
        raise SourceError(f"`{files}` holds the files of an earlier benchmark; remove it, or name another --out")
    files.mkdir()
    yield files


@contextmanager
def open_spark(master: str | None, stages: Stages) -> Iterator[SparkSession | None]:
    """A session on this master, stopped in the end; none if no engine needs it."""
    if master is None:
        yield None
        return
    from sash.spark.spark_session import spark_session

    with stages.stage("starting Spark", None):
        spark = spark_session(master)
    try:
        yield spark
    finally:
        spark.stop()


def write_result(path: Path, facts: Mapping[str, Any], draw: Callable[[Path], None]) -> None:
    """As JSON, and as a picture beside it."""
    path.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    draw(path.with_suffix(".png"))


def tell_result(facts: Mapping[str, Any], as_json: bool, path: Path, show: Callable[[Console], None]) -> None:
    """On the terminal."""
    if as_json:
        print(json.dumps(facts))
        return
    console = Console()
    show(console)
    console.print(f"written to {path}.json and {path}.png", highlight=False)
