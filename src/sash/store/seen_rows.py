"""The rows of a relation that changes, with the batches that see each, and how a new version changes them.

    batch             0     1     2     3
    tea   3.5         |===========|               from 0, until 2
    tea   3.8                     |=========      from 2, until NULL
    milk  1.2         |=====================      from 0, until NULL

    Law: the rows that batch b sees are those of the version that it met, equally often.

What is the same in two versions stays as it is, with its identity. Of equal rows it does not matter which one goes: no
batch so far sees it otherwise, and all to come see as many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import SashError
from sash.store.batch import NEVER, int64_column
from sash.store.row_match import match_rows


class UnknownRowsError(SashError):
    """Rows are said to have gone that were not there: what is held is not the version that a difference begins with."""


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """What the columns of such a relation are called."""

    start: str
    """The first batch that sees a row."""
    end: str
    """The first one that sees it no more; NULL: all others do."""
    content: tuple[str, ...]
    """What is compared; others are of Sash's own, such as identities."""

    def ends_of(self, rows: pa.Table) -> np.ndarray:
        """By row, the first batch that does not see it."""
        return rows.column(self.end).fill_null(NEVER).to_numpy()

    def seen_by(self, rows: pa.Table, batch: int) -> pa.Table:
        """The version that a batch has met."""
        is_seen = (int64_column(rows, self.start) <= batch) & (batch < self.ends_of(rows))
        return rows.filter(pa.array(is_seen))

    def ended(self, rows: pa.Table, batch: int) -> pa.Table:
        """Rows that a batch, and those after it, see no more."""
        place = rows.schema.get_field_index(self.end)
        return rows.set_column(place, rows.schema.field(place), pa.array(np.full(rows.num_rows, batch, np.int64)))


@dataclass(frozen=True, slots=True)
class VersionStep:
    """From one version to the next."""

    batch: int
    """The first that meets the new one."""
    oldest: int
    """The first whose tuples may still look up: what none from it on sees is forgotten."""


def change_rows(
    held: pa.Table, gone: pa.Table | None, came: pa.Table, seen: SeenColumns, step: VersionStep
) -> pa.Table | None:
    """What is held from a step on; None if nothing changes. `came` are rows that the batch sees first, and `gone` those
    that went; without these, `came` is the whole version.

    Raises UnknownRowsError if what went was not there.
    """
    ends = seen.ends_of(held)
    is_open = ends == NEVER
    current = held.filter(pa.array(is_open))
    goes, added = _difference(current, gone, came, seen)
    if not goes.any() and not added.num_rows:
        return None
    past = held.filter(pa.array(~is_open & (ends > step.oldest)))
    stays = current.filter(pa.array(~goes))
    ended = seen.ended(current.filter(pa.array(goes)), step.batch) if step.batch > step.oldest else current.slice(0, 0)
    return pa.concat_tables([past, stays, ended, added.cast(held.schema)]).combine_chunks()


def _difference(
    current: pa.Table, gone: pa.Table | None, came: pa.Table, seen: SeenColumns
) -> tuple[np.ndarray, pa.Table]:
    """Which of the rows that are there go, and which ones come."""
    names = list(seen.content)
    if gone is None:
        stays, is_known = match_rows(current.select(names), came.select(names))
        return ~stays, came.filter(pa.array(~is_known))
    returns, is_back = match_rows(gone.select(names), came.select(names))
    goes, is_found = match_rows(current.select(names), gone.filter(pa.array(~returns)).select(names))
    if not is_found.all():
        raise UnknownRowsError("rows have gone from a relation that were not in it")
    return goes, came.filter(pa.array(~is_back))
