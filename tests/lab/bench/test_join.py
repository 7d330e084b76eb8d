"""`sash bench join`: engines agree, and it is noticed if they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import sash
from sash.errors import MismatchError, PlanError
from sash.lab.bench.agreement import check_agreement
from sash.lab.bench.compare_engines import COMPARED, ENGINES, JoinResult, bench_join, check_outputs, parse_engines
from sash.lab.bench.join_texts import output_columns, select_list
from sash.lab.bench.other_engines import run_duckdb
from sash.lab.bench.picture import draw_join
from sash.lab.bench.show_join import show_join
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, generate_stream, write_workload

QUIET = Stages(is_quiet=True)
SMALL = JoinWorkload(6000, 100_000, rate=10_000, n_keys=100, payload="wide", batch_rows=1000)


def only_ours(table: pa.Table, workload: JoinWorkload) -> pa.Table:
    return table.select(list(output_columns(workload))).combine_chunks()


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("a_v", "ascending"), ("b_v", "ascending")])


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["none", "wide", "5"])
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_duckdb_gives_what_sash_gives_in_this_process(tmp_path, payload, skew):
    workload = JoinWorkload(2000, 20_000, rate=10_000, n_keys=50, payload=payload, skew=skew, batch_rows=400)
    write_workload(workload, tmp_path / "streams")
    run_duckdb(workload, tmp_path / "streams", tmp_path / "duckdb")
    a, b = (pa.concat_tables(generate_stream(workload, stream)) for stream in "ab")
    changes = sash.sql(f"SELECT {select_list(workload)} FROM a, b WHERE a.k = b.k WINDOW 20 MILLISECONDS", a=a, b=b)
    assert set(changes["_op"].to_pylist()) == {1}
    ours, theirs = only_ours(changes, workload), pq.read_table(tmp_path / "duckdb")
    assert ours.num_rows > 1000
    assert in_order(ours).to_pylist() == in_order(theirs).to_pylist()


def test_the_edge_of_a_window_is_the_same(tmp_path):
    """Rows exactly one window apart do not meet; a microsecond less and they do."""
    workload = JoinWorkload(8, 10, n_keys=1, batch_rows=4)
    rows = {"k": [1, 1], "v": [0, 1]}
    a, b = (
        pa.table(rows | {"ts": pa.array(times).cast(pa.timestamp("us", "UTC"))}, workload.schema)
        for times in ([100, 120], [109, 110])
    )
    for name, table in (("a", a), ("b", b)):
        (tmp_path / "streams" / name).mkdir(parents=True)
        pq.write_table(table, tmp_path / "streams" / name / "0.parquet")
    run_duckdb(workload, tmp_path / "streams", tmp_path / "duckdb")
    changes = sash.sql(f"SELECT {select_list(workload)} FROM a, b WHERE a.k = b.k WINDOW 10 MICROSECONDS", a=a, b=b)
    assert list(zip(changes["a_v"].to_pylist(), changes["b_v"].to_pylist())) == [(0, 0)]
    assert pq.read_table(tmp_path / "duckdb").to_pylist() == only_ours(changes, workload).to_pylist()


@pytest.fixture(scope="module")
def measured(spark, tmp_path_factory) -> tuple[JoinResult, Path]:
    """All three engines over a small workload, and where their outputs are."""
    directory = tmp_path_factory.mktemp("join")
    return bench_join(SMALL, directory, list(ENGINES), spark, QUIET), directory


def test_all_engines_give_the_same_rows(measured):
    result, directory = measured
    assert result.answer.n_rows > 1000
    assert result.answer == check_outputs(SMALL, directory, ["duckdb"])
    assert list(result.measured) == list(ENGINES)


def test_engines_go_through_the_same_batches(measured):
    result, _ = measured
    for engine in ("sash", "builtin"):
        batches = result.measured[engine].batches
        assert [batch.n_rows for batch in batches] == SMALL.batches == [1000] * 6
        assert all(batch.seconds > 0 and batch.checkpoint_bytes for batch in batches)
        assert all(batch.n_store_bytes and batch.n_state_rows for batch in batches)
    sash_batches = result.measured["sash"].batches
    assert sum(batch.n_changes or 0 for batch in sash_batches) == result.answer.n_rows
    assert result.is_full


def test_the_result_is_json_with_every_figure(measured):
    facts = json.loads(json.dumps(measured[0].facts()))
    assert set(facts) == {"benchmark", "workload", "environment", "answer", "window_is_full", "engines", "ratios"}
    assert facts["workload"]["n_keys"] == 100
    not_everywhere = {"steady_tuples_per_cpu_second"}
    assert set(facts["ratios"]["sash/builtin"]) | not_everywhere == set(COMPARED)
    assert set(facts["ratios"]["sash/duckdb"]) == {"tuples_per_second", "steady_tuples_per_second"}
    for told in facts["engines"].values():
        assert {"first_batch_seconds", "background_bytes", "batches", *COMPARED} <= set(told)


def test_the_result_is_drawn_and_shown(measured, tmp_path):
    facts = measured[0].facts()
    draw_join(facts, ENGINES, tmp_path / "join.png")
    assert (tmp_path / "join.png").read_bytes().startswith(b"\x89PNG")
    console = Console(width=100, record=True, file=open(tmp_path / "shown", "w"))  # noqa: SIM115
    show_join(facts, ENGINES, console)
    console.file.close()
    shown = console.export_text()
    assert "tuples/s, steady" in shown
    assert "÷ Spark's join" in shown
    assert "not yet full" not in shown


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_changed_row_is_a_mismatch(measured, engine):
    _, directory = measured
    columns = output_columns(SMALL)
    outputs = {name: sorted((directory / name).rglob("[!_.]*.parquet")) for name in ENGINES}
    victim = next(path for path in outputs[engine] if pq.read_metadata(path).num_rows)
    table = pq.read_table(victim, partitioning=None)
    changed = table.set_column(table.column_names.index("b_v"), "b_v", pa.array([-7, *table["b_v"].to_pylist()[1:]]))
    copy = directory / f"changed-{engine}.parquet"
    pq.write_table(changed, copy)
    outputs[engine] = [copy if path == victim else path for path in outputs[engine]]
    with pytest.raises(MismatchError) as error:
        check_agreement(outputs, columns)
    assert f"only `{engine}`" in str(error.value)
    assert "b_v = -7" in str(error.value)


def test_a_row_too_many_or_none_at_all_is_a_mismatch(tmp_path):
    columns = {"k": pa.int64()}
    pq.write_table(pa.table({"k": [1, 2, 2]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"k": [2, 1]}), tmp_path / "other.parquet")
    one, other = [tmp_path / "one.parquet"], [tmp_path / "other.parquet"]
    with pytest.raises(MismatchError, match=r"`x` gives 3 rows.*`y` gives 2 rows(.|\n)*only `x`, not `y`: k = 2"):
        check_agreement({"x": one, "y": other}, columns)
    with pytest.raises(MismatchError, match="`y` gives 0 rows"):
        check_agreement({"x": one, "y": []}, columns)
    assert check_agreement({"x": one, "y": one}, columns).n_rows == 3
    assert check_agreement({"x": [], "y": []}, columns).n_rows == 0


def test_at_most_three_rows_are_shown(tmp_path):
    pq.write_table(pa.table({"k": list(range(10))}), tmp_path / "one.parquet")
    with pytest.raises(MismatchError) as error:
        check_agreement({"x": [tmp_path / "one.parquet"], "y": []}, {"k": pa.int64()})
    assert len(str(error.value).splitlines()) == 4


def test_engines_are_named_in_any_order_and_misspellings_refused():
    assert parse_engines("duckdb, sash") == ["sash", "duckdb"]
    with pytest.raises(PlanError, match=r"there is no engine `duck`; did you mean `duckdb`\?"):
        parse_engines("sash,duck")
    with pytest.raises(PlanError, match="no engine is named"):
        parse_engines(" ")
