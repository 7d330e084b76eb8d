"""Where relations are: in memory if they fit their share of a budget, else in files that those who look up share."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.cost.lookup_cost import INL, MESH, PARTITIONED_HASH, PARTITIONED_RANGE
from sash.errors import SourceError
from sash.operators import place_relation, segment_buckets
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.place_relation import RelationPlaces
from sash.operators.relation_cut import CutRules, cut_relation
from sash.operators.relation_parts import RelationParts, survey
from sash.operators.segment_cache import SegmentCache
from sash.operators.segmented_lookup import SegmentedLookup, SegmentedRelation
from sash.store.memory_budget import MemoryBudget
from sash.store.relation_file import RelationFile


@pytest.fixture(autouse=True)
def no_cache_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine has room for decides nothing here."""
    monkeypatch.setattr(place_relation, "cacheable_bytes", lambda: 0)


SPEC = LookupJoinSpec((("s.k", "r.k"),), None)
BY_RANGE = LookupJoinSpec(SPEC.keys, None, method=PARTITIONED_RANGE, is_hinted=True)
OTHER = LookupJoinSpec((("s.k", "q.k"),), None)


def rows(alias: str = "r", n_rows: int = 4000, seed: int = 1) -> RelationParts:
    rng = np.random.default_rng(seed)
    return RelationParts.of(
        pa.table({f"{alias}.k": rng.integers(0, n_rows, n_rows), f"{alias}.v": rng.integers(0, 9, n_rows)})
    )


def opened(relation: pa.Table | SegmentedRelation) -> SegmentedLookup:
    assert not isinstance(relation, pa.Table)
    return relation.open()


def test_without_a_limit_it_is_in_memory():
    table = rows()
    assert RelationPlaces(None)(SPEC, table) is table.rows


def test_what_fits_is_in_memory_and_charged_as_long_as_it_is_there(tmp_path: Path):
    budget, table = MemoryBudget.of(1 << 24, tmp_path), rows()
    places = RelationPlaces(budget)
    assert places(SPEC, table) is table.rows
    assert table.rows is not None
    assert budget.n_state_bytes >= table.rows.nbytes
    del places
    assert budget.n_state_bytes == 0


def test_what_does_not_fit_is_in_a_file_and_shared_whatever_its_columns_are_called(tmp_path: Path):
    budget = MemoryBudget.of(1 << 16, tmp_path)
    first, second, third = (RelationPlaces(budget) for _ in range(3))
    one, other = opened(first(SPEC, rows())), opened(second(OTHER, rows("q")))
    assert one is other
    assert one.layout.method == INL
    assert opened(third(SPEC, rows(seed=2))) is not one


def test_relations_with_the_same_keys_are_not_one(tmp_path: Path):
    places, table = RelationPlaces(MemoryBudget.of(1 << 16, tmp_path)), rows().whole()
    other = table.set_column(1, "r.v", pa.array(table["r.v"].to_numpy() + 1))
    one, another = (opened(places(SPEC, RelationParts.of(each))) for each in (table, other))
    assert one is not another


@pytest.mark.slow
def test_all_who_share_a_budget_have_one_limit_for_segments(tmp_path: Path):
    budget = MemoryBudget.of(1 << 16, tmp_path)
    places = RelationPlaces(budget)
    lookups = [opened(places(BY_RANGE, rows(seed=seed))) for seed in range(3)]
    for step in range(20):
        for number in range(3):
            assert list(lookups[number].find(np.random.default_rng(step).integers(0, 4000, 10 + 90 * number)))
            assert 0 < budget.n_state_bytes <= (1 << 15) // 4
    assert not lookups[0].cached
    assert lookups[2].cached
    del lookups[2]
    gc.collect()
    assert budget.n_state_bytes == sum(int(each.sizes[kept]) for each in lookups for kept in each.cached)


def test_a_segment_that_is_hot_takes_the_place_of_another_relations(tmp_path: Path):
    budget = MemoryBudget.of(1 << 16, tmp_path)
    places = RelationPlaces(budget)
    cold, hot = (opened(places(BY_RANGE, rows(seed=seed))) for seed in range(2))
    assert list(cold.find(np.arange(0, 4000, 5)))
    n_before = len(cold.cached)
    for _ in range(10):
        assert list(hot.find(np.repeat(np.arange(400), 3)))
    assert len(cold.cached) < n_before
    assert 0 in hot.cached


def test_without_a_key_it_is_in_memory_however_large(tmp_path: Path):
    table = rows()
    assert RelationPlaces(MemoryBudget.of(1 << 16, tmp_path))(LookupJoinSpec((), '"s.k" < "r.k"'), table) is table.rows


