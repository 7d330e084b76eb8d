"""Stages that are too large to travel with every task, as they are with a table or hundreds of queries.

    <directory>/<digest>.stage    the pickled stage, and behind it the columns of its tables, which workers map

Spark hands what is larger than a megabyte to tasks as a broadcast, and its worker on the driver, which looks at a stage
first, knows of none. So the file is what all workers read, once each: what goes with tasks is its path and its digest.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import pickle
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from sash.errors import SourceError
from sash.io.disk import telling_of

SUFFIX = ".stage"
ALIGNMENT = 64
"""Arrow wants columns to begin at multiples of so many bytes."""
STAGES_IN_MEMORY = 8
_loaded: OrderedDict[str, Any] = OrderedDict()
"""What this worker has read, by digest; the one used last comes last."""


@dataclass(frozen=True, slots=True)
class StagePlace:
    """Where a stage is, as tasks are told it."""

    path: str
    digest: str
    lengths: tuple[int, ...]
    """Of what was pickled, and of the buffers behind it."""


def pickled(stage: Any) -> tuple[bytes, list[memoryview]]:
    """A stage, and the buffers that it refers to."""
    buffers: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(stage, protocol=5, buffer_callback=buffers.append)
    return head, [each.raw() for each in buffers]


def write_stage(directory: Path, parts: Iterable[bytes | memoryview]) -> StagePlace:
    """Writes what `pickled` gave. It is no state: a query that starts again writes it again."""
    digest, lengths = hashlib.sha256(), list[int]()
    new = directory / f".{os.getpid()}{SUFFIX}"
    with telling_of(str(directory)):
        directory.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            for part in parts:
                lengths.append(len(part))
                for piece in (part, bytes(-len(part) % ALIGNMENT)):
                    digest.update(piece)
                    file.write(piece)
        path = directory / f"{digest.hexdigest()[:32]}{SUFFIX}"
        new.replace(path)
    return StagePlace(str(path), digest.hexdigest(), tuple(lengths))


def load_stage(path: str, digest: str, lengths: Iterable[int]) -> Any:
    """The stage, which this worker may have already. Raises SourceError if it is not what was written."""
    if digest not in _loaded:
        _loaded[digest] = _read(path, digest, lengths)
    _loaded.move_to_end(digest)
    while len(_loaded) > STAGES_IN_MEMORY:
        _loaded.popitem(last=False)
    return _loaded[digest]


def remove_other_stages(directory: Path, kept: Iterable[StagePlace]) -> None:
    """Removes what was written for earlier runs."""
    names = {Path(each.path).name for each in kept}
    for path in directory.glob(f"*{SUFFIX}"):
        if path.name not in names:
            path.unlink(missing_ok=True)


def _read(path: str, digest: str, lengths: Iterable[int]) -> Any:
    try:
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    except (OSError, ValueError) as error:
        raise SourceError(
            f"what a query runs cannot be read from `{path}`: {error}; checkpoints, and the driver's temporary "
            "directory, have to be where all machines see them"
        ) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise SourceError(f"what a query runs is not as it was written in `{path}`; start the query again")
    parts: list[memoryview] = []
    first = 0
    for length in lengths:
        parts.append(data[first : first + length])
        first += -(-length // ALIGNMENT) * ALIGNMENT
    head, *buffers = parts
    return pickle.loads(head, buffers=buffers)
