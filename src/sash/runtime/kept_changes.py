"""Changes of which only those are kept that answers still need.

    kept     a [1, 9)  b [2, 5)  c [6, …)                   forgotten up to 5
                  a [1, 9)       c [6, …)                   amounts to the same at 5 and later

Bounded by the rows of the answer, and the changes since what was forgotten last.
"""

from __future__ import annotations

import pyarrow as pa

from sash.operators.living_rows import forget_dead
from sash.store.batch import BEGINNING
from sash.store.changes_reading import ChangesReading

WORTH_ROWS = 1 << 12
"""So many rows at least are looked at together, and at least as many as are kept: each costs a look or two."""


class KeptChanges:
    """The changes of a query, as they come."""

    def __init__(self, schema: pa.Schema, reading: ChangesReading):
        self.reading = reading
        self.since_us = BEGINNING
        """From this time on, they amount to what all changes would."""
        self._held = schema.empty_table()
        self._new: list[pa.Table] = []

    @property
    def n_rows(self) -> int:
        """Rows held now."""
        return self._held.num_rows + self._n_new

    @property
    def changes(self) -> pa.Table:
        """What is kept."""
        self._held, self._new = pa.concat_tables([self._held, *self._new]).combine_chunks(), []
        return self._held

    def take(self, changes: pa.Table) -> None:
        """Keeps changes that come after those before."""
        if changes.num_rows:
            self._new.append(changes)

    def forget(self, until_us: int) -> None:
        """No answer before this time will be asked for any more."""
        if self._n_new > max(WORTH_ROWS, self._held.num_rows):
            self._held = forget_dead(self.changes, until_us, self.reading.replaced_by)
            self.since_us = until_us

    @property
    def _n_new(self) -> int:
        return sum(table.num_rows for table in self._new)
