"""The declared rows of a table that changes, in memory, with the batches that see each; see `store/seen_rows.py`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import NEVER, SEEN_FROM, SEEN_ID, SEEN_UNTIL, int64_column
from sash.store.seen_rows import SeenColumns, VersionStep, change_rows

_OWN = (SEEN_FROM, SEEN_UNTIL, SEEN_ID)


def without_rows(schema: pa.Schema) -> pa.Table:
    """What no batch has seen anything of yet."""
    return pa.schema([*schema, *((name, pa.int64()) for name in _OWN)]).empty_table()


def seen_from(rows: pa.Table, batch: int, first: int) -> pa.Table:
    """Rows that a batch sees first, with numbers from one on."""
    n_rows = rows.num_rows
    rows = rows.replace_schema_metadata().append_column(SEEN_FROM, pa.array(np.full(n_rows, batch, np.int64)))
    rows = rows.append_column(SEEN_UNTIL, pa.nulls(n_rows, pa.int64()))
    return rows.append_column(SEEN_ID, pa.array(np.arange(first, first + n_rows, dtype=np.int64)))


def meet_version(held: pa.Table, rows: pa.Table, batch: int, gone: pa.Table | None = None) -> pa.Table:
    """What is held, and from a batch on a version: with these rows; or, if it is said which ones have gone, with these
    in their place. Raises UnknownRowsError if those were not there.
    """
    came = seen_from(rows, batch, int(int64_column(held, SEEN_ID).max(initial=-1)) + 1).cast(held.schema)
    went = None if gone is None else seen_from(gone, batch, 0).cast(held.schema)
    changed = change_rows(held, went, came, _seen(held), VersionStep(batch, oldest=-1))
    return held if changed is None else changed


def forget_before(held: pa.Table, batch: int) -> pa.Table:
    """What batches from this one on may see."""
    return held.filter(pa.array(_seen(held).ends_of(held) > batch))


def rows_seen_by(held: pa.Table, batch: int) -> pa.Table:
    """The version that a batch has met."""
    return _seen(held).seen_by(held, batch).drop_columns(list(_OWN))


def count_open(held: pa.Table) -> int:
    """How many rows the newest version has."""
    return int(np.count_nonzero(_seen(held).ends_of(held) == NEVER))


def _seen(held: pa.Table) -> SeenColumns:
    return SeenColumns(SEEN_FROM, SEEN_UNTIL, tuple(name for name in held.column_names if name not in _OWN))
