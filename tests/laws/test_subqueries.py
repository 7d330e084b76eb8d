"""Laws 1 to 4 for subqueries in expressions: DuckDB is asked the query's own text over the windows at every instant."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.errors import SourceError
from sash.frames import Relation, Stream, relation
from sash.oracle.snapshot_law import check_snapshot
from sash.testing import Case, assert_changes, stream_of
from sash.testing.case import Step
from sash.testing.strategies import TIME_TYPES, batch_cuts, rearrangements, schemas, streams, tables
from support.profiles import volume

N_CASES = volume(dev=4, ci=6, deep=500)
N_CUT = volume(dev=1, ci=2, deep=200)
WINDOWS = ("[RANGE 5 us]", "[RANGE 2 us]", "[ROWS 2]", "[RANGE 6 us SLIDE 2 us]")
VALUES = (
    "(SELECT max(y.v) FROM b y {})",
    "(SELECT count(*) FROM b y {} WHERE y.k = x.k)",
    "(SELECT min(y.v) + 1 FROM b y {} WHERE y.k = x.k AND y.v > 0)",
    "(SELECT count(y.v) FROM b y {} WHERE x.k = y.k AND y.j = x.j HAVING count(*) < 2)",
    "(SELECT coalesce(max(y.v), 7) FROM b y {} WHERE y.k = x.k)",
    "(SELECT max(y.v) FROM b y {} WHERE y.k = x.k GROUP BY y.k)",
    "(SELECT y.v FROM b y [ROWS 1])",
    "(SELECT y.v FROM b y [PARTITION BY k ROWS 1] WHERE y.k = x.k)",
    "(SELECT max(v) FROM r)",
    "(SELECT count(*) FROM r WHERE r.k = x.k AND v > (SELECT min(v) FROM r))",
    "(SELECT max(y.v) FROM b y {} WHERE y.v IN (SELECT v FROM r))",
    "(SELECT y.v FROM b y {} WHERE y.k = x.k ORDER BY y.j DESC, 1 LIMIT 1)",
    "(SELECT y.v + 1 AS n FROM b y {} WHERE y.k = x.k AND y.j = x.j ORDER BY n LIMIT 1 OFFSET 1)",
    "(SELECT y.v FROM b y {} ORDER BY y.v DESC NULLS LAST LIMIT 1)",
    "(SELECT count(*) FROM b y {} WHERE y.k = x.k LIMIT 1)",
    "(SELECT y.v FROM b y {} GROUP BY y.v ORDER BY count(*), y.v LIMIT 1)",
    "(SELECT v FROM r WHERE r.k = x.k ORDER BY j, v LIMIT 1)",
    "(SELECT v FROM r ORDER BY v LIMIT 1)",
)
TESTS = (
    "x.k {}IN (SELECT k FROM b {})",
    "x.v {}IN (SELECT y.v FROM b y {} WHERE y.k = x.k)",
    "{}EXISTS (SELECT 1 FROM b y {} WHERE y.k = x.k)",
    "{}EXISTS (SELECT 1 FROM b {})",
    "x.k {}IN (SELECT k FROM r WHERE v > 0)",
    "{}EXISTS (SELECT * FROM r WHERE r.k = x.k)",
    "{}EXISTS (SELECT * FROM r WHERE v > 1)",
    "x.k {}IN (SELECT k FROM b {} UNION ALL SELECT k FROM a [ROWS 1])",
    "x.v {}IN (SELECT y.v FROM b y {} WHERE y.k = x.k ORDER BY y.v LIMIT 2)",
    "x.k {}IN (SELECT y.k FROM b y {} ORDER BY y.k NULLS FIRST LIMIT 1)",
    "x.v {}IN (SELECT DISTINCT ON (y.j) y.v FROM b y {} WHERE y.k = x.k ORDER BY y.j, y.v)",
    "x.v {}IN (SELECT v FROM r WHERE r.k = x.k QUALIFY row_number() OVER (PARTITION BY j ORDER BY v) = 1)",
    "x.v {}IN (SELECT DISTINCT ON (k) v FROM r ORDER BY k, v)",
    "x.v {}IN (SELECT v FROM r ORDER BY v DESC LIMIT 1)",
    "{}EXISTS (SELECT 1 FROM b y {} WHERE y.k = x.k LIMIT 2)",
    "{}EXISTS (SELECT * FROM r WHERE r.k = x.k ORDER BY v LIMIT 1)",
    "{}EXISTS (SELECT * FROM r WHERE r.k = x.k LIMIT 1 OFFSET 1)",
)
"""What may stand in any expression."""
ALONE = (
    "{}EXISTS (SELECT 1 FROM b y {} WHERE y.v > x.v)",
    "{}EXISTS (SELECT 1 FROM b y {} WHERE y.k = x.k AND y.v <> x.v)",
    "{}EXISTS (SELECT 1 FROM r WHERE r.v < x.v AND r.k = x.k)",
    "x.k {}IN (SELECT k FROM b y {} WHERE y.v < x.v)",
    "x.v {}IN (SELECT v FROM r WHERE r.k = x.k)",
    "(x.k, x.j) IN (SELECT k, j FROM r)",
)
"""What may stand by itself in WHERE."""


@st.composite
def subquery_cases(draw: st.DrawFn) -> Case:
    """A stream, with a subquery in what is shown and another in a condition."""
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    schema = draw(schemas(draw(st.tuples(*[st.sampled_from(("number", "string", "number"))] * 2)), time))
    rows = draw(tables(schema.remove(schema.get_field_index("ts")), 4))
    frames: dict[str, Stream | Relation] = {"a": draw(streams(schema, 8)), "b": draw(streams(schema, 8))}
    frames["r"] = relation(rows)
    shown = _value(draw) if draw(st.booleans()) else f"({_test(draw, TESTS)})"
    condition = draw(
        st.sampled_from(
            (
                _test(draw, ALONE),
                f"(x.v > 1 OR {_test(draw, TESTS)})",
                f"x.v >= {_value(draw)}",
                f"NOT ({_test(draw, TESTS)} AND x.v < 2)",
            )
        )
    )
    window = draw(st.sampled_from(WINDOWS))
    changes = " EMIT CHANGES" if draw(st.booleans()) else ""
    text = f"SELECT x.v AS a, x.k AS c, {shown} AS s FROM a x {window} WHERE {condition}{changes}"
    return Case(text, frames)


def _value(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(VALUES)).format(draw(st.sampled_from(WINDOWS)))


def _test(draw: st.DrawFn, known: tuple[str, ...]) -> str:
    return draw(st.sampled_from(known)).format(draw(st.sampled_from(("", "NOT "))), draw(st.sampled_from(WINDOWS)))


@pytest.mark.slow
@pytest.mark.usefixtures("four_times_the_limit")
@settings(max_examples=N_CASES)
@given(subquery_cases())
def test_changes_amount_to_the_answer_whatever_the_schedule(case: Case) -> None:
    changes = case.run("tpa")
    check_snapshot(case.bound, case.tables, changes)
    assert_changes(case.run("nta"), changes)


@pytest.mark.usefixtures("without_limit")
def test_an_equal_row_in_place_of_another_is_no_change_by_any_schedule() -> None:
    """Where some schedules want identities of rows without a partner, and others do not."""
    matches = "(x.v IN (SELECT y.v FROM b y [RANGE 5 us] WHERE y.k = x.k)) AS s"
    text = f"SELECT x.v AS a, x.k AS c, {matches} FROM a x [ROWS 2] EMIT CHANGES"
    rows = pa.table({"ts": [-1, 0, 1], "k": [0, 0, 0], "v": [0, 1, 0]})
    frames = {
        "a": sash.stream(rows, time="ts"),
        "b": sash.stream(rows.slice(0, 2).set_column(2, "v", [[1, 1]]), time="ts"),
    }
    case = Case(text, frames)
    changes = case.run("tpa")
    check_snapshot(case.bound, case.tables, changes)
    assert changes.column("_ts").cast(pa.int64()).to_pylist() == [-1, 0]
    for schedule in ("nta", "hybrid"):
        assert_changes(case.run(schedule), changes)


@pytest.mark.parametrize("changes", ["", " EMIT CHANGES"])
def test_an_expression_tells_zeros_apart_that_are_equal(changes: str) -> None:
    rows = pa.table({"ts": [1, 2], "v": [0.0, -0.0]})
    texts = pa.table({"ts": [0], "t": ["-0.0"]})
    frames = {"a": sash.stream(rows, time="ts"), "b": sash.stream(texts, time="ts")}
    tests = "CAST(x.v AS VARCHAR) IN (SELECT y.t FROM b y [RANGE 9 us])"
    case = Case(f"SELECT x.v FROM a x [RANGE 9 us] WHERE {tests}{changes}", frames)
    for schedule in ("tpa", "nta", "hybrid"):
        entered = case.run(schedule)
        entered = entered.filter(pa.array(sign > 0 for sign in entered.column("_op").to_pylist()))
        assert entered.column("_ts").cast(pa.int64()).to_pylist() == [2]


@pytest.mark.slow
@pytest.mark.usefixtures("four_times_the_limit")
@settings(max_examples=N_CUT)
@given(subquery_cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case), rearrangements(case))))
def test_neither_cuts_nor_restarts_nor_the_order_of_arrival_show(cut: tuple[Case, list[Step], Case]) -> None:
    case, steps, rearranged = cut
    expected = case.run()
    restarted, _ = case.replay(steps, range(len(steps)))
    assert_changes(restarted, expected)
    assert_changes(rearranged.run(), expected)


SALES = sash.stream(
    stream_of("""
        ts | k    | v
        1  | 2    | 3
        2  | 1    | 7
        4  | 2    | 9
        6  | NULL | 2
    """),
    time="ts",
)
RETURNS = sash.stream(
    stream_of("""
        ts | k | w
        1  | 2 | 4
        3  | 1 | 5
    """),
    time="ts",
)
PRICES = stream_of("""
    k | p  | n
    2 | 10 | a
    2 | 30 | b
    1 | 20 | NULL
