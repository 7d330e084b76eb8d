"""Laws 1 to 4 and 6 for ASOF joins: DuckDB's own ASOF JOIN is asked over the windows at every instant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.frames import Relation, Stream, relation
from sash.oracle.snapshot_law import check_snapshot
from sash.testing import Case, assert_changes
from sash.testing.case import Step
from sash.testing.strategies import TIME_TYPES, batch_cuts, rearrangements, schemas, streams, tables
from support.profiles import volume

N_CASES = volume(dev=8, ci=25, deep=500)
WINDOWS = (
    *("[RANGE 5 us]", "[RANGE 9 us]", "[RANGE 2 us]", "[ROWS 2]", "[PARTITION BY k ROWS 1]"),
    "[RANGE 6 us SLIDE 2 us]",
)
TIMES = (*("x.ts >= y.ts",) * 4, "x.ts > y.ts", "y.ts <= x.ts", "x.ts <= y.ts", "x.ts < y.ts", "x.v >= y.v")
KEYS = ("x.k = y.k", "x.k = y.k", "y.j = x.j AND x.k = y.k", "")
OTHERS = ("x.v > 1", "y.v IS NOT NULL")
FILTERS = ("x.v < 2", "x.k IS NOT NULL", "y.v IS NULL", "coalesce(y.v, 0) < 2")
PARTNERS = ("b", "b", "b", "(SELECT k, j, v, ts FROM b [RANGE 7 us] EXCEPT ALL SELECT k, j, v, ts FROM a [RANGE 3 us])")


@st.composite
def asof_cases(draw: st.DrawFn) -> Case:
    """A stream with the newest partners in another or in a subquery, and perhaps a third thing."""
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    schema = draw(schemas(draw(st.tuples(*[st.sampled_from(("number", "string", "number"))] * 2)), time))
    rows = draw(tables(schema.remove(schema.get_field_index("ts")), 4))
    frames: dict[str, Stream | Relation] = {"a": draw(streams(schema, 8)), "b": draw(streams(schema, 8))}
    frames["r"] = relation(rows)
    conditions = [draw(st.sampled_from(KEYS)), draw(st.sampled_from(TIMES)), *draw(_some_of(OTHERS))]
    left, right, partner = (draw(st.sampled_from(each)) for each in (WINDOWS, WINDOWS, PARTNERS))
    word = draw(st.sampled_from(("ASOF JOIN", "ASOF LEFT JOIN", "ASOF LEFT JOIN")))
    other = f"{partner} y {right}" if partner == "b" else f"{partner} y"
    text = f"FROM a x {left} {word} {other} ON {' AND '.join(filter(None, conditions))}"
    if draw(st.booleans()):
        text += draw(st.sampled_from((" LEFT JOIN r z ON z.k = x.k", " JOIN b z [RANGE 4 us] ON z.k = x.k")))
    if draw(st.booleans()):
        text += f" WHERE {draw(st.sampled_from(FILTERS))}"
    changes = " EMIT CHANGES" if draw(st.booleans()) else ""
    return Case(f"SELECT x.v AS a, x.k AS c, y.v AS b, y.ts AS t {text}{changes}", frames)


def _some_of(texts: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.just(list[str]()) | st.lists(st.sampled_from(texts), max_size=2)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(asof_cases())
def test_changes_amount_to_the_answer_whatever_the_schedule(case: Case) -> None:
    changes = case.run("tpa")
    check_snapshot(case.bound, case.tables, changes)
    for schedule in ("nta", "hybrid"):
        assert_changes(case.run(schedule), changes)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(asof_cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))))
def test_neither_cuts_nor_restarts_show(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    changes, _ = case.replay(steps)
    expected = case.run()
    assert_changes(changes, expected)
    restarted, _ = case.replay(steps, range(len(steps)))
    assert_changes(restarted, expected)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(asof_cases().flatmap(lambda case: st.tuples(st.just(case), rearrangements(case))))
def test_the_order_of_arrival_does_not_show(pair: tuple[Case, Case]) -> None:
    case, rearranged = pair
    assert_changes(rearranged.run(), case.run())
