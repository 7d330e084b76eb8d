"""The cost model of the window joins: the paper's equations, their limits, and how they hang together."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.cost.join_cost import (
    INVALIDATIONS,
    JoinCosts,
    JoinLoad,
    JoinMethod,
    JoinWork,
    buffered_tuples,
    cost_ns,
    half_work,
    occupied_buckets,
    probed_share,
    stale_per_bucket,
    stale_tuples,
    total_work,
)
from sash.errors import PlanError

PAPER = JoinCosts(scan=1, insert=10, invalidate=5, check=0, output=0)
rates = st.tuples(st.floats(0.1, 1e5), st.floats(0.1, 1e5))
windows = st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4))
loads = st.builds(JoinLoad, rates, windows, st.floats(1, 1e9))
methods = st.builds(JoinMethod, st.just("whj"), st.integers(1, 10_000), st.sampled_from(INVALIDATIONS))


@given(loads)
def test_equation_1(load):
    (rate_a, rate_b), (window_a, window_b) = load.rates, load.windows_s
    expected = (rate_a + rate_b) * (5 + 10) + rate_a * rate_b * (window_a + window_b) * 1
    assert cost_ns(total_work(JoinMethod("wnl"), load), PAPER) == pytest.approx(expected)


@given(st.integers(1, 10_000), rates, windows)
def test_equation_2_holds_with_many_more_values_than_buckets(n_buckets, rates, windows):
    load = JoinLoad(rates, windows, n_distinct=1e12)
    expected = sum(rates) * (5 + 10) + rates[0] * rates[1] / n_buckets * sum(windows) * 1
    assert cost_ns(total_work(JoinMethod("whj", n_buckets), load), PAPER) == pytest.approx(expected, rel=1e-6)


@given(methods, loads)
def test_the_total_is_the_sum_of_the_halves(method, load):
    costs = JoinCosts(2, 30, 5, 1, 4)
    halves = [cost_ns(half_work(method, load, side), costs) for side in (0, 1)]
    assert cost_ns(total_work(method, load), costs) == pytest.approx(sum(halves))


@given(methods, loads)
def test_the_halves_of_swapped_sides_are_swapped(method, load):
    swapped = JoinLoad(load.rates[::-1], load.windows_s[::-1], load.n_distinct)
    assert half_work(method, load, 0) == half_work(method, swapped, 1)
    assert stale_tuples(method, load, 0) == stale_tuples(method, swapped, 1)


@given(loads, st.sampled_from(INVALIDATIONS))
def test_a_hash_join_with_one_bucket_is_a_nested_loops_join(load, invalidation):
    whj, wnl = JoinMethod("whj", 1, invalidation), JoinMethod("wnl", 1, invalidation)
    assert total_work(whj, load) == total_work(wnl, load)
    assert buffered_tuples(whj, load, 0) == buffered_tuples(wnl, load, 0)


@given(methods, loads)
def test_what_arrives_is_inserted_and_removed_once(method, load):
    work = total_work(method, load)
    assert work.insertions == work.invalidations == sum(load.rates)


def test_the_cost_is_linear_in_one_rate():
    method = JoinMethod("whj", 100)
    costs = [cost_ns(total_work(method, JoinLoad((rate, 50), (30, 30), 100)), PAPER) for rate in (100, 200, 300)]
    assert costs[2] - costs[1] == pytest.approx(costs[1] - costs[0])


def test_scans_flatten_past_the_number_of_distinct_values():
    load = JoinLoad((100, 100), (30, 30), 100)
    shares = [probed_share(JoinMethod("whj", n), load) for n in (1, 2, 10, 100, 1000, 1_000_000)]
    assert shares[0] == 1
    assert shares[1] == pytest.approx(0.505)
    assert shares == sorted(shares, reverse=True)
    assert (
        shares[-1] == pytest.approx(probed_share(JoinMethod("hash"), load), rel=1e-3) == pytest.approx(0.01, rel=1e-3)
    )


def test_the_probed_share_is_the_mean_over_random_hashes():
    rng = np.random.default_rng(1)
    likely = rng.dirichlet(np.ones(30))
    shares = []
    for _ in range(4000):
        buckets = np.bincount(rng.integers(0, 7, 30), weights=likely, minlength=7)
        shares.append((buckets**2).sum())
    load = JoinLoad((1, 1), (1, 1), 30, selectivity=float((likely**2).sum()))
    assert np.mean(shares) == pytest.approx(probed_share(JoinMethod("whj", 7), load), rel=0.01)


def test_occupied_buckets_are_the_mean_over_random_hashes():
    rng = np.random.default_rng(2)
    seen = np.mean([len(np.unique(rng.integers(0, 50, 40))) for _ in range(4000)])
    assert occupied_buckets(JoinMethod("whj", 50), JoinLoad((1, 1), (1, 1), 40)) == pytest.approx(seen, rel=0.01)


def test_stale_tuples_per_bucket_are_those_of_the_paper():
    load = JoinLoad((1, 100), (30, 30), 1e9)
    method = {name: JoinMethod("whj", 100, name) for name in INVALIDATIONS}
    assert stale_per_bucket(method["probe"], load, 1) == pytest.approx(100)
    assert stale_per_bucket(method["probe_insert"], load, 1) == pytest.approx(100 / 101)
    assert stale_tuples(method["probe_all"], load, 1) == pytest.approx(100)
    assert stale_tuples(method["optimal"], load, 1) == 0


@given(methods, loads, st.integers(0, 1))
def test_stale_tuples_begin_with_none_and_end_in_the_steady_state(method, load, side):
    steady = stale_tuples(method, load, side)
    counts = [stale_tuples(method, load, side, elapsed_s) for elapsed_s in (0, 1, 10, 100, 1e9, math.inf)]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] == steady


def test_greedy_strategies_look_at_every_bucket():
    load = JoinLoad((10, 10), (30, 30), 100)
    looks = {name: total_work(JoinMethod("whj", 64, name), load).checks - 20 for name in INVALIDATIONS}
    assert looks == {"probe": 20, "probe_insert": 40, "probe_all": 20 * 64, "optimal": 20 * 128}


def test_work_adds_up_and_scales():
    work = JoinWork(1, 2, 3, 4, 5)
    assert astuple(work + work) == astuple(work.times(2)) == (2, 4, 6, 8, 10)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: JoinMethod("merge"), "there is no join algorithm `merge`"),
        (lambda: JoinMethod("whj", 4, "never"), "there is no invalidation `never`"),
        (lambda: JoinMethod("whj", 0), "buckets, not 0"),
        (lambda: JoinMethod("wnl", 2), "`wnl` has no number of buckets"),
        (lambda: JoinLoad((0, 1), (1, 1), 1), "must be more than 0"),
        (lambda: JoinLoad((1, 1), (1, math.inf), 1), "must be more than 0"),
        (lambda: JoinLoad((1, 1), (1, 1), 0.5), "at least 1 distinct value"),
        (lambda: JoinLoad((1, 1), (1, 1), 10, 1.5), "from 0 to 1"),
        (lambda: JoinCosts(1, 1, 1, 1, -1), "not negative"),
    ],
)
def test_what_makes_no_sense_is_refused(build, told):
    with pytest.raises(PlanError, match=told):
        build()
