"""Tables that come part by part and may not fit into memory: then they are in a file without a name, and mapped."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
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
        with ExitStack() as opened:
            with self._telling_of_room():
                self._directory.mkdir(parents=True, exist_ok=True)
                file = opened.enter_context(tempfile.TemporaryFile(dir=self._directory, prefix="sash-table-"))
            writer = pa.ipc.new_stream(file, schema)
            for part in parts:  # what goes wrong with these is another matter
                with self._telling_of_room():
                    writer.write_table(part.replace_schema_metadata(schema.metadata))
            with self._telling_of_room():
                writer.close()
                file.flush()
                data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        return pa.ipc.open_stream(pa.py_buffer(data)).read_all()

    @contextmanager
    def _telling_of_room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise no_room(self._directory, error) from None


def _taken(held: list[pa.Table]) -> Iterator[pa.Table]:
    """Each, which is held no more then."""
    held.reverse()
    while held:
        yield held.pop()
