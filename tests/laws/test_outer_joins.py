"""Laws 1 to 4 and 6 for outer joins: DuckDB is asked the query's own text over the windows at every instant."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.frames import Relation, Stream, relation
from sash.oracle.snapshot_law import check_snapshot
from sash.sql.bound_query import BoundQuery
from sash.testing import Case, assert_changes, expected_changes
from sash.testing.case import Step
from sash.testing.strategies import TIME_TYPES, batch_cuts, rearrangements, schemas, streams, tables
from support.profiles import volume

N_CASES = volume(dev=8, ci=20, deep=500)
KINDS = ("LEFT", "FULL", "RIGHT", "ANTI", "SEMI")
WINDOWS = (
    *("[RANGE 5 us]", "[RANGE 9 us]", "[RANGE 2 us]", "[ROWS 2]", "[PARTITION BY k ROWS 1]"),
    "[RANGE 6 us SLIDE 2 us]",
)
EQUALITIES = ("x.k = y.k", "y.j = x.j AND x.k = y.k", "x.v + 1 = y.v", "TRUE")
OTHERS = ("x.v > 1", "y.v IS NOT NULL", "x.v < y.v", "(x.v IS NULL OR y.v > x.v)", "x.v IS NOT DISTINCT FROM y.v")
FILTERS = ("x.v < 2", "x.k IS NOT NULL", "(x.v = 1 OR x.j IS NULL)")
PADDED_FILTERS = (*FILTERS, "y.v IS NULL", "coalesce(y.v, 0) < 2")


@st.composite
def outer_cases(draw: st.DrawFn, is_lookup: bool = False) -> Case:
    """A stream beside another or a relation, and perhaps a third thing, with a join that is no inner one."""
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    schema = draw(schemas(draw(st.tuples(*[st.sampled_from(("number", "string", "number"))] * 2)), time))
    rows = draw(tables(schema.remove(schema.get_field_index("ts")), 4))
    frames: dict[str, Stream | Relation] = {"a": draw(streams(schema, 8)), "b": draw(streams(schema, 8))}
    frames["r"] = relation(rows)
    kind = draw(st.sampled_from(("LEFT", "ANTI", "SEMI") if is_lookup else KINDS))
    on = [draw(st.sampled_from(EQUALITIES)), *draw(st.lists(st.sampled_from(OTHERS), max_size=2))]
    # What slides may enter after the end of the run, which the reference does not know.
    left, right = (draw(st.sampled_from(WINDOWS[:-1] if is_lookup else WINDOWS)) for _ in range(2))
    other = "r y" if is_lookup else f"b y {right}"
    before = draw(st.sampled_from(("", "", " SEMI JOIN r q ON q.k = x.k", " LEFT JOIN r q ON q.k = x.k")))
    text = f"FROM a x {left}{before} {kind} JOIN {other} ON {' AND '.join(on)}"
    shows = kind not in ("SEMI", "ANTI")
    if not is_lookup and draw(st.booleans()):
        text += draw(st.sampled_from((" LEFT JOIN r z ON z.k = x.k", " JOIN b z [RANGE 4 us] ON z.k = x.k")))
    if draw(st.booleans()):
        text += f" WHERE {draw(st.sampled_from(PADDED_FILTERS if shows else FILTERS))}"
    outputs = "x.v AS a, x.k AS c" + (", y.v AS b" if shows else "")
    changes = " EMIT CHANGES" if draw(st.booleans()) else ""
    return Case(f"SELECT {outputs} {text}{changes}", frames)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(outer_cases())
def test_changes_amount_to_the_answer_whatever_the_schedule(case: Case) -> None:
    changes = case.run("tpa")
    check_snapshot(case.bound, case.tables, changes)
    for schedule in ("nta", "hybrid"):
        assert_changes(case.run(schedule), changes)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(outer_cases(is_lookup=True))
def test_lookups_have_the_lives_of_their_rows(case: Case) -> None:
    changes = case.run()
    check_snapshot(case.bound, case.tables, changes)
    assert isinstance(case.bound, BoundQuery)
    assert_changes(changes, expected_changes(case.bound, case.tables))


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(outer_cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))))
def test_neither_cuts_nor_restarts_show(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    changes, _ = case.replay(steps)
    expected = case.run()
    assert_changes(changes, expected)
    restarted, _ = case.replay(steps, range(len(steps)))
    assert_changes(restarted, expected)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(outer_cases().flatmap(lambda case: st.tuples(st.just(case), rearrangements(case))))
def test_the_order_of_arrival_does_not_show(pair: tuple[Case, Case]) -> None:
    case, rearranged = pair
    assert_changes(rearranged.run(), case.run())


def test_zeros_of_either_sign_have_partners_of_their_own() -> None:
    """They are equal, but a condition may tell them apart."""
    rows = pa.table({"ts": [1, 2], "x": [0.0, -0.0]})
    frames = {"a": Stream(rows, "ts"), "b": Stream(pa.table({"ts": [3], "s": ["-0.0"]}), "ts")}
    case = Case("SELECT a.ts, b.s FROM a LEFT JOIN b ON CAST(a.x AS VARCHAR) <= b.s WINDOW 9 us", frames)
    changes = case.run()
    check_snapshot(case.bound, case.tables, changes)
    assert changes.num_rows == 4, "of the two rows one is taken back"
