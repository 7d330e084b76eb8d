"""Tables that do not fit the memory of workers: cut once, mapped by all, and each group reads its own segments."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import sash
from sash.cost.lookup_cost import PARTITIONED_RANGE, REPLICATED
from sash.frames import table_catalog
from sash.io.sink import read_sink
from sash.operators.relation_cut import SegmentLayout
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script
from sash.spark import prepared_relation
from sash.spark.exchange import Message, Packer, message, split_by_group, to_all_groups
from sash.spark.group import Group
from sash.spark.machine_budget import MachineBudget
from sash.spark.packing import pack_frame
from sash.spark.place_tables import PlacedTables, place_tables
from sash.spark.spark_run import run_on_spark
from sash.spark.stage import GroupStage
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.store.keys import encode_keys
from support.large_relations import cut, joined, large_relation, stream_into
from support.profiles import SEED, everyday, volume

LIMIT, N_GROUPS = MachineBudget(1 << 16, 2), 4
HINTS = ["", "/*+ partitioned_hash */", "/*+ partitioned_range */", "/*+ mesh */", "/*+ inl */"]
TEXT = "SELECT {} S.n, R.v, R.t FROM s S [RANGE 1 MINUTE] JOIN r R ON S.k = R.k"


def tables(is_skewed: bool = True) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(SEED)
    relation = large_relation(20 << 16, rng)
    return stream_into(relation, 2000, is_skewed, rng), relation


def planned(text: str, stream: pa.Table, relation: pa.Table) -> tuple[Plan, dict[str, pa.Table]]:
    catalog, _, relations = table_catalog({"s": sash.stream(stream, time="ts"), "r": sash.relation(relation)})
    return Plan.alone(plan_query(bind(parse_query(text), catalog))), relations


def placed_in(directory: Path, text: str = TEXT, budget: MachineBudget = LIMIT, is_skewed: bool = True) -> PlacedTables:
    stream, relation = tables(is_skewed)
    plan, relations = planned(text, stream, relation)
    return place_tables(plan, relations, budget, N_GROUPS, directory)


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_relation, "_opened", {})
    monkeypatch.setattr(prepared_relation, "_caches", {})


@pytest.mark.parametrize("is_skewed", [True, False], ids=["zipf", "uniform"])
@pytest.mark.parametrize("hint", HINTS)
def test_each_group_reads_its_own_segments_and_none_twice(hint: str, is_skewed: bool, tmp_path: Path) -> None:
    stream, relation = tables(is_skewed)
    placed = placed_in(tmp_path, TEXT.format(hint), is_skewed=is_skewed)
    plan, (prepared,) = placed.plan, placed.prepared.values()
    assert plan.slots[0].input.partition == ("S.k",)
    pipeline = plan.fragment_pipeline(0, {}, placed.prepared)
    groups = [Group(plan, pipeline, 0, number, N_GROUPS) for number in range(N_GROUPS)]
    lookup = prepared.open()
    assert isinstance(lookup.layout, SegmentLayout)
    assert lookup.layout.n_groups == N_GROUPS
    found: list[tuple] = []
    ends = list(to_all_groups(message("complete", {"complete_us": None}), plan, N_GROUPS))
    for batch in (stream.slice(0, 900), stream.slice(900), None):
        packed = [] if batch is None else pack_frame(Packer(plan, "s", N_GROUPS))(iter(batch.to_batches()))
        messages = [Message(**row) for each in packed for row in each.to_pylist()] or ends
        for number, group in enumerate(groups):
            before = lookup.file.n_reads.copy()
            answers = list(group.step([each for each in messages if each.grp == number]))
            n_reads = lookup.file.n_reads - before
            assert n_reads.max() <= 1
            assert set(np.flatnonzero(n_reads)) <= set(lookup.layout.segments_in(number))
            changes = [each.table for each in answers if each.kind == "changes"]
            found += [row for each in changes for row in zip(*(each[name].to_pylist() for name in "nvt"), strict=True)]
    assert sorted(found) == joined(stream, relation)


def test_the_table_does_not_travel_with_the_stages(tmp_path: Path) -> None:
    placed = placed_in(tmp_path, TEXT.format(""))
    assert not placed.relations
    stage = GroupStage(placed.plan, dict(placed.relations), 0, N_GROUPS, LIMIT, placed=placed.told)
    assert len(cloudpickle.dumps(stage)) < 50_000
    assert stage._tables == placed.versions


def test_what_fits_travels_and_is_spread_as_ever(tmp_path: Path) -> None:
    placed = placed_in(tmp_path / "none", TEXT.format(""), MachineBudget(1 << 30, 2))
    assert (list(placed.relations), placed.prepared) == (["r"], {})
    assert placed.plan.slots[0].input.partition == ("S.k", "S.n")
    assert not (tmp_path / "none").exists()
    for budget in (MachineBudget(None, 2), MachineBudget(0, 2)):
        assert not placed_in(tmp_path / "none", TEXT.format(""), budget).prepared


def test_the_plan_is_the_same_however_its_streams_are_spread(tmp_path: Path) -> None:
    large, small = (placed_in(tmp_path, TEXT.format(""), budget).plan for budget in (LIMIT, MachineBudget(1 << 30, 2)))
    assert large.slots[0].input != small.slots[0].input
    assert (large.fingerprint, large.edition) == (small.fingerprint, small.edition)


def test_a_stream_that_is_grouped_stays_as_its_groups_need_it(tmp_path: Path) -> None:
    """Then all groups may read all segments."""
    text = "SELECT S.n, COUNT(*) AS c FROM s S [RANGE 1 MINUTE] JOIN r R ON S.k = R.k GROUP BY S.n"
    placed = placed_in(tmp_path, text)
    assert placed.plan.slots[0].input.partition == ("S.n",)
    (prepared,) = placed.prepared.values()
    layout = prepared.open().layout
    assert isinstance(layout, SegmentLayout)
    assert layout.n_groups == 1


def test_it_is_prepared_once_and_anew_if_that_was_damaged(tmp_path: Path) -> None:
    def times() -> list[int]:
        return [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]

    (first,) = placed_in(tmp_path, TEXT.format("")).prepared.values()
    before = times()
    assert len(before) == 2
    assert list(placed_in(tmp_path, TEXT.format("")).prepared.values()) == [first]
    assert times() == before
    data = bytearray(Path(first.path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(first.path).write_bytes(data)
    placed_in(tmp_path, TEXT.format(""))
    assert Path(first.path).read_bytes() != data
    other = placed_in(tmp_path, TEXT.format("/*+ inl */")).prepared.values()
    assert {path.stem for path in tmp_path.iterdir()} == {Path(each.path).stem for each in other}


@pytest.mark.parametrize(
    "values",
    [
        [pa.array(np.arange(-50, 50))],
        [pa.array(np.arange(100), pa.int16())],
        [pa.array(np.arange(100) / 3)],
        [pa.array([f"text {n}" for n in range(100)])],
        [pa.array(np.arange(100), pa.timestamp("us"))],
        [pa.array(np.arange(100)), pa.array([str(n % 7) for n in range(100)])],
    ],
)
def test_keys_are_in_the_groups_to_which_streams_are_spread(values: list[pa.Array]) -> None:
    from sash.operators.relation_cut import SegmentLayout
    from sash.store.keys import is_exact

    names = tuple(str(number) for number in range(len(values)))
    table = pa.table(values, names=list(names))
    layout = SegmentLayout(PARTITIONED_RANGE, N_GROUPS, is_exact(table.schema.types), (), ())
    for group, part in split_by_group(table, names, N_GROUPS):
        assert set(layout.groups_of(encode_keys(part, names)).tolist()) == {group}


SCRIPT = """
CREATE STREAM s (k BIGINT, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM '{root}/{stream}' FORMAT parquet;
CREATE TABLE r (k BIGINT, v BIGINT, t VARCHAR) FROM '{root}/r.parquet' FORMAT parquet;
CREATE QUERY q AS {text} INTO '{root}/{stream}.out' FORMAT parquet;
"""


def run_of(root: Path, stream: str, hint: str) -> QueryRun:
    (run,) = bind_script(SCRIPT.format(root=root, stream=stream, text=TEXT.format(hint))).runs()
    return run


@pytest.mark.parametrize("hint", everyday([HINTS[2], "/*+ replicated */"], [*HINTS, "/*+ replicated */"]))
def test_spark_joins_as_duckdb_does_however_rows_are_cut(hint: str, spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sash.memory", str(1 << 16))
    relation = tables()[1]
    pq.write_table(relation, tmp_path / "r.parquet")
    rng = np.random.default_rng(SEED)
    for number in range(volume(dev=1, ci=1, deep=30)):
        stream = tables(is_skewed=number % 2 == 0)[0]
        (tmp_path / str(number)).mkdir()
        for batch, rows in enumerate(cut(stream, rng)):
            path = tmp_path / str(number) / f"{batch}.parquet"
            pq.write_table(rows, path)
            os.utime(path, (1000 + batch, 1000 + batch))
        run = run_of(tmp_path, str(number), hint)
        run_on_spark([Job.alone(run)], session, lambda name, tally: None, 1)
        segments = [*Path(Job.alone(run).checkpoint).glob("relations/*.segments")]
        if "replicated" in hint:
            assert not segments
        else:
            assert [each.stat().st_size > 20 << 16 for each in segments] == [True]
            assert REPLICATED not in segments[0].with_suffix(".json").read_text()
        changes = read_sink(run.sink, run.plan.schema)
        found = sorted(zip(*(changes[name].to_pylist() for name in "nvt"), strict=True))
        assert found == joined(stream, relation), f"cut {number}, seed {SEED}"
