"""How a relation is cut into segments, and which of them a key is in.

    groups      ┌──── 0 ────┐┌──── 1 ────┐      by the hash of the key, as streams are spread over partition groups
    segments      0   1   2    3   4   5        inside a group by hash or by range; for MESHJOIN, as rows come
    rows         in order of keys

Whoever is given the tuples of one group needs the segments of that group alone. Inside a group, what is hot is together
if it is cut by range, and all groups have as much to do. Groups and hash segments go by different bits. What is
searched where it is (INL) is cut by range as well, into far larger segments.

Of the relation, keys and numbers of segments are in memory, and a bucket of rows (`segment_buckets`):

    parts ── first time: keys, which say how to cut ── again: rows by segment ── written
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import INL, MESH, PARTITIONED_HASH
from sash.operators.relation_parts import RelationParts, Survey
from sash.operators.segment_buckets import BUCKET_BYTES, by_segment, number_rows
from sash.papers.exact.hash_partitions import HashPartitions
from sash.papers.exact.slot_array import SlotArray, make_slot_array
from sash.store.keys import hash_rows
from sash.store.relation_file import RelationFile

MAX_LEVELS = 20
"""A slot array has at most 2 to this power entries."""


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Which segments there are. It can be sent to workers."""

    method: str
    n_groups: int
    """1 if it is not cut by groups."""
    is_exact: bool
    """Whether keys are their own integers; all others are hashes already."""
    partitions: tuple[HashPartitions | SlotArray | None, ...]
    """By group, how its segments are found; None where that is not asked."""
    firsts: tuple[int, ...]
    """By group, the number of its first segment; and how many there are in all."""

    def groups_of(self, keys: np.ndarray) -> np.ndarray:
        """The group of each key, by the hash by which streams are spread."""
        return _groups_of(keys, self.n_groups, self.is_exact)

    def segments_in(self, group: int) -> range:
        return range(self.firsts[group], self.firsts[group + 1])

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        """The segment of each key; -1 if no row has it."""
        groups, found = self.groups_of(keys), np.full(len(keys), -1)
        for group, partitions in enumerate(self.partitions):
            places = np.flatnonzero(groups == group)
            if not len(places):
                continue
            assert partitions is not None, "segments that are read whatever the keys are"
            segments = partitions.segments_of(keys[places])
            found[places] = np.where(segments < 0, -1, segments + self.firsts[group])
        return found


@dataclass(frozen=True, slots=True)
class CutRules:
    """How to cut."""

    method: str
    segment_bytes: int
    is_exact: bool
    n_groups: int = 1


def cut_relation(
    parts: RelationParts, columns: tuple[str, ...], known: Survey, rules: CutRules, file: RelationFile
) -> SegmentLayout:
    """Writes the segments of a relation that is looked up by some columns. In the file, columns are called 0, 1, 2 …"""
    layout, segments = _lay_out(known, rules)
    numbered = _numbered(parts, columns, segments)
    for number, rows in by_segment(numbered, layout.firsts[-1], known.n_bytes, file.directory):
        assert number == len(file), "a segment without a row has no columns"
        file.append(rows)
    return layout


def _lay_out(known: Survey, rules: CutRules) -> tuple[SegmentLayout, np.ndarray]:
    """By keys alone; and the segment of each row."""
    groups = _groups_of(known.keys, rules.n_groups, rules.is_exact)
    row_bytes = max(1.0, known.n_bytes / max(1, known.n_rows))
    theta = max(1, int((BUCKET_BYTES if rules.method == INL else rules.segment_bytes) / row_bytes))
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(rules.n_groups + 1)).tolist()
    segments = np.empty(len(known.keys), np.int64)
    partitions: list[HashPartitions | SlotArray | None] = []
    firsts = [0]
    for first, last in pairwise(bounds):
        rows = order[first:last]
        found = _partitions(rules.method, known.keys[rows], theta)
        own = np.arange(len(rows)) // theta if found is None else found.segments_of(known.keys[rows])
        segments[rows] = firsts[-1] + own
        partitions.append(found)
        firsts.append(firsts[-1] + (-(-len(rows) // theta) if found is None else found.n_parts))
    return SegmentLayout(rules.method, rules.n_groups, rules.is_exact, tuple(partitions), tuple(firsts)), segments


def _groups_of(keys: np.ndarray, n_groups: int, is_exact: bool) -> np.ndarray:
    if n_groups == 1:
        return np.zeros(len(keys), np.int64)
    hashes = hash_rows([pa.array(keys)]) if is_exact else keys.view(np.uint64)
    return (hashes % np.uint64(n_groups)).astype(np.int64)


def _partitions(method: str, keys: np.ndarray, theta: int) -> HashPartitions | SlotArray | None:
    if method == MESH:
        return None
    if method == PARTITIONED_HASH:
        return HashPartitions(max(1, -(-len(keys) // theta)))
    return make_slot_array(keys, theta, MAX_LEVELS)


def _numbered(parts: RelationParts, columns: tuple[str, ...], segments: np.ndarray) -> Iterator[pa.Table]:
    """The rows, each with its key, its number and its segment."""
    n_before = 0
    for rows, keys in parts.with_keys(columns):
        yield number_rows(rows, keys, n_before, segments[n_before : n_before + rows.num_rows])
        n_before += rows.num_rows
