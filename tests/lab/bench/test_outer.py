"""`sash bench outer`: engines agree on who met whom, and on who met nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.errors import MismatchError, PlanError
from sash.lab.bench.agreement import check_agreement
from sash.lab.bench.compare_engines import ENGINES, bench_join
from sash.lab.bench.embedded_join import SYSTEM_COLUMNS, bench_embedded_join
from sash.lab.bench.join_texts import builtin_sql, duckdb_sql, output_columns, sash_sql, told_by_all
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, write_workload

QUIET = Stages(is_quiet=True)
SMALL = JoinWorkload(3000, 20_000, rate=10_000, n_keys=300, payload="wide", batch_rows=500, is_outer=True)


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["none", "wide"])
def test_in_this_process_sash_and_duckdb_give_the_same_rows(tmp_path: Path, payload: str) -> None:
    workload = JoinWorkload(3000, 20_000, rate=10_000, n_keys=300, payload=payload, batch_rows=500, is_outer=True)
    facts = json.loads(json.dumps(bench_embedded_join(workload, tmp_path, QUIET, n_runs=1)))
    assert facts["benchmark"] == "embedded outer"
    assert set(facts["ratios"]) == {"sash/duckdb", "sash/duckdb_ordered"}
    rows = pq.read_table(tmp_path / "sash.parquet")
    n_unmet = rows.column("b_v").null_count
    assert 100 < n_unmet < rows.num_rows - 100
    assert facts["answer"]["rows"] == rows.num_rows


@pytest.mark.slow
def test_a_row_that_comes_too_late_is_a_mismatch(tmp_path: Path) -> None:
    """Without a partner, and not when its window is over."""
    bench_embedded_join(SMALL, tmp_path, QUIET, n_runs=1)
    rows, columns = pq.read_table(tmp_path / "sash.parquet"), output_columns(SMALL) | SYSTEM_COLUMNS
    times = rows.column("_ts").to_pylist()
    unmet = rows.column("b_v").to_pylist().index(None)
    times[unmet] = max(times)
    place = rows.column_names.index("_ts")
    pq.write_table(
        rows.set_column(place, "_ts", pa.array(times, rows.schema.field("_ts").type)), tmp_path / "late.parquet"
    )
    with pytest.raises(MismatchError, match="only `late`, not `duckdb`"):
        check_agreement({"late": [tmp_path / "late.parquet"], "duckdb": [tmp_path / "duckdb.parquet"]}, columns)


def test_only_rows_that_are_due_for_everyone_are_compared(tmp_path: Path) -> None:
    write_workload(SMALL, tmp_path / "streams")
    condition, schema = told_by_all(SMALL, tmp_path / "streams"), pa.schema([("b_v", pa.int64()), ("a_ts", pa.int64())])
    assert condition is not None
    due = int(condition.split()[-1])
    for name, rows in {
        "one": [(1, due + 9), (None, due)],
        "other": [(1, due + 9), (None, due), (None, due + 1)],
    }.items():
        table = pa.table(list(zip(*rows)), schema=schema)
        pq.write_table(table, tmp_path / f"{name}.parquet")
    outputs = {name: [tmp_path / f"{name}.parquet"] for name in ("one", "other")}
    columns = {"b_v": pa.int64(), "a_ts": pa.int64()}
    assert check_agreement(outputs, columns, condition).n_rows == 2
    with pytest.raises(MismatchError):
        check_agreement(outputs, columns)


def test_every_engine_is_asked_for_a_left_join(tmp_path: Path) -> None:
    write_workload(SMALL, tmp_path)
    for text in (sash_sql(SMALL), builtin_sql(SMALL), duckdb_sql(SMALL, tmp_path)):
        assert text.count("LEFT JOIN") == 1
    assert sash_sql(SMALL).endswith("EMIT FINAL")


def test_an_outer_join_is_of_two_streams() -> None:
    with pytest.raises(PlanError, match="`streams` is 3, but must be 2 in an outer join"):
        JoinWorkload(3000, 20_000, n_streams=3, is_outer=True)


@pytest.mark.deep
def test_all_engines_give_the_same_rows_on_spark(spark, tmp_path: Path) -> None:
    result = bench_join(SMALL, tmp_path, list(ENGINES), spark, QUIET)
    assert result.answer.n_rows > 1000
    assert result.facts()["benchmark"] == "outer"
    for engine in ("sash", "builtin"):
        assert [batch.n_rows for batch in result.measured[engine].batches] == SMALL.batches
