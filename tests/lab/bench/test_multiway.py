"""`sash bench multiway`: joins of three streams and more give the same rows everywhere, and are measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import sash
from sash.errors import MismatchError, PlanError
from sash.lab.bench.agreement import Checksum, checksum_of
from sash.lab.bench.compare_engines import ENGINES, check_outputs, is_window_full
from sash.lab.bench.join_texts import builtin_sql, duckdb_sql, output_columns, select_list
from sash.lab.bench.many_streams import bench_multiway_embedded, bench_multiway_spark, combinations_per_tuple, share_of
from sash.lab.bench.other_engines import run_duckdb
from sash.lab.bench.picture import draw_multiway
from sash.lab.bench.show_multiway import show_multiway
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, generate_stream, write_workload

QUIET = Stages(is_quiet=True)
SMALL = JoinWorkload(3600, 100_000, rate=2000, n_keys=100, batch_rows=600, n_streams=3)


def rows_of(workload: JoinWorkload) -> dict[str, pa.Table]:
    return {name: pa.concat_tables(generate_stream(workload, name)) for name in workload.names}


def numbers(table: pa.Table, workload: JoinWorkload) -> list[tuple[int, ...]]:
    """Which rows each combination is made of, in order."""
    return sorted(zip(*(table[f"{name}_v"].to_pylist() for name in workload.names)))


def near_combinations(workload: JoinWorkload) -> list[tuple[int, ...]]:
    """The definition, by trying: equal keys, and any two times less than a window apart."""
    found: list[list[dict]] = [[]]
    for rows in rows_of(workload).values():
        listed = rows.set_column(2, "ts", rows["ts"].cast(pa.int64())).to_pylist()
        found = [
            [*before, row]
            for before in found
            for row in listed
            if all(row["k"] == each["k"] and abs(row["ts"] - each["ts"]) < workload.window_us for each in before)
        ]
    return sorted(tuple(row["v"] for row in combination) for combination in found)


@pytest.mark.slow
@pytest.mark.parametrize("n_streams", [3, 4])
def test_sash_and_duckdb_give_the_combinations_whose_times_are_all_near(tmp_path, n_streams):
    workload = JoinWorkload(60 * n_streams, 10_000, rate=1000, n_keys=3, batch_rows=40, n_streams=n_streams)
    write_workload(workload, tmp_path / "streams")
    run_duckdb(workload, tmp_path / "streams", tmp_path / "duckdb")
    text = f"SELECT {select_list(workload)} FROM {', '.join(workload.names)} WHERE {workload.keys_are_equal}"
    changes = sash.sql(f"{text} WINDOW 10 MILLISECONDS", **rows_of(workload))
    expected = near_combinations(workload)
    assert len(expected) > 300
    assert numbers(changes, workload) == expected
    assert numbers(pq.read_table(tmp_path / "duckdb"), workload) == expected


def test_a_tuple_completes_as_many_combinations_as_foretold():
    rows = rows_of(replace(SMALL, n_tuples=36_000))
    changes = sash.sql(f"{SMALL.question}", **rows)
    assert combinations_per_tuple(SMALL) == 4
    assert changes.num_rows / 36_000 == pytest.approx(4, rel=0.1)


def test_a_share_keeps_the_seconds_and_the_combinations():
    whole = JoinWorkload(720_000, 10_000_000, 10_000, 10_000, batch_rows=30_000, n_streams=3)
    part = share_of(whole, 0.1, 12_000)
    assert (part.n_tuples, part.rate, part.keys, part.batch_rows) == (72_000, 1000, 1000, 12_000)
    assert part.duration_us == whole.duration_us
    assert combinations_per_tuple(part) == combinations_per_tuple(whole) == 100
    assert is_window_full(part)
    assert is_window_full(whole)
    assert not is_window_full(replace(whole, n_tuples=300_000))
    with pytest.raises(PlanError, match="the share is 0, but must be above 0 and at most 1"):
        share_of(whole, 0, 12_000)


def test_sparks_cascade_leaves_one_time_with_a_watermark_to_each_join():
    """A second one would be refused; the times of the last stream and of `a` are passed on as they are."""
    sql = builtin_sql(replace(SMALL, n_streams=4))
    assert sql.count("JOIN") == 3
    hidden = [name for name in "abcd" if f"timestamp_micros(unix_micros({name}.ts)) AS {name}_ts" in sql]
    assert hidden == ["b", "c"]
    assert sql.count("INTERVAL '100000 microseconds'") == 2 * (1 + 2 + 3)


def test_checksums_of_parts_add_up():
    table, columns = pa.table({"k": [1, 2, 3, 3]}), {"k": pa.int64()}
    parts = [checksum_of("FROM part", columns, part=table.slice(low, 2)) for low in (0, 2)]
    assert sum(parts, Checksum(0, 0, 0)) == checksum_of("FROM part", columns, part=table)
    assert parts[0] != parts[1]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory) -> dict:
    return bench_multiway_embedded(SMALL, tmp_path_factory.mktemp("embedded"), QUIET)


@pytest.mark.slow
def test_in_this_process_every_figure_is_told(embedded):
    facts = json.loads(json.dumps(embedded))
    assert facts["answer"]["rows"] > 10_000
    assert facts["window_is_full"]
    assert facts["workload"]["combinations_per_tuple"] == 4
    ours, theirs = facts["engines"]["sash"], facts["engines"]["duckdb"]
    assert [batch["n_rows"] for batch in ours["batches"]] == SMALL.batches == [600] * 6
    assert theirs["batches"][0]["n_changes"] == facts["answer"]["rows"]
    assert 0 < facts["answer"]["rows"] - sum(batch["n_changes"] for batch in ours["batches"]) < 100
    assert ours["state_rows"] >= 3 * 200
    for told in (ours, theirs):
        assert told["cpu_seconds"] >= sum(batch["cpu_seconds"] for batch in told["batches"]) > 0
        assert told["steady_tuples_per_cpu_second"] > 0


@pytest.mark.slow
def test_answers_that_differ_are_an_error(tmp_path, monkeypatch):
    def first_row(workload, files, selected=None):
        return f"{duckdb_sql(workload, files, selected)} LIMIT 1"

    monkeypatch.setattr("sash.lab.bench.many_streams.duckdb_sql", first_row)
    with pytest.raises(MismatchError, match=r"`sash` gives [\d,]+ rows, .*, `duckdb` gives 1 rows"):
        bench_multiway_embedded(SMALL, tmp_path, QUIET, n_runs=1)


@pytest.mark.deep
def test_on_spark_a_cascade_gives_the_same_rows(spark, tmp_path, embedded):
    facts = bench_multiway_spark(SMALL, tmp_path, list(ENGINES), spark, QUIET)
    assert facts["answer"]["rows"] == check_outputs(SMALL, tmp_path, ["duckdb"]).n_rows
    assert facts["answer"]["rows"] == embedded["answer"]["rows"]
    for engine in ("sash", "builtin"):
        told = facts["engines"][engine]
        assert [batch["n_rows"] for batch in told["batches"]] == SMALL.batches
        assert told["state_rows"] > 0
        assert told["cpu_seconds"] is None or told["cpu_seconds"] > 0
    shown = show(tmp_path, {"embedded": embedded, "spark": facts})
    assert "Spark's join" in shown
    assert "CPU s" in shown


@pytest.mark.slow
def test_what_did_not_run_is_not_shown(embedded, tmp_path):
    shown = show(tmp_path, {"embedded": embedded, "spark": None})
    assert "3 streams of 2,000 tuples/s each: a tuple completes 4 combinations" in shown
    assert "Spark" not in shown


def show(directory: Path, facts: dict) -> str:
    draw_multiway(facts, ENGINES, directory / "multiway.png")
    assert (directory / "multiway.png").read_bytes().startswith(b"\x89PNG")
    with open(directory / "shown", "w") as file:
        show_multiway(facts, ENGINES, Console(width=120, file=file))
    return (directory / "shown").read_text()


def test_columns_are_those_of_all_streams():
    assert list(output_columns(SMALL)) == ["k", "a_v", "a_ts", "b_v", "b_ts", "c_v", "c_ts"]
