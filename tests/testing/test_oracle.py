"""The snapshot oracle: right changes pass, and wrong ones are caught and told."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sash
from sash.testing import (
    Case,
    answer_at,
    assert_changes,
    assert_snapshot,
    bind_frames,
    evaluate,
    interesting_instants,
    snapshot,
    stream_of,
)
from sash.testing.oracle import check_snapshot
from sash.testing.reference import row_key
from sash.testing.strategies import cases

S = stream_of("""
    ts | k | v
    1  | a | 1
    2  | a | 2
    5  | b | 3
""")
TEXT = "SELECT A.v, B.v AS w FROM s A, s B WHERE A.k = B.k AND A.v <= B.v WINDOW 3 us"
FRAMES = {"s": sash.stream(S, time="ts")}


def test_one_sql_answers_for_all_instants() -> None:
    bound, tables = bind_frames(TEXT, FRAMES)
    answer = snapshot(bound, tables, [0, 2, 4, 5])
    rows = sorted((row["_instant"], row["v"], row["w"]) for row in answer.to_pylist())
    assert rows == [(2, 1, 1), (2, 1, 2), (2, 2, 2), (4, 2, 2), (5, 3, 3)]


def test_the_instants_around_every_change() -> None:
    assert interesting_instants(*bind_frames(TEXT, FRAMES)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


@settings(max_examples=50)
@given(cases())
def test_oracle_and_reference_agree(case: Case) -> None:
    instants = interesting_instants(case.bound, case.tables)[::5]
    answer = snapshot(case.bound, case.tables, instants)
    for instant in instants:
        rows = answer.filter(pa.compute.equal(answer.column("_instant"), instant)).drop_columns(["_instant"])
        seen = sorted(row_key(row.values()) for row in _unnamed(rows).to_pylist())
        assert seen == sorted(evaluate(case.bound, case.tables, instant).elements())


def _unnamed(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(idx) for idx in range(table.num_columns)])


@settings(max_examples=50)
@given(cases(), st.data())
def test_a_wrong_change_is_caught(case: Case, data: st.DataObject) -> None:
    changes = case.run()
    assume(changes.num_rows)
    check_snapshot(case.bound, case.tables, changes)
    row = data.draw(st.integers(0, changes.num_rows - 1))
    mutate = data.draw(st.sampled_from([drop, flip_sign, expire_later, enter_later]))
    with pytest.raises(AssertionError, match="do not amount to the query's answer"):
        check_snapshot(case.bound, case.tables, mutate(changes, row))


def drop(changes: pa.Table, row: int) -> pa.Table:
    return pa.concat_tables([changes.slice(0, row), changes.slice(row + 1)])


def flip_sign(changes: pa.Table, row: int) -> pa.Table:
    return _replaced(changes, row, "_op", lambda op: -op)


def expire_later(changes: pa.Table, row: int) -> pa.Table:
    assume(changes.column("_expires")[row].is_valid)
    return _replaced(changes, row, "_expires", lambda time: time + 1)


def enter_later(changes: pa.Table, row: int) -> pa.Table:
    return _replaced(changes, row, "_ts", lambda time: time + 1)


def _replaced(changes: pa.Table, row: int, name: str, change) -> pa.Table:
    column = changes.column(name)
    values = column.cast(pa.int64()).to_pylist()
    values[row] = change(values[row])
    column = pa.array(values, pa.int64()).cast(column.type)
    return changes.set_column(changes.schema.get_field_index(name), name, column)


def test_the_message_says_when_and_which() -> None:
    changes = flip_sign(sash.sql(TEXT, **FRAMES), 1)
    with pytest.raises(AssertionError) as error:
        assert_snapshot(TEXT, changes, **FRAMES)
    assert str(error.value) == "\n".join([
        "the changes do not amount to the query's answer at 2 of 10 instants",
        TEXT,
        "at instant 2:",
        "  missing 2 × v = 1, w = 2",
    ])  # fmt: skip


def test_differing_changes_are_shown_as_lines() -> None:
    changes = sash.sql("SELECT v FROM s [RANGE 3 us] WHERE v < 3", **FRAMES)
    with pytest.raises(AssertionError) as error:
        assert_changes(drop(changes, 0), changes)
    assert str(error.value) == "\n".join([
        "the changes differ (- expected, + seen):",
        "  v | _op | _ts | _expires",
        "- 1 | 1   | 1   | 4",
        "  2 | 1   | 2   | 5",
    ])  # fmt: skip


def test_emit_changes_can_be_read_without_expiries() -> None:
    """A consumer that just adds up `_op` sees the same answer, up to the last row."""
    changes = sash.sql("SELECT v FROM s [RANGE 2 us] EMIT CHANGES", **FRAMES)
    assert answer_at(changes, [4], emit_changes=True) == answer_at(changes, [4]) == {4: {}}
    assert answer_at(changes, [7], emit_changes=True) == {7: {row_key([3]): 1}}
    assert answer_at(changes, [7]) == {7: {}}


def test_minus_zero_survives_a_count_window() -> None:
    """DuckDB rewrites `row_number() <= n` through an aggregate that turns -0.0 into 0.0; the oracle must not use it."""
    stream = stream_of("""
        ts | x
        1  | 0.0
        2  | -0.0
    """)
    frames = {"s": sash.stream(stream, time="ts")}
    text = "SELECT x FROM s [ROWS 2]"
    assert_snapshot(text, sash.sql(text, **frames), **frames)
