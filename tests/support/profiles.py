"""How much of a law is checked: a little while one works, as much as fits in CI, or all that is worth while.

In CI the same cases are drawn each time, by `make deep` new ones: `SASH_SEED` says which, and `SASH_VOLUME` how many
times as many as usual.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")

SEED = int(os.environ.get("SASH_SEED", "1"))
"""Of what is drawn without Hypothesis."""
VOLUME = float(os.environ.get("SASH_VOLUME", "1"))


def in_depth(n_cases: int) -> int:
    """So many cases in `make deep`, or as many times more as were asked for; never none."""
    return max(1, round(n_cases * VOLUME))


def volume(*, dev: int, ci: int, deep: int) -> int:
    """How many cases the Hypothesis profile that was asked for draws; where mistakes are planted, as in CI."""
    return by_profile(dev=dev, ci=ci, deep=in_depth(deep))


def law_volume() -> int:
    """How many cases there are of a law, unless it is dearer than most."""
    return volume(dev=3, ci=25, deep=500)


def law_of_groups() -> settings:
    """A law over cases that take long to draw, as they have batches, partitions and restarts beside rows."""
    slow_to_draw = [HealthCheck.large_base_example, HealthCheck.data_too_large]
    return settings(max_examples=law_volume(), suppress_health_check=slow_to_draw)


def by_profile(*, dev: T, ci: T, deep: T) -> T:
    """What is no number of cases, and so the same whatever the volume."""
    return {"dev": dev, "deep": deep}.get(settings.get_current_profile_name(), ci)


def everyday(chosen: Collection[Any], every: Iterable[Any]) -> list[Any]:
    """For `parametrize`: of all values those that are checked every time; the others by `make deep` alone."""
    every = list(every)
    assert set(chosen) <= set(every), "only what is there can be chosen"
    return [pytest.param(each, marks=() if each in chosen else pytest.mark.deep) for each in every]
