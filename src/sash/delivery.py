"""Where the changes of a session's queries go as they come: into directories of theirs, or to functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sash.errors import SourceError
from sash.sources.sink import FileSink

Into = str | os.PathLike | Callable[[Any], None] | None
"""As a user says it."""
Sink = FileSink | Callable[[Any], None] | None


def open_sink(into: Into, format: str) -> Sink:
    """Where a query writes; nothing is written yet."""
    return FileSink(_absolute(into), format) if isinstance(into, str | os.PathLike) else into


def place_of(sink: Sink) -> Any:
    """What two queries must not have in common; a directory is one whatever the format."""
    return sink.path if isinstance(sink, FileSink) else sink


class Delivery:
    """Passes changes on in this process, and counts the batches in each directory."""

    def __init__(self) -> None:
        self._n_batches: dict[str, int] = {}
        """By directory."""

    def claim(self, sink: Sink) -> None:
        """For a query that begins; raises SourceError if its directory holds something already."""
        if not isinstance(sink, FileSink):
            return
        if os.path.exists(sink.path):
            raise SourceError(
                f"{sink.path} holds the output of an earlier run; remove it, or write into another directory"
            )
        self._n_batches[sink.path] = 0

    def has(self, sink: Sink) -> bool:
        """Whether a directory was claimed; what is not one needs not be."""
        return not isinstance(sink, FileSink) or sink.path in self._n_batches

    def n_batches(self, sink: FileSink) -> int:
        """How many batches were written."""
        return self._n_batches[sink.path]

    def rewind(self, sink: FileSink, n_batches: int) -> None:
        """Goes on in a directory with its first batches; what was written after them is removed."""
        sink.remove_from(n_batches)
        self._n_batches[sink.path] = n_batches

    def pass_on(self, sink: Sink, changes: pa.Table) -> None:
        """Delivers changes of one query."""
        if not changes.num_rows:
            return
        if isinstance(sink, FileSink):
            number = self._n_batches[sink.path]
            sink.publish(number, [sink.write_part(number, "part-0", changes)])
            self._n_batches[sink.path] = number + 1
        elif sink is not None:
            sink(changes)


def _absolute(path: str | os.PathLike) -> str:
    return str(path) if "://" in str(path) else os.path.abspath(path)
