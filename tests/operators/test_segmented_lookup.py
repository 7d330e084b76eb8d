"""A relation in a file is looked up in as if it were in memory, by every method and with however little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.cost.lookup_cost import MESH, PARTITIONED_HASH, PARTITIONED_RANGE, REPLICATED
from sash.errors import ResourceError
from sash.operators.lookup_join import ANTI, INNER, OUTER, SEMI, LookupJoin, LookupJoinSpec
from sash.operators.place_relation import RelationPlaces
from sash.operators.relation_parts import RelationParts, survey
from sash.operators.segmented_lookup import EPOCH, SegmentedLookup, segment_relation
from sash.plan.query_plan import LOOKUP_METHODS
from sash.store.batch import EXPIRES, OP, TS
from sash.store.memory_budget import MemoryBudget
from support.profiles import volume

IN_FILES = [each for each in LOOKUP_METHODS if each != REPLICATED]
STREAM = pa.schema([("k", pa.int64()), ("t", pa.string()), ("x", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()),
                    (OP, pa.int8())])  # fmt: skip
RELATION = pa.schema([("r.k", pa.int64()), ("r.t", pa.string()), ("r.y", pa.int64())])
KEYS = {"one": (("k", "r.k"),), "text": (("t", "r.t"),), "both": (("k", "r.k"), ("t", "r.t"))}
VALUES = st.tuples(
    st.one_of(st.none(), st.integers(0, 5), st.sampled_from([-(2**63), 10**9, 2**63 - 1])),
    st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
    st.integers(0, 3),
)


def relation_of(rows: list[tuple[int | None, str | None, int]]) -> pa.Table:
    return pa.table([list(each) for each in zip(*rows)] or [[], [], []], schema=RELATION)


def batch_of(rows: list[tuple[int | None, str | None, int]]) -> pa.Table:
    values = [[k for k, _, _ in rows], [t for _, t, _ in rows], [x for _, _, x in rows]]
    ops = [(-1) ** n for n in range(len(rows))]
    return pa.table([*values, list(range(len(rows))), [99] * len(rows), ops], schema=STREAM)


@settings(max_examples=volume(dev=25, ci=80, deep=1000), deadline=None)
@given(
    st.sampled_from(IN_FILES),
    st.sampled_from(list(KEYS)),
    st.sampled_from([None, '"x" <= "r.y"']),
    st.lists(VALUES, max_size=40),
    st.lists(st.lists(VALUES, max_size=15), max_size=4),
    st.sampled_from([None, 1 << 14, 1 << 20]),
    st.sampled_from([INNER, OUTER, SEMI, ANTI]),
)
def test_every_method_answers_like_a_relation_in_memory(
    method, keys, residual, relation, batches, n_bytes, kind
) -> None:
    spec = LookupJoinSpec(KEYS[keys], residual, method=method, kind=kind, is_hinted=True)
    places = RelationPlaces(None if n_bytes is None else MemoryBudget.of(n_bytes, Path("/tmp")))
    rows = relation_of(relation)
    joins = [LookupJoin(spec, STREAM, each) for each in (rows, places(spec, RelationParts.of(rows)))]
    for rows in batches:
        one, other = (join.process([batch_of(rows)], 0) for join in joins)
        assert other.equals(one)
        assert other.schema == one.schema
        parts = pa.concat_tables([one.slice(0, 0), *joins[1].parts([batch_of(rows)], 0)])
        assert sorted(map(str, parts.to_pylist())) == sorted(map(str, one.to_pylist()))


def many(n_rows: int = 4000) -> RelationParts:
    rng = np.random.default_rng(1)
    return RelationParts.of(pa.table({"r.k": rng.permutation(n_rows), "r.y": rng.integers(0, 9, n_rows)}))


def cut(method: str, directory: Path) -> SegmentedLookup:
    parts = many()
    return segment_relation(method, parts, ("r.k",), survey(parts, ("r.k",)), MemoryBudget.of(1 << 16, directory))


@pytest.mark.parametrize("method", [PARTITIONED_HASH, PARTITIONED_RANGE])
def test_no_segment_is_read_twice_in_a_step_nor_while_it_is_in_memory(method: str, tmp_path: Path) -> None:
    lookup = cut(method, tmp_path)
    limit = (1 << 15) // 4
    assert len(lookup.file) > 4
    for step in range(10):
        before, cached = lookup.file.n_reads.copy(), set(lookup.cached)
        keys = np.random.default_rng(step).integers(0, 4000, 300)
        assert sum(len(places) for places, _ in lookup.find(keys)) == 300
        n_reads = lookup.file.n_reads - before
        assert n_reads.max() == 1
        assert not n_reads[sorted(cached)].any()
        assert 0 < lookup._cache.n_bytes <= limit


def test_what_arrives_often_stays_in_memory(tmp_path: Path) -> None:
    """Keys of one range, and a few of all others: after some steps only the others are read."""
    lookup = cut(PARTITIONED_RANGE, tmp_path)
    hot, before = np.arange(50), -1
    for step in range(20):
        before = int(lookup.file.n_reads[0])
        cold = np.random.default_rng(step).integers(1000, 4000, 5)
        assert sum(len(places) for places, _ in lookup.find(np.concatenate([hot, cold]))) == 55
    assert lookup.file.n_reads[0] == before
    assert lookup.layout.segments_of(hot).tolist() == [0] * 50


def test_frequencies_decay_once_an_epoch(tmp_path: Path) -> None:
    lookup = cut(PARTITIONED_RANGE, tmp_path)
    assert list(lookup.find(np.zeros(EPOCH - 1, np.int64)))
    assert lookup.frequencies[0] == EPOCH - 1
    assert list(lookup.find(np.zeros(1, np.int64)))
    assert lookup.frequencies[0] == pytest.approx(0.3 * EPOCH)


def test_mesh_reads_all_segments_once_a_step_and_goes_on_where_it_was(tmp_path: Path) -> None:
    lookup = cut(MESH, tmp_path)
    for n_steps in (1, 2, 3):
        assert sum(len(places) for places, _ in lookup.find(np.array([7, 7, 3999]))) == 3
        assert set(lookup.file.n_reads.tolist()) == {n_steps}
    assert lookup.cached == []


def test_nothing_of_the_file_is_left(tmp_path: Path) -> None:
    lookup = cut(PARTITIONED_HASH, tmp_path)
    assert sum(len(places) for places, _ in lookup.find(np.arange(10))) == 10
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="segments of a relation cannot be written to"):
        cut(PARTITIONED_HASH, tmp_path / "file")


@pytest.mark.parametrize("memory", [None, "64k"])
@pytest.mark.parametrize("method", IN_FILES)
def test_a_query_has_the_same_answer_by_every_hint(method: str, memory: str | None, tmp_path: Path) -> None:
    """Two tables, one by a number and one by a text, below a grouping that relies on the clock."""
    rng = np.random.default_rng(3)
    times = pa.array(np.sort(rng.integers(0, 10**7, 400)), pa.timestamp("us", "UTC"))
    stream = pa.table({"k": rng.integers(0, 300, 400), "t": rng.choice(["a", "b", "c"], 400), "ts": times})
    numbers = pa.table({"k": rng.integers(0, 300, 2000), "v": rng.integers(0, 5, 2000)})
    texts = pa.table({"t": ["a", "b", "b", None], "w": [1, 2, 3, 4]})
    text = (
        "SELECT {}R.v, COUNT(*) AS n, SUM(Q.w) AS w FROM s S, r R, q Q "
        "WHERE S.k = R.k AND S.t = Q.t GROUP BY R.v WINDOW 1 SECOND"
    )
    frames = {"s": stream, "r": sash.relation(numbers), "q": sash.relation(texts)}
    expected = sash.sql(text.format(""), **frames)
    sash.configure(memory=memory, spill=tmp_path)
    try:
        assert sash.sql(text.format(f"/*+ {method} */ "), **frames).equals(expected)
    finally:
        sash.configure()
    assert expected.num_rows > 100
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", IN_FILES)
def test_a_table_as_of_a_time_has_the_same_answer_by_every_hint(method: str) -> None:
    """In a file, when a row is valid is one more condition; a NULL is no bound there, too."""
    rng = np.random.default_rng(4)
    times = pa.array(np.sort(rng.integers(0, 10**7, 200)), pa.timestamp("us", "UTC"))
    stream = pa.table({"k": rng.integers(0, 20, 200), "ts": times})
    starts, ends = (pa.array(rng.integers(0, 10**7, 300), mask=rng.random(300) < 0.1) for _ in range(2))
    bounds = [each.cast(pa.timestamp("us", "UTC")) for each in (starts, ends)]
    prices = pa.table(
        {"k": rng.integers(0, 20, 300), "v": rng.integers(0, 99, 300), "since": bounds[0], "till": bounds[1]}
    )
    text = "SELECT {}S.k, R.v FROM s S [RANGE 1 SECOND], r FOR SYSTEM_TIME AS OF S.ts R WHERE S.k = R.k"
    frames = {"s": sash.stream(stream, time="ts"), "r": sash.relation(prices, valid_from="since", valid_to="till")}
    expected = sash.sql(text.format(""), **frames)
    assert expected.num_rows > 100
    assert sash.sql(text.format(f"/*+ {method} */ "), **frames).equals(expected)
