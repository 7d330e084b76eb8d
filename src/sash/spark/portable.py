"""Functions for workers that may lack what they need: they say so, instead of failing while they are unpickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

MISSING_MODULE = "the Python of an executor"


def portable(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same function for `mapInArrow`, with an error that names the module which a worker cannot import.

    The wrapper itself is pickled by value and refers to nothing of Sash's.
    """
    packed, blame = cloudpickle.dumps(function), MISSING_MODULE

    def run(batches: Any) -> Any:
        import sys

        from pyspark import cloudpickle

        try:
            function = cloudpickle.loads(packed)
        except ImportError as error:
            raise RuntimeError(
                f"{blame} ({sys.executable}) has no module `{error.name}`; install sash there as it is on the driver, "
                "or let PYSPARK_PYTHON name a Python that has it"
            ) from None
        yield from function(batches)

    return run
