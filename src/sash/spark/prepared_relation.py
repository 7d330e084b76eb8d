"""Relations that are larger than the memory for them: cut once into files, which all workers of a machine map.

    <directory>/<digest>.segments    the rows, segment behind segment; see `relation_file` and `relation_cut`
    <directory>/<digest>.json        which segments there are, and where

The digest is of the rows, of the key by which they are looked up, and of how they are cut. So a query that starts again
finds what belongs to it; if that is damaged, it is written anew. A catalog is written when its segments are safe.

What goes to workers is a path. A worker opens a file when it first looks something up, and maps the segments that its
groups ask for. Segments of a relation that is spread by its key belong to one group each.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sash.errors import SourceError
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.place_relation import own_keys
from sash.operators.relation_cut import CutRules, SegmentLayout, cut_relation
from sash.operators.relation_parts import RelationParts, Survey
from sash.operators.segment_cache import SegmentCache
from sash.operators.segmented_lookup import SegmentedLookup
from sash.papers.exact.hash_partitions import HashPartitions
from sash.papers.exact.slot_array import SlotArray
from sash.store.relation_file import RelationFile, SegmentPlace

FORMAT = 1
"""Of the files; others are written anew."""
_opened: dict[str, SegmentedLookup] = {}
"""This worker's relations, by path."""
_caches: dict[int | None, SegmentCache] = {}
"""This worker's mapped segments, by how many bytes of them stay."""


@dataclass(frozen=True, slots=True)
class PreparedRelation:
    """Where a relation is, as workers are told it."""

    schema: pa.Schema
    path: str
    cache_bytes: int | None
    """So much of its segments, and of those of others, stays mapped in each worker; None: all that was read."""

    def open(self) -> SegmentedLookup:
        if self.path not in _opened:
            layout, places = read_catalog(Path(self.path).with_suffix(".json"))
            cache = _caches.setdefault(self.cache_bytes, SegmentCache(self.cache_bytes))
            _opened[self.path] = SegmentedLookup(layout, RelationFile.opened(Path(self.path), places), cache)
        return _opened[self.path]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Where the relations of a query are put, and how much of their segments stays mapped in each worker."""

    directory: Path
    cache_bytes: int | None


def prepare_relation(
    parts: RelationParts, known: Survey, spec: LookupJoinSpec, rules: CutRules, how: Preparation
) -> PreparedRelation:
    """Cuts a relation, unless that was done before."""
    told = f"{FORMAT} {rules} {known.digest}"
    path = how.directory / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.segments"
    if not _is_whole(path):
        file = RelationFile.named(path)
        layout = cut_relation(parts, own_keys(spec), known, rules, file)
        file.sync()
        _write_catalog(path.with_suffix(".json"), layout, file.places)
    return PreparedRelation(parts.schema, str(path), how.cache_bytes)


def _is_whole(path: Path) -> bool:
    """Whether all segments are there as they were written."""
    try:
        _, places = read_catalog(path.with_suffix(".json"))
        file = RelationFile.opened(path, places)
        for number in range(len(file)):
            file.read(number)
            file.release(number)
    except SourceError:
        return False
    return True


def remove_others(directory: Path, kept: Iterable[PreparedRelation]) -> None:
    """Removes what was prepared under settings that have changed since."""
    names = {Path(each.path).stem for each in kept}
    for path in directory.glob("*.*"):
        if path.suffix in (".segments", ".json", ".new") and path.stem not in names:
            path.unlink(missing_ok=True)


def read_catalog(path: Path) -> tuple[SegmentLayout, list[SegmentPlace]]:
    """Which segments there are, and where; SourceError if that cannot be read."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        body = told["catalog"]
        if told["sum"] != _sum(body):
            raise ValueError("it is not what was written")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"the catalog of a relation's segments, `{path}`, cannot be read: {error}; start the query again"
        ) from None
    partitions = tuple(map(_read_partitions, body["partitions"]))
    layout = SegmentLayout(body["method"], body["n_groups"], body["is_exact"], partitions, tuple(body["firsts"]))
    return layout, [SegmentPlace(*each) for each in body["places"]]


def _write_catalog(path: Path, layout: SegmentLayout, places: list[SegmentPlace]) -> None:
    body = {
        "method": layout.method,
        "n_groups": layout.n_groups,
        "is_exact": layout.is_exact,
        "partitions": [_told_of(each) for each in layout.partitions],
        "firsts": layout.firsts,
        "places": [astuple(each) for each in places],
    }
    body = json.loads(json.dumps(body))
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"catalog": body, "sum": _sum(body)}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _told_of(partitions: HashPartitions | SlotArray | None) -> Any:
    """Slots of a segment lie together, so that their number is enough."""
    if partitions is None or isinstance(partitions, HashPartitions):
        return None if partitions is None else partitions.n_parts
    n_slots = np.bincount(partitions.entries, minlength=partitions.n_parts).tolist()
    return [partitions.low, partitions.high, partitions.length, n_slots, partitions.n_overfull]


def _read_partitions(told: Any) -> HashPartitions | SlotArray | None:
    if told is None or isinstance(told, int):
        return None if told is None else HashPartitions(told)
    low, high, length, n_slots, n_overfull = told
    return SlotArray(low, high, length, np.repeat(np.arange(len(n_slots)), n_slots), len(n_slots), n_overfull)


def _sum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