""")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, sum(v) / (SELECT sum(v) FROM s) AS share FROM s GROUP BY k WINDOW 3 us",
        "SELECT k FROM s GROUP BY k HAVING sum(v) > (SELECT min(w) FROM u) WINDOW 3 us",
        "SELECT count(*) * (SELECT max(p) FROM r) AS n FROM s HAVING count(*) > (SELECT min(w) FROM u) - 4 WINDOW 3 us",
        "SELECT sum(v - (SELECT min(w) FROM u)) AS t FROM s WINDOW 3 us",
        "SELECT s.v FROM s JOIN u ON s.k = u.k AND s.v > (SELECT min(p) FROM r) - 9 WINDOW 3 us",
        "SELECT s.v, u.w FROM s LEFT JOIN u USING (k) WHERE w IS NULL OR w > (SELECT min(v) FROM s) WINDOW 3 us",
        "SELECT v FROM s WHERE k = ANY (SELECT k FROM u) AND k <> ALL (SELECT p FROM r) WINDOW 3 us",
        "SELECT v FROM s WHERE v BETWEEN (SELECT min(w) FROM u) - 1 AND (SELECT max(w) FROM u) WINDOW 3 us",
        "SELECT v FROM s WHERE v > (SELECT avg(v) FROM s t WHERE t.v > (SELECT min(w) FROM u)) WINDOW 3 us",
        "SELECT v FROM s WHERE NOT EXISTS (SELECT 1 FROM s t WHERE v > s.v) WINDOW 3 us",
        "SELECT n FROM s, r WHERE n NOT IN (SELECT n FROM r WHERE p > 15)",
        "SELECT v, (SELECT n FROM r WHERE r.k = s.k AND p < 30) AS n, (SELECT n FROM r WHERE p = 31) AS z FROM s",
        "SELECT s.v, m.p FROM s LEFT JOIN (SELECT k, max(p) AS p FROM r GROUP BY k) AS m USING (k)",
        "WITH w AS (SELECT k FROM r WHERE p > 15), x AS (SELECT k FROM w UNION SELECT 5 FROM r) "
        "SELECT * FROM s SEMI JOIN x USING (k)",
        "SELECT q FROM s JOIN (SELECT a.k FROM r a LEFT JOIN r b ON a.p > b.p WHERE b.p IS NULL) AS m(q) ON q = k",
        "SELECT a, c FROM s [RANGE 3 us] AS t(a, b) JOIN r AS q(c, d, e) ON b = c",
        "WITH w(a, b) AS (SELECT k, v FROM s) SELECT x + b AS c FROM w AS q(x) WHERE x > 1 WINDOW 3 us",
        "SELECT * EXCLUDE (ts, u.k) REPLACE (v + 1 AS v) RENAME (w AS z) FROM s, u WINDOW 3 us",
        "SELECT s.* EXCLUDE ts, u.w FROM s JOIN u USING (k) WINDOW 3 us",
        # `w` is an item outside, and a column inside that has no fields.
        "SELECT w.v, (SELECT max(w) FROM u WHERE u.k = w.k) AS m FROM s w WINDOW 3 us",
        "SELECT w.v FROM s w WHERE w.k NOT IN (SELECT u.k FROM u WHERE u.ts > w.ts) WINDOW 3 us",
        "SELECT w.v FROM s w WHERE EXISTS (SELECT * FROM u WHERE w.k = u.k AND u.w > w.v) WINDOW 3 us",
        "SELECT w.v, (SELECT w FROM u [PARTITION BY k ROWS 1] WHERE u.k = w.k) AS m FROM s w [RANGE 3 us]",
        # The first rows are those of the row outside, and of tables those that SQL means.
        "SELECT v, (SELECT w FROM u WHERE u.k = s.k ORDER BY ts DESC LIMIT 1) AS m FROM s WINDOW 4 us",
        "SELECT v, (SELECT p FROM r WHERE r.k = s.k ORDER BY p DESC LIMIT 1) AS m FROM s",
        "SELECT v FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k LIMIT 1)",
        "SELECT v, (SELECT w FROM u WHERE u.k = s.k AND ((w > 1) AND w < 9) LIMIT 1) AS m FROM s WINDOW 4 us",
        "SELECT s.v, m.p FROM s JOIN (SELECT DISTINCT ON (k) k, p FROM r ORDER BY k, p DESC) AS m USING (k)",
        "SELECT v FROM s WHERE k IN (SELECT k FROM r LIMIT 1 OFFSET 1)",
        "SELECT v, p FROM s JOIN (SELECT k, p FROM r ORDER BY k DESC FETCH FIRST 1 ROW WITH TIES) AS m USING (k)",
        "SELECT v, p FROM s JOIN (SELECT k, p FROM r ORDER BY 1 OFFSET 1 FETCH FIRST 1 ROW WITH TIES) AS m USING (k)",
        "SELECT v FROM s WHERE EXISTS (SELECT * FROM u WHERE u.k = s.k ORDER BY w LIMIT 1 OFFSET 1) WINDOW 9 us",
        "SELECT v FROM s WHERE NOT EXISTS (SELECT 1 FROM u QUALIFY row_number() OVER (ORDER BY w) = 2) WINDOW 9 us",
        "SELECT v FROM s WHERE 9 IN (SELECT DISTINCT ON (k) v FROM s t WHERE t.k = s.k ORDER BY k, v) WINDOW 5 us",
    ],
)
def test_what_a_user_writes(text: str) -> None:
    assert sash.verify(text, None, s=SALES, u=RETURNS, r=sash.relation(PRICES))


def test_aggregates_of_tables_decide_between_equals_as_those_of_streams_do() -> None:
    keys, names = [key for key in range(50) for _ in range(4)], ["d", "b", "a", "c"] * 50
    rows = sash.relation(pa.table({"k": keys, "n": names, "p": [1] * 200}))
    calls = "mode(n) AS often, arg_min(n, p) AS least, arg_max(n, p) AS most, first(n ORDER BY p) AS one"
    times = sash.stream(pa.table({"ts": range(50)}), time="ts")
    text = f"SELECT often, least, most, one FROM s JOIN (SELECT k, {calls} FROM r GROUP BY k) AS m ON k = ts"
    found = sash.sql(text, s=times, r=rows).drop_columns(["_op", "_ts", "_expires"])
    assert set(map(tuple, (row.values() for row in found.to_pylist()))) == {("a", "a", "d", "a")}


@pytest.mark.parametrize(
    ("subquery", "why"),
    [
        ("IN (SELECT w FROM u WHERE u.k > s.k LIMIT 1)", "`LIMIT` cannot stand in a subquery that compares columns"),
        ("IN (SELECT DISTINCT w FROM u WHERE u.k = s.k LIMIT 2)", "`LIMIT` cannot stand beside `DISTINCT` or"),
        ("= (SELECT max(w) FROM u WHERE u.k = s.k GROUP BY w ORDER BY 1 LIMIT 1)", "beside `GROUP BY` in a subquery"),
    ],
)
def test_first_rows_that_cannot_be_told_apart_are_refused(subquery: str, why: str) -> None:
    with pytest.raises(sash.PlanError, match=why):
        sash.sql(f"SELECT v FROM s WHERE v {subquery} WINDOW 3 us", s=SALES, u=RETURNS)


@pytest.mark.parametrize(
    ("subquery", "found"),
    [("(SELECT n FROM r WHERE r.k = s.k)", "2 rows for 2"), ("(SELECT n FROM r)", "3 rows")],
)
def test_tables_give_a_value_one_row(subquery: str, found: str) -> None:
    with pytest.raises(SourceError, match=f"may have one row, but tables give it {found}"):
        sash.sql(f"SELECT {subquery} AS n FROM s", s=SALES, r=sash.relation(PRICES))


def test_tables_that_a_subquery_reads_are_pinned() -> None:
    text = "SELECT v FROM s WHERE k IN (SELECT k FROM r WHERE p > 15)"
    running = sash.query(text, s=SALES, r=sash.relation(PRICES))
    snapshot = running.snapshot()
    other = sash.query(text, s=SALES, r=sash.relation(PRICES.slice(1)))
    with pytest.raises(SourceError, match="table `r` has changed"):
        other.restore(snapshot)
