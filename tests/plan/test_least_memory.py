"""A limit on memory that is less than a plan needs is refused before anything runs, with the least that would do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.cli.main import main
from sash.errors import ResourceError
from sash.plan.least_memory import least_memory
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.store.byte_sizes import format_bytes
from sash.store.memory_budget import LEAST_BYTES
from sash.store.spill_files import LEAST_PAGE_BYTES

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us"))])
A = SCHEMA.empty_table()
JOIN = "SELECT A.v, B.s FROM a A, b B WHERE A.k = B.k WINDOW 10 MINUTES"
AGGREGATES = ", ".join(f"median(v + {number}) AS m{number}" for number in range(12))
MANY = f"SELECT k, {AGGREGATES} FROM a A [RANGE 1 HOUR] GROUP BY k"


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    yield
    sash.configure()


def plan_of(text: str) -> QueryPlan:
    return sash.query(text, a=A, b=A, c=A).plan


@pytest.mark.parametrize(
    "text",
    [
        JOIN,
        f"{JOIN} EMIT CHANGES",
        JOIN.replace("SELECT", "SELECT /*+ nta */ DISTINCT"),
        "SELECT k FROM a A [RANGE 1 HOUR] EXCEPT SELECT k FROM b B [RANGE 1 HOUR]",
        "SELECT A.v FROM a A [ROWS 10], b B [RANGE 1 HOUR], c C [RANGE 1 HOUR] WHERE A.k = B.k AND B.k = C.k",
        MANY,
    ],
)
def test_64_kib_are_enough_for_what_is_usual(text: str) -> None:
    assert LEAST_BYTES <= least_memory([Plan.alone(plan_of(text))]) < 1 << 16


def test_more_inputs_need_more() -> None:
    """A page of each but one, and as much to know of them by heart."""

    def least(n_inputs: int) -> int:
        names = [f"{alias}" for alias in "ABCDEFGH"[:n_inputs]]
        keys = " AND ".join(f"{one}.k = {other}.k" for one, other in pairwise(names))
        text = f"SELECT A.v FROM {', '.join(f'a {name}' for name in names)} WHERE {keys} WINDOW 1 MINUTE"
        return least_memory([Plan.alone(plan_of(text))])

    assert [least(n) for n in (3, 5, 8)] == [LEAST_BYTES, 4 * LEAST_PAGE_BYTES * 8, 7 * LEAST_PAGE_BYTES * 8]


def test_more_aggregates_need_more() -> None:
    few = MANY.replace(AGGREGATES, "count(*) AS n")
    assert least_memory([Plan.alone(plan_of(few))]) < least_memory([Plan.alone(plan_of(MANY))])


@pytest.mark.slow
def test_a_query_is_refused_and_runs_with_the_least_that_would_do() -> None:
    least = least_memory([Plan.alone(plan_of(MANY))])
    assert least > LEAST_BYTES
    sash.configure(memory="16k")
    told = f"the limit on memory is 16 KiB, but the query needs at least {format_bytes(least)}; raise it"
    for start in (sash.query, sash.sql, sash.explain):
        with pytest.raises(ResourceError, match=told):
            start(MANY, a=A)
    sash.configure(memory=least)
    assert sash.sql(MANY, a=A).num_rows == 0


@pytest.mark.slow
def test_queries_of_a_session_need_it_together() -> None:
    session = sash.Session(memory=least_memory([Plan.alone(plan_of(MANY))]))
    session.stream("a", A)
    session.query("one", MANY)
    together = r"2 queries together need at least \d+ KiB; .*, or run fewer of them at once"
    with pytest.raises(ResourceError, match=together):
        session.query("two", MANY.replace("1 HOUR", "2 HOURS"))
    assert "Query one" in session.explain()


def test_a_script_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,v,s,ts\n1,1,x,2024-01-01T00:00:00\n")
    script = tmp_path / "script.sql"
    columns = "k BIGINT, v BIGINT, s VARCHAR, ts TIMESTAMP"
    script.write_text(
        f"CREATE STREAM a ({columns}) TIMESTAMP BY ts FROM '{tmp_path}/in' FORMAT csv;\n"
        f"CREATE QUERY many AS {MANY} INTO '{tmp_path}/out' FORMAT csv;\n"
    )
    monkeypatch.setattr("sys.argv", ["sash", "run", str(script), "--engine", "embedded", "--memory", "16k"])
    with pytest.raises(SystemExit):
        main()
    assert "the query needs at least" in " ".join(capsys.readouterr().err.split())