@pytest.mark.parametrize("method", [PARTITIONED_HASH, PARTITIONED_RANGE, MESH, INL])
@pytest.mark.parametrize("n_groups", [1, 3])
def test_parts_that_are_sorted_one_after_the_other_give_the_same_file(
    method: str, n_groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """However many parts a relation comes in, and however much of it is in memory meanwhile."""
    table = rows().whole()
    cut = RelationParts(table.schema, lambda: (table.slice(first, 700) for first in range(0, 4000, 700)))
    rules = CutRules(method, 2000, True, n_groups)
    found = []
    for number, (parts, n_bytes) in enumerate([(RelationParts.of(table), 1 << 20), (cut, 1 << 20), (cut, 3000)]):
        if method != INL:
            monkeypatch.setattr(segment_buckets, "BUCKET_BYTES", n_bytes)
        file = RelationFile.named(tmp_path / str(number) / "segments")
        layout = cut_relation(parts, ("r.k",), survey(parts, ("r.k",)), rules, file)
        assert len(file) == layout.firsts[-1] > (0 if method == INL else 20)
        found.append([file.read(segment) for segment in range(len(file))])
    for others in found[1:]:
        assert all(one.equals(other) for one, other in zip(found[0], others, strict=True))
    assert sum(each.num_rows for each in found[0]) == 4000


@pytest.mark.parametrize("method", [PARTITIONED_HASH, PARTITIONED_RANGE])
def test_the_rows_of_a_key_are_in_the_segment_that_it_has_in_its_group(method: str, tmp_path: Path):
    parts, file = rows(), RelationFile.named(tmp_path / "segments")
    layout = cut_relation(parts, ("r.k",), survey(parts, ("r.k",)), CutRules(method, 2000, True, 3), file)
    keys = np.unique(parts.whole()["r.k"].to_numpy())
    segments, groups = layout.segments_of(keys), layout.groups_of(keys)
    assert set(groups) == {0, 1, 2}
    assert all(segment in layout.segments_in(group) for segment, group in zip(segments, groups, strict=True))
    for segment in range(layout.firsts[-1]):
        assert np.unique(file.read(segment)["0"].to_numpy()).tolist() == keys[segments == segment].tolist()


def written(path: Path) -> RelationFile:
    file, table = RelationFile.named(path), pa.table({"x": np.arange(2000)})
    for first in (0, 1000):
        file.append(table.slice(first, 1000))
    file.sync()
    return file


def test_a_file_with_a_name_is_mapped_by_others(tmp_path: Path):
    file = written(tmp_path / "here" / "r.segments")
    other = RelationFile.opened(tmp_path / "here" / "r.segments", file.places)
    for number in (0, 1, 1):
        assert other.read(number).equals(file.read(number))
        other.release(number)
    assert other.n_reads.tolist() == [1, 2]
    assert other.sizes.tolist() == file.sizes.tolist()


@pytest.mark.parametrize("harm", ["a bit", "shorter", "gone"])
def test_a_damaged_file_is_named(harm: str, tmp_path: Path):
    path = tmp_path / "r.segments"
    places = written(path).places
    data = bytearray(path.read_bytes())
    if harm == "a bit":
        data[places[1].first + 900] ^= 4
        path.write_bytes(data)
        file = RelationFile.opened(path, places)
        assert file.read(0).num_rows == 1000
        with pytest.raises(SourceError, match=r"r\.segments` cannot be read: segment 1 is not as it was written"):
            file.read(1)
        return
    path.write_bytes(data[:-1]) if harm == "shorter" else path.unlink()
    with pytest.raises(SourceError, match=r"r\.segments` cannot be read"):
        RelationFile.opened(path, places)


def test_queries_of_a_session_share_what_is_in_memory_of_a_table(tmp_path: Path):
    rng = np.random.default_rng(7)
    times = pa.array(np.arange(2000) * 1000, pa.timestamp("us"))
    stream = pa.table({"k": rng.integers(0, 4000, 2000), "ts": times})
    table = pa.table({"k": rng.integers(0, 4000, 8000), "v": rng.integers(0, 9, 8000)})
    texts = {
        "one": "SELECT /*+ partitioned_range */ S.k, R.v FROM s S [RANGE 1 SECOND] JOIN r R ON S.k = R.k",
        "two": "SELECT /*+ partitioned_range */ A.k AS a, B.v AS b FROM s A [RANGE 2 SECONDS] JOIN r B ON A.k = B.k",
    }
    expected = {name: sash.sql(text, s=stream, r=sash.relation(table)) for name, text in texts.items()}
    session = sash.Session(memory="256k")
    session.stream("s", stream, time="ts")
    session.relation("r", table)
    for name, text in texts.items():
        session.query(name, text)
    told = " ".join(session.explain(verbose=True).split())
    assert "chosen partitioned_range, by hint" in told
    assert "replicated does not fit" in told
    assert "`r` (125 KiB) looked up in files" in told
    running = session._running()
    assert {name: changes.num_rows for name, changes in session.run().items()} == {
        name: changes.num_rows for name, changes in expected.items()
    }
    assert running._budget is not None
    (cache,) = (each for each in running._budget._shared.values() if isinstance(each, SegmentCache))
    assert sum(isinstance(each, SegmentedLookup) for each in running._budget._shared.values()) == 1
    assert 0 < cache.n_bytes <= (1 << 17) // 4


def test_where_the_system_has_room_for_the_file_it_is_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(place_relation, "cacheable_bytes", lambda: 1 << 40)
    assert opened(RelationPlaces(MemoryBudget.of(1 << 16, tmp_path))(SPEC, rows())).layout.method == INL


def test_explain_says_what_nobody_knows():
    schema = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
    sash.configure(memory="1 MiB")
    try:
        text = "SELECT S.k FROM s S [RANGE 1 SECOND] JOIN r R ON S.k = R.k"
        told = sash.explain(
            text, verbose=True, s=schema.empty_table(), r=sash.relation(rows().whole().rename_columns(["k", "v"]))
        )
        assert "about 281 KiB as a whole, which does not fit the 128 KiB for a relation" in " ".join(told.split())
        assert "a relation in a file, by range, by cost" in " ".join(told.split())
        assert "steps of 10,000 tuples, as nobody knows how many come at once" in " ".join(told.split())
    finally:
        sash.configure()
