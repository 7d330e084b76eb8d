"""Functions for workers that may lack what they need: they say so, instead of failing while they are unpickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor

from sash.spark.stage_file import StagePlace, pickled, write_stage

MISSING_MODULE = "the Python of an executor"
MOST_BYTES = 1 << 17
"""A stage of so many bytes goes with every task; a larger one is in a file."""


def portable(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same function for `mapInArrow`, with an error that names the module which a worker cannot import.

    The wrapper itself is pickled by value and refers to nothing of Sash's.
    """
    unpack = _unpacker(cloudpickle.dumps(function))

    def run(batches: Any) -> Any:
        yield from unpack()(batches)

    return run


def portable_stage(stage: StatefulProcessor, directory: Path) -> tuple[StatefulProcessor, StagePlace | None]:
    """The same for `transformWithState`: Spark tells of an error here only if it comes while the stage is unpickled. If
    the stage is large, it is in a file of the directory, and the second item says where.
    """
    head, buffers = pickled(stage)
    if len(head) + sum(map(len, buffers)) <= MOST_BYTES:
        return cast(StatefulProcessor, _Portable(_unpacker(cloudpickle.dumps(stage)))), None
    place = write_stage(directory, [head, *buffers])
    return cast(StatefulProcessor, _Portable(_unpacker(b"", (place.path, place.digest, place.lengths)))), place


class _Portable:
    """Becomes what a function returns when it is unpickled."""

    def __init__(self, unpack: Callable[[], Any]):
        self._unpack = unpack

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return self._unpack, ()


def _unpacker(packed: bytes, place: tuple[str, str, tuple[int, ...]] | None = None) -> Callable[[], Any]:
    """Of what was pickled, or what is in a file."""
    blame = MISSING_MODULE

    def unpack() -> Any:
        import sys

        try:
            if place is None:
                from pyspark import cloudpickle

                return cloudpickle.loads(packed)
            from sash.spark.stage_file import load_stage

            return load_stage(*place)
        except ImportError as error:
            raise RuntimeError(
                f"{blame} ({sys.executable}) has no module `{error.name}`; install sash there as it is on the driver, "
                "or let PYSPARK_PYTHON name a Python that has it"
            ) from None

    return unpack
