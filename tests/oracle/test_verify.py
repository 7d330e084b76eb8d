"""`sash.verify`: a right answer agrees, a wrong one is found and shown."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import sash
from sash.embedded.query import Query
from sash.testing import draw, stream_of

S = stream_of("""
    ts                  | k | v
    2026-01-01 00:00:01 | a | 1
    2026-01-01 00:00:02 | a | 2
    2026-01-01 00:00:05 | b | 3
""")
TEXT = "SELECT A.v, B.v AS w FROM s A, s B WHERE A.k = B.k AND A.v <= B.v WINDOW 3 SECONDS"


@pytest.fixture
def lose_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes runs lose their second change."""
    module = sys.modules["sash.oracle.verification"]  # `sash.verify` is the function
    run_tables = module.run_tables

    def run_badly(*arguments) -> tuple[pa.Table, Query]:
        changes, finished = run_tables(*arguments)
        return pa.concat_tables([changes.slice(0, 1), changes.slice(2)]), finished

    monkeypatch.setattr(module, "run_tables", run_badly)


def test_a_right_answer_agrees() -> None:
    found = sash.verify(TEXT, s=S)
    assert found
    assert (found.n_instants, found.n_interesting, found.n_read, found.n_changes) == (15, 15, 3, 4)
    assert found.n_rows == 18
    assert repr(found) == ("agrees at 15 of 15 instants; 3 rows read, 4 changes, 18 rows of answers compared")


@pytest.mark.usefixtures("lose_a_change")
def test_a_wrong_answer_is_found() -> None:
    found = sash.verify(TEXT, None, s=S)
    assert not found
    assert found.n_differing == 3
    assert found.differences[0].instant == "2026-01-01 00:00:02"
    assert draw(found.differences[0].rows).splitlines() == [
        "_is     | _times | v | w",
        "missing | 1      | 1 | 2",
    ]
    assert repr(found).splitlines() == [
        "differs at 3 of 15 instants (15 in all); 3 rows read, 3 changes, 18 rows of answers compared; "
        "first at 2026-01-01 00:00:02:",
        "_is     | _times | v | w",
        "missing | 1      | 1 | 2",
    ]


def test_instants_are_spread_evenly() -> None:
    found = sash.verify(TEXT, 4, s=S)
    assert (found.n_instants, found.n_interesting) == (4, 15)


def test_late_rows_are_not_in_either_answer() -> None:
    found = sash.verify("SELECT v FROM s [RANGE 1 SECOND]", s=sash.stream(S.take([2, 0, 1]), slack="1 second"))
    assert found
    assert (found.n_read, found.n_late) == (3, 2)


def test_relations_and_count_windows() -> None:
    text = "SELECT A.v, r.name FROM s A [ROWS 2], r WHERE A.k = r.k EMIT CHANGES"
    assert sash.verify(text, None, s=S, r=sash.relation(stream_of("k | name\na | ann")))


def test_lists_may_differ_in_last_digits_and_in_the_sign_of_zeros() -> None:
    """DuckDB rounds 0.7497499999999999, where the exact value rounds to 0.74975; and it may show -0.0."""
    rows = stream_of("""
        ts | k | v
        1  | a | 0.5
        1  | a | 0.75
        2  | b | -0.0
    """)
    calls = "quantile_cont(v, [0.1, 0.999]) AS q, list(v) AS l, {'m': median(v), 'all': [avg(v)]} AS s"
    assert sash.verify(f"SELECT k, {calls} FROM s GROUP BY k WINDOW 3 us", None, s=sash.stream(rows, time="ts"))


@pytest.mark.usefixtures("lose_a_change")
def test_lists_structs_and_maps_are_compared_and_shown() -> None:
    text = "SELECT [v, NULL] AS l, {'k': k, 'l': [{'v': v}]} AS s, MAP {'v': v} AS m, INTERVAL 1 DAY AS i FROM s"
    found = sash.verify(f"{text} [RANGE 2 SECONDS]", None, s=S)
    assert found.n_differing == 6
    assert found.differences[0].rows.to_pylist() == [
        {
            "_is": "missing",
            "_times": 1,
            "l": [2, None],
            "s": {"k": "a", "l": [{"v": 2}]},
            "m": [("v", 2)],
            "i": pa.scalar((0, 1, 0), pa.month_day_nano_interval()).as_py(),
        }
    ]


def test_no_rows() -> None:
    found = sash.verify(TEXT, s=S.slice(0, 0))
    assert found
    assert found.n_instants == 0


def test_mistakes_are_told() -> None:
    with pytest.raises(sash.PlanError, match="must be positive, not 0"):
        sash.verify(TEXT, 0, s=S)
    with pytest.raises(sash.BindError, match="there is no stream or table `s`"):
        sash.verify(TEXT, t=S)
    text = "SELECT v FROM s WHERE (k, v) IN (SELECT k, v FROM r WHERE r.v = s.v)"
    with pytest.raises(sash.PlanError, match="DuckDB cannot answer this query for comparison: Not implemented"):
        sash.verify(text, s=S, r=sash.relation(stream_of("k | v\na | 1")))


@pytest.mark.slow
def test_a_long_stream() -> None:
    """Answers are not worked out anew for every instant, which would take minutes here."""
    n_rows = 20_000
    times = pa.array(range(0, 10 * n_rows, 10), pa.timestamp("us"))
    rows = pa.table({"ts": times, "k": [row % 97 for row in range(n_rows)], "v": [row % 7 for row in range(n_rows)]})
    found = sash.verify("SELECT A.v FROM s A [RANGE 1 ms], s B [ROWS 50] WHERE A.k = B.k", s=rows)
    assert found
    assert found.n_instants == 100
    assert found.n_rows > 1000
