"""A relation 20 times as large as memory is joined as DuckDB joins it, by every method and however rows are cut."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("method", ["partitioned_hash", "partitioned_range", "mesh"])
def test_many_rows_at_once_share_what_is_read(method: str, tmp_path: Path) -> None:
    """However many partners they have, which go to disk if they are too many for memory."""
    relation = large_relation(20 * MEMORY, np.random.default_rng(SEED))
    stream = stream_into(relation, 2000, False, np.random.default_rng(SEED))
    sash.configure(memory=MEMORY, spill=tmp_path)
    query = sash.query(TEXT.format(f"/*+ {method} */"), s=stream, r=sash.relation(relation))
    n_found = query.push("s", stream).num_rows + query.finish().num_rows
    assert n_found == len(joined(stream, relation))
    assert query.arena is not None
    (lookup,) = {each for each in query.arena.budget._shared.values() if isinstance(each, SegmentedLookup)}
    assert lookup.file.n_reads.max() <= 2000 // 200


CHILD = """
import os, sys
import numpy as np, pyarrow as pa
import sash
from sash.lab.bench.process_facts import PeakWatch, resident_bytes

path, spill, memory, hint = sys.argv[1:]
text = f"SELECT {hint} S.k, R.v, R.p FROM s S [RANGE 1 SECOND] JOIN r R ON S.k = R.k"
sash.configure(memory=int(memory), spill=spill)

def look_up(relation, keys):
    times = pa.array(np.arange(len(keys)) * 1000, pa.timestamp("us"))
    stream = pa.table({"k": keys, "ts": times})
    query = sash.query(text, s=sash.stream(stream.slice(0, 0), time="ts"), r=sash.relation(relation))
    n_found = sum(query.push("s", stream.slice(first, 500)).num_rows for first in range(0, len(keys), 500))
    return n_found + query.finish().num_rows

relation = pa.ipc.open_stream(pa.memory_map(path)).read_all()
look_up(relation.slice(0, 1000), np.arange(1000))
idle = resident_bytes([os.getpid()])
with PeakWatch(lambda: [os.getpid()]) as watch:
    watch.begin(idle)
    n_found = look_up(relation, np.random.default_rng(1).integers(0, relation.num_rows, 3000))
print(n_found, watch.peak_bytes)
"""


@pytest.mark.deep
@pytest.mark.parametrize("hint", ["/*+ partitioned_hash */"])
def test_memory_stays_within_the_limit_if_the_table_is_mapped(hint: str, tmp_path: Path) -> None:
    """Beside it, what reading, sorting and Python take: less than 150 MiB, for a table of 320."""
    limit, n_rows = 16 << 20, 20 * (16 << 20) // 128
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
    keys = np.random.default_rng(2).permutation(n_rows)
    with pa.OSFile(str(tmp_path / "r.arrow"), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for first in range(0, n_rows, 1 << 16):
            own = keys[first : first + (1 << 16)]
            writer.write_table(pa.table([own, own * 3, ["x" * 108] * len(own)], schema=schema))
    command = [sys.executable, "-c", CHILD, str(tmp_path / "r.arrow"), str(tmp_path), str(limit), hint]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(told[0]) == 3000
    assert int(told[1]) < limit + (150 << 20)
