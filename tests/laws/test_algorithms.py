"""Law 6: every algorithm that may serve a query gives the same output. WNL = WHJ."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given

import sash
from sash.testing import Case, assert_changes, stream_of
from sash.testing.strategies import cases


@given(cases())
def test_nested_loops_and_hash_join_agree(case: Case) -> None:
    assume(len(case.plan.slots) > 1)
    try:
        expected = _hinted(case, "whj").run()
    except sash.PlanError as error:
        if "needs an equality" not in str(error):
            raise
        expected = _hinted(case, None).run()
    assert_changes(_hinted(case, "wnl").run(), expected)


@pytest.mark.parametrize(("hint", "shown"), [("wnl", "nested loops"), ("whj", "hash join")])
def test_the_hint_decides(hint: str, shown: str) -> None:
    stream = sash.stream(stream_of("ts | k", ts="BIGINT"), time="ts")
    text = f"SELECT /*+ {hint} */ A.k FROM s A, s B WHERE A.k = B.k WINDOW 3 us"
    assert shown in sash.explain(text, s=stream)


def _hinted(case: Case, hint: str | None) -> Case:
    text = re.sub(r"/\*\+ \w+ \*/ ", "", case.text)
    return Case(text if hint is None else text.replace("SELECT ", f"SELECT /*+ {hint} */ ", 1), case.frames)
