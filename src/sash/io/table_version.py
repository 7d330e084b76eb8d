"""A version of a table that changes, as it is polled: whole, or as the difference to one that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

VERSION = b"sash.version"
"""In the metadata of a table's schema: which of its versions it is, for people."""

Gather: TypeAlias = Callable[[pa.Schema, Iterable[pa.Table]], pa.Table]
"""Makes one table of parts, which have this schema."""


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """One that was polled before."""

    name: str
    n_rows: int
    shape: str = ""
    """As it was polled; empty if that is not known any more."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table calls its version, and its rows; None if they are those of the version that was known."""

    name: str
    rows: pa.Table | None
    gone: pa.Table | None = None
    """If not None, the rows that the known version had and this one has not; `rows` are those that came instead."""
    shape: str = ""
    """Of what the table's columns were made: where it is another one, rows may differ that nobody has written."""

    def n_rows(self, known: KnownVersion | None) -> int:
        """How many it has in all."""
        n_known = 0 if known is None else known.n_rows
        if self.rows is None:
            return n_known
        return self.rows.num_rows if self.gone is None else n_known + self.rows.num_rows - self.gone.num_rows


def gather_in_memory(schema: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
    """Where nothing limits memory."""
    return pa.concat_tables([schema.empty_table(), *parts])
