"""Functions for workers that may lack what they need: they say so, instead of failing while they are unpickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor

from sash.spark.mapped_object import MappedObject

MISSING_MODULE = "the Python of an executor"


def portable(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same function for `mapInArrow`, with an error that names the module which a worker cannot import.

    The wrapper itself is pickled by value and refers to nothing of Sash's.
    """
    unpack = _unpacker(function)

    def run(batches: Any) -> Any:
        yield from unpack()(batches)

    return run


def portable_stage(stage: StatefulProcessor | MappedObject) -> StatefulProcessor:
    """The same for `transformWithState`, also of a stage that is in a file. Spark tells of an error here only if it
    comes while the stage is unpickled.
    """
    return cast(StatefulProcessor, _Portable(stage))


class _Portable:
    """Becomes what it holds when it is unpickled."""

    def __init__(self, thing: Any):
        self._thing = thing

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _unpacker(self._thing), ()


def _unpacker(thing: Any) -> Callable[[], Any]:
    packed, is_mapped, blame = cloudpickle.dumps(thing), isinstance(thing, MappedObject), MISSING_MODULE

    def unpack() -> Any:
        import sys

        from pyspark import cloudpickle

        try:
            unpacked = cloudpickle.loads(packed)
            return unpacked.shared() if is_mapped else unpacked
        except ImportError as error:
            raise RuntimeError(
                f"{blame} ({sys.executable}) has no module `{error.name}`; install sash there as it is on the driver, "
                "or let PYSPARK_PYTHON name a Python that has it"
            ) from None

    return unpack
