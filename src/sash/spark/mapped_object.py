"""What is too large to travel with every task: tables that queries look up in, and the stages of hundreds of queries.

    <directory>/<digest>.object    pickled, and behind it the columns of its tables, which workers map

Spark hands what is larger than a megabyte to tasks as a broadcast, and its worker on the driver, which looks at a stage
first, knows of none. So it is in a file, which workers map: what goes with tasks is a path and a digest.
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

MOST_BYTES = 1 << 17
"""What has so many goes with every task."""
SUFFIX = ".object"
ALIGNMENT = 64
"""Arrow wants columns to begin at multiples of so many bytes."""
OBJECTS_KEPT = 8
_kept: OrderedDict[str, Any] = OrderedDict()
"""What this worker has loaded, by digest; the one used last comes last."""


@dataclass(frozen=True, slots=True)
class MappedObject:
    """Where an object is, as tasks are told it."""

    path: str
    digest: str
    lengths: tuple[int, ...]
    """Of what was pickled, and of the buffers behind it."""

    def load(self) -> Any:
        """The object, made anew: what can be mapped of it is mapped. Raises SourceError if it is not what was written.

        A file that has been removed meanwhile stays as long as something of it is mapped.
        """
        try:
            with open(self.path, "rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        except (OSError, ValueError) as error:
            raise SourceError(
                f"what a query runs cannot be read from `{self.path}`: {error}; checkpoints, and the driver's "
                "temporary directory, have to be where all machines see them"
            ) from None
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise SourceError(f"what a query runs is not as it was written in `{self.path}`; start the query again")
        parts: list[memoryview] = []
        first = 0
        for length in self.lengths:
            parts.append(data[first : first + length])
            first += -(-length // ALIGNMENT) * ALIGNMENT
        head, *buffers = parts
        return pickle.loads(head, buffers=buffers)

    def shared(self) -> Any:
        """The object as this worker has it, where the last ones that were asked for are kept."""
        if self.digest not in _kept:
            _kept[self.digest] = self.load()
        _kept.move_to_end(self.digest)
        while len(_kept) > OBJECTS_KEPT:
            _kept.popitem(last=False)
        return _kept[self.digest]


def map_if_large(thing: Any, directory: Path) -> MappedObject | None:
    """Writes an object to a file of the directory; None if it is small. It is no state: who starts again writes it."""
    buffers: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(each.raw() for each in buffers)]
    return None if sum(map(len, parts)) <= MOST_BYTES else _write(directory, parts)


def remove_other_objects(directory: Path, kept: Iterable[MappedObject]) -> None:
    """Removes what was written for earlier runs."""
    names = {Path(each.path).name for each in kept}
    with telling_of(str(directory)):
        for path in directory.glob(f"*{SUFFIX}"):
            if path.name not in names:
                path.unlink(missing_ok=True)


def _write(directory: Path, parts: Iterable[memoryview]) -> MappedObject:
    digest, lengths = hashlib.sha256(), list[int]()
    new = directory / f".{os.urandom(8).hex()}{SUFFIX}"
    with telling_of(str(directory)):
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with new.open("wb") as file:
                for part in parts:
                    lengths.append(len(part))
                    for piece in (part, bytes(-len(part) % ALIGNMENT)):
                        digest.update(piece)
                        file.write(piece)
            path = directory / f"{digest.hexdigest()[:32]}{SUFFIX}"
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    return MappedObject(str(path), digest.hexdigest(), tuple(lengths))
