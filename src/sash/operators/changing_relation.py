"""A relation that changes, in a file: a new version changes the segments that have other rows, and no others.

    version 1     | 0: a c | 1: f g k | 2: m |          rows have the batches that see them, see `store/seen_rows.py`
    − c  + l                                            a difference, by segment
    version 2     | 0: a c̶ | 1: f g | 2: m | 3: k l |   segment 1 outgrew 2θ and was split; 2 is as it was, and so is
                                                        what is in memory of it

    Law: what a tuple finds is what is in the version that its batch has met, as if all rows were in memory.

Segments are by hash (`HashDirectory`) or by range (`KeyFences`), also those that MESHJOIN reads and those that are
searched where they are. They are split between steps alone. Rows that have gone stay as long as a tuple may ask for
them; they are forgotten when their segment is written the next time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import PARTITIONED_HASH, relation_room, segment_bytes
from sash.operators.relation_parts import RelationParts
from sash.operators.segment_buckets import SEGMENT_COLUMN, by_segment, number_rows
from sash.operators.segment_cache import SegmentCache
from sash.operators.segmented_lookup import SegmentedLookup
from sash.papers.exact.hash_directory import HashDirectory
from sash.papers.exact.key_fences import KeyFences
from sash.store.batch import int64_column
from sash.store.memory_budget import MemoryBudget
from sash.store.relation_file import KEY_COLUMN, ROW_COLUMN, RelationFile
from sash.store.row_match import match_rows
from sash.store.seen_rows import SeenColumns, VersionStep, change_rows

_NO_MORE = np.iinfo(np.int64).max
COMPARED_BYTES = 1 << 20
"""So much of segments is compared with a version at once."""
_NUMBER_BYTES = 16
"""What a row has in a segment beside its columns: its key and its number."""


@dataclass(slots=True)
class ChangingLayout:
    """Which segments there are now; all are of one group."""

    method: str
    partitions: HashDirectory | KeyFences

    def groups_of(self, keys: np.ndarray) -> np.ndarray:
        return np.zeros(len(keys), np.int64)

    def segments_in(self, group: int) -> range:
        return range(self.partitions.n_parts)

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        return self.partitions.segments_of(keys)


@dataclass(frozen=True, slots=True)
class ChangingRules:
    """How a relation that changes is kept."""

    method: str
    columns: tuple[str, ...]
    """By which it is looked up."""
    seen: SeenColumns


class ChangingRelation:
    """In a file of this process. What looks up in it is always the same."""

    def __init__(self, rules: ChangingRules, held: RelationParts, budget: MemoryBudget | None):
        """`held` is what batches see of it so far. Without a budget everything that is read stays in memory."""
        self.schema = held.schema
        self._columns = rules.columns
        self._seen = _numbered_columns(rules.seen, held.schema)
        self._theta_bytes = segment_bytes(None if budget is None else relation_room(budget.state_bytes))
        self._file = RelationFile.unnamed(Path(tempfile.gettempdir()) if budget is None else budget.spill)
        self._nothing = _nothing(held.schema)
        self._n_numbered = 0
        self._layout = self._lay_out(rules.method, held)
        for number, rows in self._by_segment(held):
            self._append_empty(number)
            self._file.append(rows)
        self._append_empty(self._layout.partitions.n_parts)
        self._lookup = SegmentedLookup(self._layout, self._file, SegmentCache.of(budget))

    def open(self) -> SegmentedLookup:
        return self._lookup

    def meet(self, gone: RelationParts | None, came: RelationParts, step: VersionStep) -> int:
        """Goes on to another version, as `change_rows` does; how many segments were written.

        Raises UnknownRowsError if what went was not there; then it may be met again, as a whole.
        """
        n_before = int(self._file.n_writes.sum())
        if gone is None:
            self._meet_whole(came, step)
        else:
            self._meet_difference(gone, came, step)
        return int(self._file.n_writes.sum()) - n_before

    @property
    def n_overfull(self) -> int:
        """Segments that are larger than 2θ: one key has more rows than that, and cannot be cut."""
        return int(np.count_nonzero(self._file.sizes > 2 * self._theta_bytes))

    def parts(self) -> Iterator[pa.Table]:
        """All rows that are held, segment by segment, with the batches that see them."""
        for segment in range(len(self._file)):
            rows = self._file.read(segment).drop_columns([KEY_COLUMN, ROW_COLUMN])
            yield rows.rename_columns(self.schema.names)

    def _meet_whole(self, rows: RelationParts, step: VersionStep) -> None:
        """Compares all segments that there are now, some at a time: what is not in the version has gone."""
        ahead, groups = _Ahead(self._by_segment(rows)), np.cumsum(self._file.sizes) // COMPARED_BYTES
        for first, last in pairwise([0, *np.searchsorted(groups, np.unique(groups), "right").tolist()]):
            came = [ahead.take(segment, self._nothing) for segment in range(first, last)]
            for segment in self._differing(first, came):
                self._change(segment, None, came[segment - first], step)

    def _differing(self, first: int, came: list[pa.Table]) -> list[int]:
        """Of neighbouring segments, those that do not have the rows that they should have now. Equal rows have equal
        keys, so they are compared all at once.
        """
        held = [self._read(segment) for segment in range(first, first + len(came))]
        current = [rows.filter(rows.column(self._seen.end).is_null()) for rows in held]
        names = list(self._seen.content)
        found = match_rows(*(pa.concat_tables(rows).select(names) for rows in (current, came)))
        owners = [np.repeat(np.arange(len(came)), [each.num_rows for each in rows]) for rows in (current, came)]
        return (first + np.union1d(*(own[~is_found] for own, is_found in zip(owners, found)))).tolist()

    def _meet_difference(self, gone: RelationParts, came: RelationParts, step: VersionStep) -> None:
        """All rows are given to segments before the first of them is split."""
        left, right = _Ahead(self._by_segment(gone)), _Ahead(self._by_segment(came))
        while (segment := min(left.segment, right.segment)) < _NO_MORE:
            went, own = (each.take(segment, self._nothing) for each in (left, right))
            if went.num_rows or own.num_rows:
                self._change(segment, went, own, step)

    def _change(self, segment: int, gone: pa.Table | None, came: pa.Table, step: VersionStep) -> None:
        changed = change_rows(self._read(segment), gone, came, self._seen, step)
        if changed is not None:
            self._write(segment, _in_order(changed))

    def _read(self, segment: int) -> pa.Table:
        kept = self._lookup.find_kept(segment)
        return self._file.read(segment) if kept is None else kept

    def _write(self, segment: int, rows: pa.Table) -> None:
        """A segment anew, and what is split off it."""
        keys = int64_column(rows, KEY_COLUMN)
        if rows.nbytes > 2 * self._theta_bytes:
            theta = max(1, self._theta_bytes * rows.num_rows // rows.nbytes)
            self._layout.partitions.split(segment, keys, theta)
        owners = self._layout.segments_of(keys)
        for each in (segment, *range(len(self._file), self._layout.partitions.n_parts)):
            own = rows.filter(pa.array(owners == each)).combine_chunks()
            if each == segment:
                self._file.rewrite(each, own)
            else:
                self._file.append(own)
            self._lookup.renew(each, own)

    def _by_segment(self, parts: RelationParts) -> Iterator[tuple[int, pa.Table]]:
        numbered = self._number(parts)
        return by_segment(numbered, self._layout.partitions.n_parts, parts.n_bytes, self._file.directory)

    def _number(self, parts: RelationParts) -> Iterator[pa.Table]:
        for rows, keys in parts.with_keys(self._columns):
            yield number_rows(rows, keys, self._n_numbered, self._layout.segments_of(keys))
            self._n_numbered += rows.num_rows

    def _append_empty(self, n_segments: int) -> None:
        while len(self._file) < n_segments:
            self._file.append(self._nothing)

    def _lay_out(self, method: str, held: RelationParts) -> ChangingLayout:
        keys, n_bytes = [np.empty(0, np.int64)], 0
        for rows, own in held.with_keys(self._columns):
            keys.append(own)
            n_bytes += rows.nbytes + _NUMBER_BYTES * rows.num_rows
        found = np.concatenate(keys)
        theta = max(1, self._theta_bytes * len(found) // max(1, n_bytes))
        by_hash = method == PARTITIONED_HASH
        return ChangingLayout(method, HashDirectory(len(found), theta) if by_hash else KeyFences(found, theta))


class _Ahead:
    """Rows by segment, of which the first that are left are known."""

    def __init__(self, segments: Iterator[tuple[int, pa.Table]]):
        self._segments = segments
        self._go_on()

    def take(self, segment: int, nothing: pa.Table) -> pa.Table:
        """The rows of a segment that is not beyond the next one."""
        if segment < self.segment or self._rows is None:
            return nothing
        rows = self._rows
        self._go_on()
        return rows

    def _go_on(self) -> None:
        self.segment, self._rows = next(self._segments, (_NO_MORE, None))


def _nothing(schema: pa.Schema) -> pa.Table:
    no_keys = np.empty(0, np.int64)
    return number_rows(schema.empty_table(), no_keys, 0, no_keys).drop_columns([SEGMENT_COLUMN])


def _numbered_columns(seen: SeenColumns, schema: pa.Schema) -> SeenColumns:
    """As columns are called in the file."""
    start, end, *content = (str(schema.get_field_index(name)) for name in (seen.start, seen.end, *seen.content))
    return SeenColumns(start, end, tuple(content))


def _in_order(rows: pa.Table) -> pa.Table:
    """As they are in a segment: by key, and rows of a key by their numbers."""
    return rows.take(pa.array(np.lexsort((int64_column(rows, ROW_COLUMN), int64_column(rows, KEY_COLUMN)))))
