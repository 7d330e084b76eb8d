"""Law 1 by `sash.answer`: at every instant it gives what plain SQL gives over the tuples in their windows then.

Every case of `test_generated` asks it, too, at some instants. What a running query keeps amounts to the same.
"""

from __future__ import annotations

import warnings
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sash
from support.generated.choices import Choices
from support.generated.reading import difference, rows_of
from support.generated.run import Answers, RefusedError, cut, draw_case, is_rounded, run_case
from support.profiles import SEED, volume

N_CASES = volume(dev=8, ci=60, deep=600)
REFUSALS = (sash.ParseError, sash.BindError, sash.PlanError, sash.ResourceError, sash.SourceError)
"""Of queries that `test_generated` looks at: here they say nothing."""
seeds = st.integers(0, 2**32).map(lambda number: 2**33 * SEED + number)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(seeds, st.data())
def test_the_answer_is_that_of_plain_sql(seed: int, data: st.DataObject) -> None:
    case = draw_case(Choices(seed))
    try:
        changes = run_case(case)
    except REFUSALS:
        assume(False)
        return
    end = case.truth.end
    instant = data.draw(st.integers(min([end, *case.truth.points()]) - 1, end), "instant")
    try:
        expected, types = Answers(case).of_duckdb([instant])
    except RefusedError:
        assume(False)
        return
    seen = sash.answer(changes, at=instant)
    assert seen.schema.types == types
    assert difference(expected[instant], Counter(rows_of(seen)), is_rounded(case.statement)) is None, str(case)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(seeds, st.integers(0, 20))
def test_what_a_running_query_keeps_is_that_of_its_changes(seed: int, history_us: int) -> None:
    case = draw_case(Choices(seed), way="cuts")
    try:
        running = sash.query(case.text, params=case.params, keep_answer=f"{history_us} us", **case.frames)
    except REFUSALS:
        assume(False)
        return
    changes = []
    for name, rows, _ in cut(case):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sash.SashWarning)
            try:
                changes.append(running.push(name, rows))
            except REFUSALS:  # an expression has failed on a row
                assume(False)
        for instant in {running.clock - history_us, running.clock}:
            if instant > -(2**62):
                expected = sash.answer(pa.concat_tables(changes), at=instant)
                assert Counter(rows_of(running.answer(instant))) == Counter(rows_of(expected)), str(case)
