"""Generated queries for the first rows of groups, with a fence between few rows and fewer: as test_generated.py.

With the numbers that users have, the rows of a small case are all in front of the fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import pytest

from sash.operators import front_rows, group_top_k, keyed
from support.generated.choices import Choices
from support.generated.features import features_of
from support.generated.ranks import FEATURES
from support.generated.run import GeneratedCase, RefusedError, check, draw_case
from support.profiles import volume

N_CASES = volume(dev=4, ci=25, deep=500)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence moves, and numbers are given anew, among a handful of rows."""
    for name, value in {"LEAST_IN_FRONT": 1, "N_TIMES_SHOWN": 1, "MAX_BLOCKS": 3}.items():
        monkeypatch.setattr(group_top_k, name, value)
    for module in (group_top_k, front_rows, keyed):
        monkeypatch.setattr(module, "MIN_DEAD", 2)


def cases_of_first_groups() -> Iterator[GeneratedCase]:
    for seed in count(1):
        case = draw_case(Choices(seed))
        if "GROUP BY" in case.text and features_of(case) & set(FEATURES):
            yield case


@pytest.mark.slow
@pytest.mark.usefixtures("few_are_many")
def test_the_first_groups_are_right_wherever_the_fence_is() -> None:
    n_compared = 0
    for case in islice(cases_of_first_groups(), N_CASES):
        try:
            problem = check(case)
        except RefusedError:
            continue
        assert problem is None, f"{problem}\n{case}"
        n_compared += 1
    assert n_compared > 0
