"""The snapshot oracle: right changes pass, and wrong ones are caught and told."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sash
from sash.oracle.answers import differences
from sash.oracle.row_keys import row_key, row_keys
from sash.oracle.snapshot_law import check_snapshot, relational_query
from sash.sql.bound_query import Block, BoundQuery, BoundSet, replaced_by
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
from sash.testing.plans import plans
from sash.testing.strategies import cases
from support.multiway_strategies import multiway_cases

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


@pytest.mark.slow
@settings(max_examples=50)
@given(cases() | multiway_cases(is_join=True))
def test_oracle_and_reference_agree(case: Case) -> None:
    assert isinstance(case.bound, BoundQuery)
    instants = interesting_instants(case.bound, case.tables)[::5]
    answer = snapshot(case.bound, case.tables, instants)
    for instant in instants:
        rows = answer.filter(pc.equal(answer.column("_instant"), instant)).drop_columns(["_instant"])
        seen = sorted(row_key(row.values()) for row in _unnamed(rows).to_pylist())
        assert seen == sorted(evaluate(case.bound, case.tables, instant).elements())


def _unnamed(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(idx) for idx in range(table.num_columns)])


@pytest.mark.slow
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


GROUPED = {
    "SELECT k, count(*), sum(v) FROM s [RANGE 3 us] GROUP BY k": {1: [("a", 1, 1)], 2: [("a", 2, 3)], 9: []},
    "SELECT count(*), max(v) FROM s [RANGE 3 us]": {0: [(0, None)], 2: [(2, 2)], 5: [(1, 3)]},
    "SELECT count(*) FROM s [RANGE 3 us] HAVING count(*) > 1": {0: [], 2: [(2,)], 5: []},
    "SELECT DISTINCT k FROM s WINDOW 3 us": {2: [("a",)], 5: [("b",)]},
    "SELECT first(v), last(v) FROM s WINDOW 2 ROWS": {2: [(1, 2)], 5: [(2, 3)]},
    "SELECT k FROM s [ROWS 3] EXCEPT ALL SELECT k FROM s [ROWS 1]": {2: [("a",)], 5: [("a",), ("a",)]},
    "SELECT k FROM s [ROWS 3] MINUS SELECT k FROM s [ROWS 1]": {2: [], 5: [("a",)]},
    "SELECT v FROM s [ROWS 3] WHERE k NOT IN (SELECT k FROM s [ROWS 1])": {2: [], 5: [(1,), (2,)]},
    "SELECT A.v FROM s A [ROWS 3] WHERE EXISTS (SELECT 1 FROM s B WHERE B.v = A.v + 1) WINDOW 3 us": {
        2: [(1,)],
        5: [(2,)],
    },
    "SELECT max(n) FROM (SELECT k, count(*) AS n FROM s GROUP BY k) T WINDOW 3 us": {2: [(2,)], 5: [(1,)]},
    "SELECT v FROM (SELECT v FROM s WINDOW 1 us) A WINDOW 9 us": {1: [(1,)], 2: [(2,)], 3: []},
    "WITH t AS (SELECT v FROM s) SELECT v FROM t WINDOW 1 us": {1: [(1,)], 2: [(2,)], 3: []},
    "SELECT v FROM s [RANGE 3 us SLIDE 4 us]": {1: [], 4: [(2,)], 7: [(2,)], 8: []},
    "SELECT v FROM s [RANGE 2 us SLIDE 4 us]": {1: [], 4: [], 8: []},
}


@pytest.mark.parametrize("text", GROUPED)
def test_answers_worked_out_by_hand(text: str) -> None:
    expected = GROUPED[text]
    answer = snapshot(*bind_frames(text, FRAMES), list(expected))
    seen = sorted(tuple(row.values()) for row in _unnamed(answer).to_pylist())
    assert seen == sorted((instant, *row) for instant, rows in expected.items() for row in rows)


def bind_case(case: Case) -> tuple[Block, dict[str, pa.Table]]:
    return bind_frames(case.text, case.frames)


@pytest.mark.slow
@settings(max_examples=100)
@given(plans())
def test_many_instants_at_once_are_as_one_by_one(case: Case) -> None:
    query = relational_query(*bind_case(case))
    instants = query.interesting_instants()[::2]
    at_once = [keys for _, table in query.answers(instants) for keys in row_keys(_unnamed(table))]
    alone = [keys for one in instants for _, table in query.answers([one]) for keys in row_keys(_unnamed(table))]
    assert not any(differences(Counter(at_once), Counter(alone), is_rounded=True))


def changes_of(bound: Block, tables: dict[str, pa.Table]) -> pa.Table:
    """Changes that amount to what the oracle says, up to the end of the run."""
    query = relational_query(bound, tables)
    instants = [one for one in query.interesting_instants() if one <= query.last_instant()]
    answer = snapshot(bound, tables, instants)
    names = [output.name for output in bound.outputs]
    values = dict(zip(row_keys(answer.select(names)), zip(*(answer.column(name).to_pylist() for name in names))))
    by_instant = {one: Counter[tuple]() for one in instants}
    for instant, row in zip(answer.column("_instant").to_pylist(), row_keys(answer.select(names))):
        by_instant[instant][row] += 1
    before: Counter[tuple] = Counter()
    rows = []
    for instant, now in by_instant.items():
        keys = replaced_by(bound)
        for row in (before - now).elements():
            is_replaced = keys is not None and any(all(row[k] == other[k] for k in keys) for other in now)
            rows += [] if is_replaced else [(*values[row], -1, instant, None)]
        rows += [(*values[row], 1, instant, None) for row in (now - before).elements()]
        before = now
    fields = [*((output.name, output.type) for output in bound.outputs)]
    schema = pa.schema([*fields, ("_op", pa.int8()), ("_ts", pa.int64()), ("_expires", pa.int64())])
    columns = [[row[idx] for row in rows] for idx in range(len(schema))]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)


@pytest.mark.slow
@settings(max_examples=100)
@given(plans(), st.data())
def test_right_changes_of_a_plan_pass_and_a_lost_one_is_caught(case: Case, data: st.DataObject) -> None:
    bound, tables = bind_case(case)
    assume(_looks_no_further_than_the_end(bound))
    changes = changes_of(bound, tables)
    check_snapshot(bound, tables, changes)
    assume(changes.num_rows)
    lost = data.draw(st.integers(0, changes.num_rows - 1))
    with pytest.raises(AssertionError, match="do not amount to the query's answer"):
        check_snapshot(bound, tables, drop(changes, lost))


def _looks_no_further_than_the_end(bound: Block) -> bool:
    """Of joins the oracle expects `_expires` too."""
    return isinstance(bound, BoundSet) or bound.groups is not None or bound.is_distinct or bool(bound.memberships)


def test_the_newest_row_of_a_group_replaces_the_older_one() -> None:
    changes = stream_of("""
        k | n    | _op | _ts  | _expires
        a | 0    | 1   | NULL | NULL
        a | 1    | 1   | 1    | NULL
        b | 1    | 1   | 1    | NULL
        a | 2    | 1   | 3    | NULL
        b | NULL | -1  | 4    | NULL
    """)
    answers = answer_at(changes, [0, 1, 3, 4], replaced_by=[0])
    rows = {instant: sorted((k[1], n[1]) for k, n in answer.elements()) for instant, answer in answers.items()}
    assert rows == {0: [("a", 0)], 1: [("a", 1), ("b", 1)], 3: [("a", 2), ("b", 1)], 4: [("a", 2)]}


def test_rows_that_differ_by_rounding_are_the_same_if_asked_for() -> None:
    one, other = Counter([row_key([1, 0.1 + 0.2])]), Counter([row_key([1, 0.3])])
    assert differences(one, other, is_rounded=True) == (Counter(), Counter())
    assert differences(one, other) == (one, other)
    assert differences(one, Counter([row_key([1, 0.31])]), is_rounded=True)[0] == one
    assert differences(one, Counter([row_key([2, 0.3])]), is_rounded=True)[0] == one


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("SELECT count(*) FROM s WINDOW 3 us", ()),
        ("SELECT count(*), k FROM s GROUP BY k WINDOW 3 us", (1,)),
        ("SELECT v + 1, k, count(*) FROM s GROUP BY k, v + 1 WINDOW 3 us", (1, 0)),
        ("SELECT count(*) FROM s GROUP BY k WINDOW 3 us", None),
        ("SELECT upper(k), count(*) FROM s GROUP BY k WINDOW 3 us", None),
        ("SELECT DISTINCT k, count(*) FROM s GROUP BY k WINDOW 3 us", None),
        ("SELECT k, count(*) FROM s GROUP BY k WINDOW 3 us EMIT CHANGES", None),
        ("SELECT k FROM s UNION SELECT k FROM s WINDOW 3 us", None),
        ("SELECT k FROM s WINDOW 3 us", None),
    ],
)
def test_which_columns_tell_a_group(text: str, key: tuple[int, ...] | None) -> None:
    assert replaced_by(bind_frames(text, FRAMES)[0]) == key
