"""The tables that queries read as of arrival, as they change: polled before every batch, and kept as long as asked for.

A tuple may look up after its batch, where it waits for the clock or is taken back. Then it has to find what it found,
so rows that are gone are kept until the clock has passed all tuples that may have met them.

Who keeps the rows is told of every new version: on Spark the driver, in memory (`HeldRows`), who writes them down for
all workers; in this process whoever looks up in them (`embedded/arrived_relations.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from sash.io.row_ends import with_ends
from sash.io.table_version import Gather, KnownVersion, TableVersion, gather_in_memory
from sash.io.tables import VersionedSource
from sash.plan.arrival import AT_ONCE, asked_for_us
from sash.plan.physical import Plan
from sash.runtime.arrival_rows import count_open, forget_before, meet_version, without_rows
from sash.sql.catalog import Validity
from sash.store.seen_rows import UnknownRowsError, VersionStep


@dataclass(frozen=True, slots=True)
class ArrivalSource:
    """A table as a script declares it."""

    name: str
    source: VersionedSource
    schema: pa.Schema
    """Of its rows as queries see them."""
    validity: Validity | None

    def poll(self, known: KnownVersion | None, gather: Gather = gather_in_memory) -> TableVersion:
        """The version that it has now."""
        if self.validity is None or not self.validity.key:
            return self.source.poll(self.name, known, gather)
        # A row that comes ends another one, so that no difference says what has changed.
        found = self.source.poll(self.name, known and replace(known, shape=""), gather)
        if found.rows is None:
            return found
        assert found.gone is None, "of another shape"
        return replace(found, rows=with_ends(self.name, found.rows, self.validity))


class VersionHolder(Protocol):
    """Who keeps the rows that batches have met."""

    def meet(self, name: str, version: TableVersion, step: VersionStep) -> None:
        """Goes on to another version of a table. Raises UnknownRowsError if it is told as a difference to one that is
        not held; then it is told whole.
        """
        ...


class HeldRows:
    """Keeps declared rows, in memory."""

    def __init__(self, sources: Mapping[str, ArrivalSource]):
        self.rows = {name: without_rows(source.schema) for name, source in sources.items()}

    def meet(self, name: str, version: TableVersion, step: VersionStep) -> None:
        assert version.rows is not None
        held = forget_before(self.rows[name], step.oldest)
        self.rows[name] = meet_version(held, version.rows, step.batch, version.gone)


class ArrivalTables:
    """What the batches of one job have met."""

    def __init__(
        self,
        sources: Mapping[str, ArrivalSource],
        plan: Plan,
        is_in_order: bool,
        holder: VersionHolder | None = None,
        gather: Gather = gather_in_memory,
    ):
        """`is_in_order`: see `asked_for_us`. Without a holder, rows are held here."""
        self._sources = sources
        self._lives = BatchLives(asked_for_us(plan, is_in_order))
        self._held = HeldRows(sources)
        self._holder: VersionHolder = holder or self._held
        self._gather = gather
        self._known: dict[str, KnownVersion] = {}
        self.batch: int | None = None
        """The newest that was entered."""

    @property
    def versions(self) -> dict[str, str]:
        """By table, the version that the newest batch has met."""
        return {name: known.name for name, known in self._known.items()}

    @property
    def rows(self) -> dict[str, pa.Table]:
        """By table, what this batch and those before it may still ask for, if it is held here."""
        return self._held.rows

    def enter(self, batch: int) -> list[str]:
        """Looks at all tables, for a batch that begins; returns which of them have changed since the last one."""
        step = VersionStep(batch, self._lives.oldest(batch))
        changed = [name for name, source in self._sources.items() if self._enter(name, source, step)]
        self.batch = batch
        return changed

    def _enter(self, name: str, source: ArrivalSource, step: VersionStep) -> bool:
        known = self._known.get(name)
        found = source.poll(known, self._gather)
        if found.rows is not None:
            try:
                self._holder.meet(name, found, step)
            except UnknownRowsError:
                known, found = None, source.poll(None, self._gather)
                self._holder.meet(name, found, step)
        self._known[name] = KnownVersion(found.name, found.n_rows(known), found.shape)
        return found.rows is not None

    def leave(self, batch: int, clock_us: int, newest_us: int) -> None:
        """Says how far the clock is after a batch, and the newest time of all tuples so far."""
        self._lives.end(batch, clock_us, newest_us)

    def restore(self, batch: int, versions: Mapping[str, str], rows: Mapping[str, pa.Table]) -> None:
        """Goes on as it was in a batch."""
        self.batch, self._held.rows = batch, dict(rows)
        self._known = {name: KnownVersion(version, count_open(rows[name])) for name, version in versions.items()}


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
