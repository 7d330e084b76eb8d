"""Constants are worked out apart before DuckDB does it here; what is as large as it says, or not constant, is left
alone.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import sash
from sash.sql import constant_worker, constants
from sash.sql.constants import MAX_BYTES, find_excess
from sash.sql.parse import parse_query


def excess_of(text: str) -> str | None:
    tree = parse_query(f"SELECT {text} AS x FROM temperature").tree
    excess = find_excess(tree.expressions[0].unalias())
    return excess and excess[1]


@pytest.mark.parametrize(
    "text",
    [
        "repeat('x', 1000000)",
        "repeat(v, 200000000)",
        "rpad(v, 5, 'x')",
        "range(100000)",
        "range(DATE '2020-01-01', DATE '2026-01-01', INTERVAL 1 DAY)",
        "list_transform(vs, lambda v: repeat('y', v))",
        "format('{:20d} 2026', 1)",
        "replace('hello', 'l', 'LL')",
        "repeat(NULL, 200000000)",
        "repeat('x', 'no number')",
        "no_such_function(1)",
        "[repeat('y', 3) FOR n IN range(10) IF n > 3]",
        "levenshtein(lower('KITTEN'), 'sitting')",
    ],
)
def test_what_is_small_or_no_constant_is_left_to_duckdb(text: str) -> None:
    assert excess_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "repeat('x', 1000001)",
        "v || lpad('x', 2000000, 'y')",
        "repeat('x', 600000) || repeat('y', 600000)",
        "replace(repeat('x', 2000), 'x', repeat('y', 2000))",
        "list_resize([1], 2000000)",
        "generate_series(0, 4000000, 2)",
        "[repeat('y', 100000) FOR n IN range(100)]",
        "[repeat('y', 100000) FOR n IN range(100) IF n > 3]",
        "list_transform(vs, lambda v: repeat('y', 2000000))",
        "array_to_string(range(1000), repeat('x', 10000))",
        "printf('%2000000d', 1)",
        "printf('%*s', 2000000, 'x')",
        "format('{:>{}}', 'x', 2000000)",
        "length(repeat('x', 2000000))",
        "'x'.repeat(2000000)",
    ],
)
def test_what_is_large_is_measured(text: str) -> None:
    assert f"make it at most {MAX_BYTES:,}" in str(excess_of(text))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "repeat('x', 2000000000)",
        "printf('%*s', 2000000000, 'x')",
        "generate_series(0, 4000000000000, 2)",
        "list_aggregate(range(100000), 'string_agg', repeat('x', 10000))",
        "list_reduce(['x' FOR n IN range(38)], lambda a, b: a || a)",
        "levenshtein(repeat('a', 500000), repeat('b', 400000))",
    ],
)
def test_what_takes_too_much_memory_or_time_is_ended(text: str) -> None:
    assert excess_of(text) == (
        "it takes more than 2 seconds or 512 MB to work this constant out; write its value, or make it smaller"
    )
    assert excess_of("lower('X')") is None, "the next one is worked out as ever"


def test_the_part_that_takes_too_much_is_underlined() -> None:
    rows = pa.table({"ts": pa.array([1], pa.timestamp("us")), "v": ["a"]})
    with pytest.raises(sash.PlanError) as error:
        sash.sql("SELECT v || repeat('x', 2000000000) AS x FROM s", s=rows)
    assert str(error.value).splitlines()[-1].count("^") == len("repeat('x', 2000000000)")


def test_a_worker_that_somebody_has_ended_is_started_again() -> None:
    worker = constants._Worker()
    assert worker.measure(["lower('X')"]) == [1]
    assert worker._process is not None
    worker._process.kill()
    worker._process.wait()
    assert worker.measure(["lower('XY')"]) == [2]
    worker._end()


def test_where_no_process_can_be_started_all_is_left_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants.sys, "executable", "/nowhere/python")
    assert constants._Worker().measure(["lower('X')"]) == []
    monkeypatch.undo()
    monkeypatch.setattr(constant_worker, "__file__", "/nowhere/worker.py")
    assert constants._Worker().measure(["lower('X')"]) == []


def test_the_limit_of_duckdb_does_not_hold_for_constants() -> None:
    """Why there is a process for them: if this fails, DuckDB's own limit can be used instead."""
    with duckdb.connect(config={"memory_limit": "1MB"}) as connection:
        assert connection.execute("SELECT length(repeat('x', 5000000))").fetchall() == [(5000000,)]
