"""Looking up in a relation that is in a file: the methods of Exact, ch. 6, with a step in the place of the wait buffer.

    partitioned_hash, partitioned_range   who waits for a segment that is not in memory shares its read, those with most
                                          tuples first; what is kept follows from the arrivals, by (6.1) and (6.2)
    mesh                                  all segments go past the step, one after the other, from where the last one
                                          ended
    inl                                   every key is searched in the file, which is mapped, in order of keys

Law: what is found is what is in the relation, as if all of it were in memory. Nothing waits from step to step, so what
is above may rely on the clock. No segment is read twice in a step. If the relation changes (`changing_relation`), it
does so between steps.

State: none. What is in memory of a relation is a copy of what is in the file, and the arrival frequencies are a guess.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import INL, MESH, relation_room, segment_bytes
from sash.operators.relation_cut import CutRules, cut_relation
from sash.operators.relation_parts import RelationParts, Survey
from sash.operators.segment_cache import SegmentCache
from sash.store.batch import int64_column
from sash.store.keys import is_exact
from sash.store.memory_budget import MemoryBudget
from sash.store.relation_file import KEY_COLUMN, ROW_COLUMN, RelationFile

ALPHA, EPOCH = 0.3, 10_000
"""Of Table 6.2; τ is a choice."""

Found = tuple[np.ndarray, pa.Table]
"""Places among the keys that were looked up, and for each the row of the relation, with its number."""


class SegmentedRelation(Protocol):
    """A relation that is in a file, as a join is given it in the place of its rows."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as the query calls them. In the file they may have other names, in the same order."""
        ...

    def open(self) -> SegmentedLookup:
        """What looks up in it; the same one each time, in one process."""
        ...


class SegmentMap(Protocol):
    """Which segments there are."""

    @property
    def method(self) -> str: ...

    def groups_of(self, keys: np.ndarray) -> np.ndarray:
        """The group of each key."""
        ...

    def segments_in(self, group: int) -> range:
        """The segments of a group."""
        ...

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        """The segment of each key; -1 if no row has it."""
        ...


class SegmentedLookup:
    """A relation by key, in a file. Who looks up the same rows by the same key may share it."""

    def __init__(self, layout: SegmentMap, file: RelationFile, cache: SegmentCache):
        self.layout = layout
        self.file = file
        self.frequencies = np.zeros(len(file))
        self._cache = cache
        self._owner = cache.register(self)
        self._next_read = 0
        """Which segment comes first when all are read."""
        self._in_epoch = 0

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each segment."""
        return self.file.sizes

    @property
    def cached(self) -> list[int]:
        """The segments that are in memory between steps."""
        return self._cache.segments_of(self._owner)

    def find_kept(self, segment: int) -> pa.Table | None:
        """A segment, if it is in memory."""
        return self._cache.find(self._owner, segment)

    def renew(self, segment: int, rows: pa.Table) -> None:
        """Says that a segment was written, anew or for the first time: what is in memory of it was another one."""
        if len(self.frequencies) < len(self.file):
            self.frequencies = np.append(self.frequencies, np.zeros(len(self.file) - len(self.frequencies)))
        self._cache.renew(self._owner, segment, rows)

    def release(self, segment: int) -> None:
        """A segment is in memory no more."""
        self.file.release(segment)

    def find(self, keys: np.ndarray) -> Iterator[Found]:
        """All rows with equal keys, a segment at a time."""
        if not len(keys) or not len(self.file):
            return
        if self.layout.method == MESH:
            groups = self.layout.groups_of(keys)
            for group in np.unique(groups).tolist():
                yield from self._find_in_all(group, keys, np.flatnonzero(groups == group))
        else:
            yield from self._find_in_segments(keys)

    def _find_in_all(self, group: int, keys: np.ndarray, places: np.ndarray) -> Iterator[Found]:
        """In all segments of a group, from where the last step ended."""
        numbers = np.array(self.layout.segments_in(group), np.int64)
        for number in np.roll(numbers, -(self._next_read % max(1, len(numbers)))).tolist():
            yield _search(self.file.read(number), keys[places], places)
        self._next_read += 1

    def _find_in_segments(self, keys: np.ndarray) -> Iterator[Found]:
        segments = self.layout.segments_of(keys)
        n_waiting = np.bincount(segments[segments >= 0], minlength=len(self.file))
        self._count(n_waiting, len(keys))
        order = np.argsort(segments, kind="stable")
        bounds = np.searchsorted(segments[order], np.arange(len(self.file) + 1))
        wanted = np.flatnonzero(n_waiting)
        is_away = ~np.isin(wanted, self.cached)
        for segment in wanted[np.lexsort((wanted, -n_waiting[wanted], is_away))].tolist():
            places = order[bounds[segment] : bounds[segment + 1]]
            if self.layout.method == INL:
                yield _search(self.file.map(segment), keys[places], places)
                continue
            kept = self.find_kept(segment)
            table = self.file.read(segment) if kept is None else kept
            yield _search(table, keys[places], places)
            if kept is None and not self._cache.admit(self._owner, segment, table):
                self.release(segment)

    def _count(self, n_arrived: np.ndarray, n_keys: int) -> None:
        """F6.2, with epochs that end with a step: as many decays as there were epochs."""
        self.frequencies += n_arrived
        n_epochs, self._in_epoch = divmod(self._in_epoch + n_keys, EPOCH)
        self.frequencies *= ALPHA**n_epochs


def segment_relation(
    method: str, parts: RelationParts, columns: tuple[str, ...], known: Survey, budget: MemoryBudget | None
) -> SegmentedLookup:
    """Writes a relation to a file of this process. Without a budget everything that is read stays in memory, and the
    file is where the system has temporary ones.
    """
    is_own = is_exact([parts.schema.field(name).type for name in columns])
    room = None if budget is None else relation_room(budget.state_bytes)
    file = RelationFile.unnamed(Path(tempfile.gettempdir()) if budget is None else budget.spill)
    layout = cut_relation(parts, columns, known, CutRules(method, segment_bytes(room), is_own), file)
    return SegmentedLookup(layout, file, SegmentCache.of(budget))


def _search(table: pa.Table, keys: np.ndarray, places: np.ndarray) -> Found:
    """Rows of a segment, in order of keys, that have one of these keys."""
    own = int64_column(table, KEY_COLUMN)
    firsts, lasts = np.searchsorted(own, keys, "left"), np.searchsorted(own, keys, "right")
    n_each = lasts - firsts
    starts = np.cumsum(n_each) - n_each
    found = np.repeat(places, n_each)
    rows = np.arange(len(found)) - np.repeat(starts - firsts, n_each)
    return found, table.take(pa.array(rows)).drop_columns([KEY_COLUMN])


def in_order(found: Iterable[Found], n_at_once: int | None) -> Iterator[Found]:
    """All that was found in order of the places, and of the rows of the relation: as if it had been one index. Or about
    so many rows at a time, in order by themselves.
    """
    held: list[Found] = []
    n_held = 0
    for each in found:
        held.append(each)
        n_held += len(each[0])
        if n_at_once is not None and n_held >= n_at_once:
            yield _as_one(held)
            held, n_held = [], 0
    if held:
        yield _as_one(held)


def _as_one(found: list[Found]) -> Found:
    places = np.concatenate([each[0] for each in found])
    table = pa.concat_tables([each[1] for each in found])
    order = np.lexsort((int64_column(table, ROW_COLUMN), places))
    return places[order], table.take(pa.array(order)).drop_columns([ROW_COLUMN])
