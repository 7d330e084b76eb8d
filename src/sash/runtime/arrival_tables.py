"""The tables that queries read as of arrival, as they change: polled before every batch, and kept as long as asked for.

A tuple may look up after its batch, where it waits for the clock or is taken back. Then it has to find what it found,
so rows that are gone are kept until the clock has passed all tuples that may have met them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from sash.io.row_ends import with_ends
from sash.io.table_version import TableVersion
from sash.io.tables import VersionedSource
from sash.plan.arrival import AT_ONCE, asked_for_us
from sash.plan.physical import Plan
from sash.runtime.arrival_rows import forget_before, meet_version, without_rows
from sash.sql.catalog import Validity


@dataclass(frozen=True, slots=True)
class ArrivalSource:
    """A table as a script declares it."""

    name: str
    source: VersionedSource
    schema: pa.Schema
    """Of its rows as queries see them."""
    validity: Validity | None

    def poll(self, known: str | None) -> TableVersion:
        """The version that it has now."""
        found = self.source.poll(self.name, known)
        if found.rows is None:
            return found
        return replace(found, rows=with_ends(self.name, found.rows, self.validity))


class ArrivalTables:
    """What the batches of one job have met."""

    def __init__(self, sources: Mapping[str, ArrivalSource], plan: Plan, is_in_order: bool):
        """`is_in_order`: see `asked_for_us`."""
        self._sources = sources
        self._lives = BatchLives(asked_for_us(plan, is_in_order))
        self.batch: int | None = None
        """The newest that was entered."""
        self.versions: dict[str, str] = {}
        """By table, the version that this one has met."""
        self.rows = {name: without_rows(source.schema) for name, source in sources.items()}
        """By table, what this batch and those before it may still ask for."""

    def enter(self, batch: int) -> list[str]:
        """Looks at all tables, for a batch that begins; returns which of them have changed since the last one."""
        changed: list[str] = []
        for name, source in self._sources.items():
            found = source.poll(self.versions.get(name))
            self.versions[name] = found.name
            if found.rows is not None:
                held = forget_before(self.rows[name], self._lives.oldest(batch))
                self.rows[name] = meet_version(held, found.rows, batch)
                changed.append(name)
        self.batch = batch
        return changed

    def leave(self, batch: int, clock_us: int, newest_us: int) -> None:
        """Says how far the clock is after a batch, and the newest time of all tuples so far."""
        self._lives.end(batch, clock_us, newest_us)

    def restore(self, batch: int, versions: Mapping[str, str], rows: Mapping[str, pa.Table]) -> None:
        """Goes on as it was in a batch."""
        self.batch, self.versions, self.rows = batch, dict(versions), dict(rows)


class BatchLives:
    """Up to which batch all tuples are gone, if one may look up for so long after its time (None: for ever)."""

    def __init__(self, asked_for_us: int | None):
        self._asked_for_us = asked_for_us
        self._ended: deque[tuple[int, int]] = deque()
        """Batches, each with the newest time of all tuples up to it."""
        self._oldest = -1

    def end(self, batch: int, clock_us: int, newest_us: int) -> None:
        """Takes note of a batch that is over."""
        if self._asked_for_us is None:
            return
        self._ended.append((batch, newest_us))
        while self._ended and clock_us > self._ended[0][1] + self._asked_for_us:
            self._oldest = self._ended.popleft()[0] + 1

    def oldest(self, batch: int) -> int:
        """The first batch whose tuples may still look up, when one begins."""
        return batch if self._asked_for_us == AT_ONCE else self._oldest
