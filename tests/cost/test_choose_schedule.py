"""Which schedule is chosen for which windows and bursts, against what the paper's analysis says of responses."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sash.cost.choose_join import SHIPPED
from sash.cost.choose_schedule import STEPS_BETWEEN_LOOKS, BurstWatch, choose_schedule
from sash.cost.join_cost import JoinCosts

SMALL_LARGE = [each * 1_000_000 for each in (1, 5, 15, 300, 510, 570, 600)]
ONE_EACH = [1] * 7


def test_single_tuples_and_a_single_window_leave_no_choice():
    assert choose_schedule(SMALL_LARGE, ONE_EACH, 1).schedule == "lwo"
    alone = choose_schedule([600], [9], 1_000)
    assert (alone.schedule, alone.responses_us) == ("lwo", {})


def test_a_burst_with_small_and_large_windows_is_not_worked_off_by_the_largest():
    choice = choose_schedule(SMALL_LARGE, ONE_EACH, 1_000)
    assert choice.schedule == "mqt"
    means = {name: choice.mean_us(name, ONE_EACH) for name in choice.responses_us}
    assert means["mqt"] == min(means.values())
    assert means["lwo"] > 1.2 * means["mqt"]


def test_small_windows_wait_for_the_largest_by_lwo_alone():
    responses = choose_schedule(SMALL_LARGE, ONE_EACH, 1_000).responses_us
    assert responses["lwo"][0] > 0.9 * responses["lwo"][-1]
    for schedule in ("swf", "mqt"):
        assert responses[schedule][0] < 0.05 * responses[schedule][-1]


def test_windows_of_nearly_the_same_length_gain_nothing():
    assert choose_schedule([590, 595, 600], [1, 1, 1], 1_000).schedule == "lwo"


def test_queries_decide_by_their_number():
    """Of a hundred queries with the largest window none gains by serving the single small one first."""
    assert choose_schedule([300, 600], [1, 100], 1_000).schedule == "lwo"
    assert choose_schedule([10, 600], [100, 1], 1_000).schedule != "lwo"


def test_responses_of_lwo_are_those_of_the_analysis():
    """Equation 1: (S_i + 1 + (m - 1) S_max) / 2 times what a pair takes, here of 256 partners in the largest window."""
    prices = replace(SHIPPED, hash=replace(SHIPPED.hash, costs=JoinCosts(0, 0, 0, 0, 1_000)))
    choice = choose_schedule([100, 600], [1, 1], 10, pairs_per_tuple=256, prices=prices)
    small, large = choice.responses_us["lwo"]
    assert large == pytest.approx((256 + 1 + 9 * 256) / 2)
    assert small == pytest.approx((256 / 6 + 1 + 9 * 256) / 2, rel=1e-3)


def test_responses_are_in_proportion_to_bursts_and_pairs():
    one, ten = (choose_schedule(SMALL_LARGE, ONE_EACH, burst) for burst in (1_000, 10_000))
    assert ten.responses_us["swf"] == pytest.approx([10 * each for each in one.responses_us["swf"]])
    more = choose_schedule(SMALL_LARGE, ONE_EACH, 1_000, pairs_per_tuple=3)
    assert more.responses_us["mqt"] == pytest.approx([3 * each for each in one.responses_us["mqt"]])
    assert (one.schedule, one.burst) == (more.schedule, more.burst) == ("mqt", 1_000)


def test_bursts_are_averaged_and_steps_without_tuples_are_none():
    watch = BurstWatch()
    watch.seen(80)
    assert watch.burst == 80
    watch.seen(0)
    watch.seen(160)
    assert watch.burst == 90


def test_a_choice_is_looked_at_again_when_bursts_have_changed_and_not_too_often():
    watch = BurstWatch()
    assert [watch.seen(10) for _ in range(100)].index(True) == STEPS_BETWEEN_LOOKS - 1
    assert not any(watch.seen(10) for _ in range(100)), "nothing has changed"
    looks = [step for step in range(200) if watch.seen(10 * 2 ** (step // 4))]
    assert looks[0] < 16
    assert all(later - earlier >= STEPS_BETWEEN_LOOKS for earlier, later in pairwise(looks))
    assert len(looks) > 5
