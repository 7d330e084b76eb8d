"""A relation 20 times as large as memory is joined as DuckDB joins it, by every method and however rows are cut."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.operators.segmented_lookup import SegmentedLookup
from support.large_relations import cut, joined, large_relation, stream_into
from support.profiles import SEED, everyday, volume

MEMORY = 1 << 16
HINTS = ["", "/*+ partitioned_hash */", "/*+ partitioned_range */", "/*+ mesh */", "/*+ inl */", "/*+ replicated */"]
TEXT = "SELECT {} S.n, R.v, R.t FROM s S [RANGE 1 MINUTE] JOIN r R ON S.k = R.k"


@cache
def case(is_skewed: bool) -> tuple[pa.Table, pa.Table, list[tuple]]:
    rng = np.random.default_rng(SEED)
    relation = large_relation(20 * MEMORY, rng)
    assert relation.nbytes >= 20 * MEMORY
    stream = stream_into(relation, 2000, is_skewed, rng)
    return stream, relation, joined(stream, relation)


CASES = [(hint, keys) for hint in HINTS for keys in ("zipf", "uniform")]
SLOW = {("/*+ mesh */", "zipf"), ("/*+ replicated */", "uniform")}


@pytest.mark.parametrize("hint_and_keys", everyday(set(CASES) - SLOW, CASES), ids=str)
def test_it_is_what_duckdb_joins(hint_and_keys: tuple[str, str], tmp_path: Path) -> None:
    hint, keys = hint_and_keys
    stream, relation, expected = case(keys == "zipf")
    rng = np.random.default_rng(SEED)
    sash.configure(memory=MEMORY, spill=tmp_path)
    try:
        for _ in range(volume(dev=1, ci=1, deep=30)):
            query = sash.query(
                TEXT.format(hint), s=sash.stream(stream.slice(0, 0), time="ts"), r=sash.relation(relation)
            )
            found = [query.push("s", rows) for rows in cut(stream, rng)] + [query.finish()]
            changes = pa.concat_tables(found)
            assert sorted(zip(*(changes.column(name).to_pylist() for name in "nvt"), strict=True)) == expected
            _check_reads(query, is_replicated="replicated" in hint)
    finally:
        sash.configure()


def _check_reads(query: sash.Query, is_replicated: bool) -> None:
    """What is in memory of the relation is within its share, an eighth of the limit; a hint may ask for all of it."""
    assert query.arena is not None
    budget = query.arena.budget
    shared = [each for each in budget._shared.values() if isinstance(each, SegmentedLookup)]
    assert len(shared) == (not is_replicated)
    for each in shared:
        assert sum(int(each.sizes[number]) for number in each.cached) <= MEMORY // 8
        assert each.file.sizes.max() <= MEMORY // 8 or len(each.file) == 1
