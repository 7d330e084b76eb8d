"""Rows of one schema, column by column, each column in vectors laid out as Arrow lays out an array.

    row      7    8    9   10        numbered for ever; `base` is the number of the first row that is here
    k       [4    1    4    2]       fixed width: one vector
    name    [0    2    2    5  6]    strings: offsets into one vector of bytes
            [a b c d e f]

Appending copies the new rows to the end; a view of any part is an Arrow array over the same memory. So what a batch
costs follows its own rows and the rows that it asks for, never those that are here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.columns import FixedColumn, make_column
from sash.store.offset_widths import to_type
from sash.store.vector import Arena


class Rows:
    """Rows that are appended at the end, removed from the front, and read by number."""

    def __init__(self, schema: pa.Schema, arena: Arena):
        self.schema = schema
        self.base = 0
        self.n_rows = 0
        self._columns = {field.name: make_column(field.type, arena) for field in schema}

    @property
    def next_row(self) -> int:
        return self.base + self.n_rows

    def append(self, table: pa.Table) -> None:
        """Adds rows; each column of the table is one chunk at most."""
        for name, column in self._columns.items():
            column.append(_one_chunk(table.column(name)), self.n_rows)
        self.n_rows += table.num_rows

    def take(self, rows: np.ndarray, names: list[str] | None = None) -> pa.Table:
        """A copy of the given rows, in the given order, of all or some columns."""
        names = self.schema.names if names is None else names
        return pa.table({name: self._take(name, rows) for name in names})

    def read(self, first: int, n_rows: int) -> pa.Table:
        """Consecutive rows. They may be a view: what is done to these rows later shows in it."""
        start = first - self.base
        return pa.table({name: self._read(name, start, n_rows) for name in self.schema.names})

    def _take(self, name: str, rows: np.ndarray) -> pa.Array:
        column = self._columns[name]
        if isinstance(column, FixedColumn) and column.is_words:
            return column.gather(rows, self.base)
        taken = column.view(0, self.n_rows).take(pa.array(rows - self.base))
        return to_type(taken, self.schema.field(name).type)

    def _read(self, name: str, start: int, n_rows: int) -> pa.Array:
        column = self._columns[name]
        if column.type == self.schema.field(name).type:
            return column.view(start, n_rows)
        return self._take(name, np.arange(self.base + start, self.base + start + n_rows))

    def int64(self, name: str) -> np.ndarray:
        """An integer column without NULLs, from `base` on."""
        column = self._columns[name]
        assert isinstance(column, FixedColumn)
        return column.items.array.view(np.int64)

    def drop_before(self, row: int) -> None:
        """Removes the rows below a number."""
        n_gone = row - self.base
        if n_gone > 0:
            for column in self._columns.values():
                column.drop(n_gone, self.n_rows)
            self.base, self.n_rows = row, self.n_rows - n_gone

    def clear(self, base: int) -> None:
        """Forgets all rows; the next one has the number `base`."""
        for column in self._columns.values():
            column.drop(self.n_rows, self.n_rows)
        self.base, self.n_rows = base, 0


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
