"""A relation that changes is looked up in, in a file, as each of its versions would be; only what has changed is
written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.cost.lookup_cost import INL, MESH, PARTITIONED_HASH, PARTITIONED_RANGE
from sash.operators import changing_relation
from sash.operators.changing_relation import ChangingRelation, ChangingRules
from sash.operators.relation_parts import RelationParts
from sash.operators.segmented_lookup import SegmentedLookup, in_order
from sash.store.keys import encode_keys
from sash.store.memory_budget import MemoryBudget
from sash.store.seen_rows import SeenColumns, UnknownRowsError, VersionStep
from support.profiles import volume

METHODS = [PARTITIONED_HASH, PARTITIONED_RANGE, MESH, INL]
SCHEMA = pa.schema([("r.k", pa.int64()), ("r.v", pa.float64()), ("from", pa.int64()), ("until", pa.int64())])
SEEN = SeenColumns("from", "until", ("r.k", "r.v"))
MEMORY = 1 << 14
Row = tuple[int | None, float]


def rows_of(rows: Sequence[Row], batch: int) -> RelationParts:
    """In parts of a few rows."""
    columns = [[k for k, _ in rows], [v for _, v in rows], [batch] * len(rows), [None] * len(rows)]
    table = pa.table([pa.array(each, field.type) for each, field in zip(columns, SCHEMA)], schema=SCHEMA)
    return RelationParts(SCHEMA, lambda: (table.slice(at, 7) for at in range(0, len(rows), 7)), n_bytes=table.nbytes)


def made(method: str, rows: list[Row], directory: Path = Path("/tmp"), memory: int = MEMORY) -> ChangingRelation:
    rules = ChangingRules(method, ("r.k",), SEEN)
    return ChangingRelation(rules, rows_of(rows, 0), MemoryBudget.of(memory, directory))


def seen(relation: ChangingRelation, keys: list[int], batch: int) -> Counter:
    found = in_order(relation.open().find(np.array(keys, np.int64)), None)
    tables = [SEEN.seen_by(rows.rename_columns(SCHEMA.names), batch) for _, rows in found]
    return Counter(repr(pair) for rows in tables for pair in zip(rows["r.k"].to_pylist(), rows["r.v"].to_pylist()))


def expected(rows: list[Row], keys: list[int]) -> Counter:
    return Counter(repr(row) for row in rows if row[0] in keys)


VALUES = st.tuples(
    st.none() | st.integers(0, 9) | st.sampled_from([-(2**63), 2**63 - 1, 10**12]),
    st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
)
VERSIONS = st.lists(st.tuples(st.lists(VALUES, max_size=30), st.booleans()), min_size=1, max_size=6)
KEYS = [*range(11), -(2**63), 2**63 - 1, 10**12]


def difference(old: list[Row], new: list[Row]) -> tuple[list[Row], list[Row]]:
    """What went and what came, with something that did both."""
    left, right = Counter(map(repr, old)), Counter(map(repr, new))
    both = old[:1] if old and repr(old[0]) in right else []
    return _surplus(old, right) + both, _surplus(new, left) + both


def _surplus(rows: list[Row], others: Counter) -> list[Row]:
    left, found = Counter(others), []
    for row in rows:
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            found.append(row)
    return found


@settings(max_examples=volume(dev=40, ci=100, deep=2000), deadline=None)
@given(st.sampled_from(METHODS), VERSIONS, st.integers(0, 3))
def test_every_batch_finds_its_version(method, versions, n_kept) -> None:
    """Whether a version comes whole or as a difference, and as long as it may be asked for."""
    relation = made(method, versions[0][0])
    for batch, ((old, _), (new, is_whole)) in enumerate(pairwise(versions), 1):
        step = VersionStep(batch, max(0, batch - n_kept))
        gone, came = (None, new) if is_whole else difference(old, new)
        relation.meet(None if gone is None else rows_of(gone, batch), rows_of(came, batch), step)
        for asked in range(step.oldest, batch + 1):
            assert seen(relation, KEYS, asked) == expected(versions[asked][0], KEYS)
    again = ChangingRelation(
        ChangingRules(method, ("r.k",), SEEN),
        RelationParts(SCHEMA, relation.parts),
        MemoryBudget.of(MEMORY, Path("/tmp")),
    )
    assert seen(again, KEYS, len(versions) - 1) == expected(versions[-1][0], KEYS)


def many(n_rows: int) -> list[Row]:
    return [(2 * k, float(k)) for k in range(n_rows)]


def files(relation: ChangingRelation) -> tuple[SegmentedLookup, np.ndarray, np.ndarray]:
    lookup = relation.open()
    return lookup, lookup.file.n_reads.copy(), lookup.file.n_writes.copy()


@pytest.mark.parametrize("method", [PARTITIONED_HASH, PARTITIONED_RANGE])
def test_what_has_not_changed_is_neither_read_nor_written(method, tmp_path) -> None:
    """Of many segments one is written anew; the others that are in memory stay there, and so does what is in them."""
    relation = made(method, many(2000), tmp_path)
    lookup = relation.open()
    assert len(lookup.file) > 20
    hot = [0, 2, 4, 6, 100, 1000]
    for _ in range(3):
        assert seen(relation, hot, 0) == expected(many(2000), hot)
    cached = {number: lookup.find_kept(number) for number in lookup.cached}
    assert len(cached) > 1
    lookup, n_reads, n_writes = files(relation)
    n_written = relation.meet(rows_of([(3998, 1999.0)], 1), rows_of([(3998, -1.0)], 1), VersionStep(1, 0))
    (changed,) = lookup.layout.segments_of(np.array([3998])).tolist()
    assert n_written == 1
    assert np.flatnonzero(lookup.file.n_writes - n_writes).tolist() == [changed]
    assert set(np.flatnonzero(lookup.file.n_reads - n_reads).tolist()) <= {changed}
    assert all(lookup.find_kept(number) is table for number, table in cached.items() if number != changed)
    n_reads = lookup.file.n_reads.copy()
    kept = [key for key in hot if lookup.layout.segments_of(np.array([key]))[0] in cached]
    assert seen(relation, kept, 1) == expected(many(2000), kept)
    assert not (lookup.file.n_reads - n_reads).any()
    assert seen(relation, [3998], 1) == expected([(3998, -1.0)], [3998])
    assert seen(relation, [3998], 0) == expected([(3998, 1999.0)], [3998])


@pytest.mark.parametrize("n_bytes", [1, 3000, 1 << 30])
def test_however_much_of_it_is_compared_at_once(n_bytes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(changing_relation, "COMPARED_BYTES", n_bytes)
    relation = made(PARTITIONED_RANGE, many(1000), tmp_path)
    version = [*many(500), (1500, -1.0), *many(1000)[700:], (1998, -2.0)]
    n_segments = len(relation.open().file)
    n_written = relation.meet(None, rows_of(version, 1), VersionStep(1, 0))
    assert 0.15 * n_segments < n_written < 0.3 * n_segments
    keys = list(range(0, 2000, 2))
    assert seen(relation, keys, 1) == expected(version, keys)
    assert seen(relation, keys, 0) == expected(many(1000), keys)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_version_again_writes_nothing(method, tmp_path) -> None:
    relation = made(method, many(500), tmp_path)
    assert relation.meet(None, rows_of(many(500)[::-1], 1), VersionStep(1, 0)) == 0
    assert relation.meet(rows_of(many(5), 2), rows_of(many(5), 2), VersionStep(2, 0)) == 0


def test_a_segment_in_memory_is_what_it_is_in_the_file_when_it_has_changed(tmp_path) -> None:
    relation = made(PARTITIONED_RANGE, many(2000), tmp_path)
    lookup = relation.open()
    assert seen(relation, [0], 0) == expected(many(1), [0])
    assert lookup.cached == [0]
    relation.meet(rows_of([(0, 0.0)], 1), rows_of([(0, 7.0)], 1), VersionStep(1, 1))
    kept, n_reads = lookup.find_kept(0), int(lookup.file.n_reads[0])
    assert kept is not None
    assert seen(relation, [0], 1) == expected([(0, 7.0)], [0])
    assert lookup.file.n_reads[0] == n_reads
    assert kept.equals(lookup.file.read(0))
    assert lookup._cache.n_bytes == kept.nbytes


@pytest.mark.parametrize("method", METHODS)
def test_a_segment_that_outgrows_its_size_is_split(method, tmp_path) -> None:
    """All between two versions: what a split writes is the segment and what is new, and all keys are found where they
    are then.
    """
    rows = many(2000)
    relation = made(method, rows, tmp_path)
    lookup = relation.open()
    n_before, limit = len(lookup.file), 2 * relation._theta_bytes
    n_more = 3000 if method == PARTITIONED_HASH else 200
    more = [(2 * (number % n_more) + 1, float(number)) for number in range(2 * n_more)]
    n_written = relation.meet(rows_of([], 1), rows_of(more, 1), VersionStep(1, 0))
    assert len(lookup.file) > n_before
    assert lookup.sizes.max() <= limit
    assert relation.n_overfull == 0
    assert n_written == np.count_nonzero(lookup.file.n_writes[:n_before] > 1) + len(lookup.file) - n_before
    if method != PARTITIONED_HASH:
        assert np.count_nonzero(lookup.file.n_writes[:n_before] > 1) <= 21
    keys = list(range(0, 4000, 3))
    assert seen(relation, keys, 1) == expected(rows + more, keys)
    assert seen(relation, keys, 0) == expected(rows, keys)
    owners = lookup.layout.segments_of(np.array([k for k, _ in rows + more]))
    for segment in range(len(lookup.file)):
        own = lookup.file.read(segment)
        assert own.num_rows == np.count_nonzero(owners == segment)


@pytest.mark.parametrize("method", METHODS)
def test_one_key_with_more_rows_than_a_segment_is_allowed_and_reported(method, tmp_path) -> None:
    relation = made(method, many(200), tmp_path)
    more = [(7, float(number)) for number in range(500)]
    relation.meet(rows_of([], 1), rows_of(more, 1), VersionStep(1, 0))
    assert relation.n_overfull == 1
    assert seen(relation, [6, 7, 8], 1) == expected(many(200) + more, [6, 7, 8])


def test_the_file_does_not_grow_with_every_version(tmp_path) -> None:
    """Where a segment was, others are written; rows that nobody can ask for any more are forgotten."""
    rows = many(1000)
    relation = made(PARTITIONED_RANGE, rows, tmp_path)
    n_bytes = relation.open().file.n_bytes
    for batch in range(1, 30):
        changed = [(k, v + 1) for k, v in rows[:100]]
        relation.meet(rows_of(rows[:100], batch), rows_of(changed, batch), VersionStep(batch, batch))
        rows[:100] = changed
    assert relation.open().file.n_bytes < 1.5 * n_bytes
    assert sum(part.num_rows for part in relation.parts()) == 1000
    assert not list(tmp_path.iterdir())


def test_what_went_and_was_not_there_is_said_and_can_be_met_as_a_whole(tmp_path) -> None:
    relation, rows = made(PARTITIONED_RANGE, many(500), tmp_path), many(500)
    with pytest.raises(UnknownRowsError):
        relation.meet(rows_of([rows[0], (998, -5.0)], 1), rows_of([(0, 8.0)], 1), VersionStep(1, 0))
    version = [(0, 9.0), *rows[1:]]
    relation.meet(None, rows_of(version, 1), VersionStep(1, 0))
    keys = [0, 2, 998]
    assert seen(relation, keys, 1) == expected(version, keys)
    assert seen(relation, keys, 0) == expected(rows, keys)


def test_keys_are_hashes_where_they_are_texts(tmp_path) -> None:
    schema = SCHEMA.set(0, pa.field("r.k", pa.string()))
    table = pa.table([["a", "b", None], [1.0, 2.0, 3.0], [0] * 3, [None] * 3], schema=schema)
    relation = ChangingRelation(
        ChangingRules(PARTITIONED_RANGE, ("r.k",), SEEN), RelationParts.of(table), MemoryBudget.of(MEMORY, tmp_path)
    )
    relation.meet(RelationParts.of(table.slice(0, 1)), RelationParts.of(table.slice(0, 0)), VersionStep(1, 1))
    keys = encode_keys(table.slice(0, 2), ("r.k",))
    assert [len(at) for at, _ in relation.open().find(keys)] == [1]
