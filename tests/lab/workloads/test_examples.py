"""The scripts over three and four streams answer as DuckDB does, told every pair's condition in plain SQL."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

from sash.embedded.run_to_end import run_files
from sash.io.sink import read_sink
from sash.lab.workloads.workload_registry import make_workload
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script

EXPECTED = {
    "stores": """
        SELECT A.ItemNum, A.ItemName, A.Quantity + B.Quantity + C.Quantity AS sold, 1,
            greatest(A.ts, B.ts, C.ts), least(A.ts, B.ts, C.ts) + INTERVAL 1 HOUR
        FROM store1 A, store2 B, store3 C
        WHERE A.ItemNum = B.ItemNum AND B.ItemNum = C.ItemNum
            AND A.ts < B.ts + INTERVAL 1 HOUR AND B.ts < A.ts + INTERVAL 1 HOUR
            AND B.ts < C.ts + INTERVAL 1 HOUR AND C.ts < B.ts + INTERVAL 1 HOUR
            AND A.ts < C.ts + INTERVAL 1 HOUR AND C.ts < A.ts + INTERVAL 1 HOUR
    """,
    "cameras": """
        SELECT A.ObjID, A.ts, B.ts, C.ts, 1, greatest(A.ts, B.ts, C.ts),
            least(A.ts + INTERVAL 40 SECONDS, B.ts + INTERVAL 30 SECONDS, C.ts + INTERVAL 40 SECONDS)
        FROM camera1 A, camera2 B, camera3 C
        WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID
            AND A.ts < B.ts + INTERVAL 20 SECONDS AND B.ts < A.ts + INTERVAL 20 SECONDS
            AND B.ts < C.ts + INTERVAL 30 SECONDS AND C.ts < B.ts + INTERVAL 30 SECONDS
            AND A.ts < C.ts + INTERVAL 40 SECONDS AND C.ts < A.ts + INTERVAL 40 SECONDS
    """,
    "network": """
        SELECT C.pid, C.size, C.ts, E.ts, 1, greatest(C.ts, B.ts, E.ts),
            least(C.ts + INTERVAL 400 MILLISECONDS, B.ts + INTERVAL 200 MILLISECONDS, E.ts + INTERVAL 400 MILLISECONDS)
        FROM customer C, backbone B, exchange E
        WHERE C.pid = B.pid AND B.pid = E.pid
            AND C.ts < B.ts + INTERVAL 200 MILLISECONDS AND B.ts < C.ts + INTERVAL 200 MILLISECONDS
            AND B.ts < E.ts + INTERVAL 200 MILLISECONDS AND E.ts < B.ts + INTERVAL 200 MILLISECONDS
    """,
    "path": """
        SELECT A.ObjID, 'ABCD', A.ts, D.ts, 1, D.ts,
            least(A.ts + INTERVAL 45 SECONDS, B.ts + INTERVAL 35 SECONDS, C.ts + INTERVAL 30 SECONDS,
                D.ts + INTERVAL 45 SECONDS)
        FROM gate_a A, gate_b B, gate_c C, gate_d D
        WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID AND C.ObjID = D.ObjID
            AND A.ts <= B.ts AND B.ts < A.ts + INTERVAL 10 SECONDS
            AND B.ts <= C.ts AND C.ts < B.ts + INTERVAL 20 SECONDS
            AND C.ts <= D.ts AND D.ts < C.ts + INTERVAL 15 SECONDS
        UNION ALL
        SELECT A.ObjID, 'DCBA', D.ts, A.ts, 1, A.ts,
            least(A.ts + INTERVAL 45 SECONDS, B.ts + INTERVAL 35 SECONDS, C.ts + INTERVAL 30 SECONDS,
                D.ts + INTERVAL 45 SECONDS)
        FROM gate_a A, gate_b B, gate_c C, gate_d D
        WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID AND C.ObjID = D.ObjID
            AND D.ts <= C.ts AND C.ts < D.ts + INTERVAL 15 SECONDS
            AND C.ts <= B.ts AND B.ts < C.ts + INTERVAL 20 SECONDS
            AND B.ts <= A.ts AND A.ts < B.ts + INTERVAL 10 SECONDS
    """,
}
"""By script, all combinations with their `_op`, `_ts` and `_expires`. A row lives for the longest window that its
stream takes part in; a pair without one has the sum of those in between.
"""
MADE = {"network": ["n_links=3"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_scripts_give_every_combination_and_no_other(name: str, example: Callable[[str], str]) -> None:
    (run,) = bind_script(example(name)).runs()
    tally = run_files(Job.alone(run), lambda name, tally: None)[run.name]
    assert tally.n_late == tally.n_rejected == 0
    assert tally.n_read == tally.n_accepted > 7000
    changes = rows_of(read_sink(run.sink, run.plan.schema))
    assert changes == expected_rows(name, run)
    assert len(changes) > 1000


@pytest.mark.parametrize("name", EXPECTED)
def test_scripts_ask_what_their_workload_asks(name: str, example: Callable[[str], str]) -> None:
    asked = example(name).split("CREATE QUERY")[1].split("AS\n", 1)[1].split("INTO")[0]
    assert asked.split() == make_workload(name, {}, MADE.get(name, [])).question.split()


def expected_rows(name: str, run: QueryRun) -> list[tuple]:
    """What DuckDB makes of all files at once."""
    database = duckdb.connect()
    for stream, source in run.streams.items():
        database.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{source.path}/*.parquet')")
    return sorted(database.execute(EXPECTED[name]).fetchall())


def rows_of(changes: pa.Table) -> list[tuple]:
    return sorted(tuple(row.values()) for row in changes.to_pylist())
