"""Tables that come part by part and may not fit into memory: then they are in a file without a name, and mapped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from sash.store.relation_file import no_room


class MappedGather:
    """Makes one table of parts: in memory if they take no more than so many bytes, else in the directory."""

    def __init__(self, directory: Path, most_bytes: int):
        self._directory = directory
        self._most_bytes = most_bytes

    def __call__(self, schema: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
        held, n_bytes = [schema.empty_table()], 0
        coming = iter(parts)
        for part in coming:
            held.append(part)
            n_bytes += part.nbytes
            if n_bytes > self._most_bytes:
                return self._mapped(schema, chain(_taken(held), coming))
        return pa.concat_tables(held)

    def _mapped(self, schema: pa.Schema, parts: Iterator[pa.Table]) -> pa.Table:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            number, path = tempfile.mkstemp(dir=self._directory, prefix="sash-table-")
        except OSError as error:
            raise no_room(self._directory, error) from None
        try:
            with os.fdopen(number, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
                for part in parts:
                    writer.write_table(part.replace_schema_metadata(schema.metadata))
            return pa.ipc.open_stream(pa.memory_map(path)).read_all()
        except OSError as error:
            raise no_room(self._directory, error) from None
        finally:
            os.unlink(path)


def _taken(held: list[pa.Table]) -> Iterator[pa.Table]:
    """Each, which is held no more then."""
    held.reverse()
    while held:
        yield held.pop()
