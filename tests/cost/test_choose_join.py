"""The cheapest method is chosen, and it is said how far the rates may move."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.cost.choose_join import (
    MARGIN,
    AlgorithmPrices,
    JoinPrices,
    MethodHint,
    candidates,
    choose_method,
    estimate,
    is_outrun,
    range_of,
)
from sash.cost.join_cost import HASH, WHJ, WNL, JoinCosts, JoinLoad, JoinMethod

PRICES = JoinPrices(
    hash=AlgorithmPrices(JoinCosts(scan=5, insert=300, invalidate=20, check=0, output=50), 10),
    buckets=AlgorithmPrices(JoinCosts(scan=1, insert=150, invalidate=20, check=3, output=50), 40),
)
LOADS = st.builds(
    JoinLoad,
    rates=st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)),
    windows_s=st.tuples(st.floats(1e-6, 1e4), st.floats(1e-6, 1e4)),
    n_distinct=st.floats(1, 1e7),
)


def load(rate: float, n_distinct: float = 1000, window_s: float = 1.0) -> JoinLoad:
    return JoinLoad((rate, rate), (window_s, window_s), n_distinct)


@pytest.mark.parametrize(("rate", "algorithm"), [(5, WNL), (3000, WHJ), (1_000_000, HASH)])
def test_small_windows_are_scanned_and_large_ones_indexed(rate: float, algorithm: str) -> None:
    choice = choose_method(load(rate, n_distinct=1_000_000), True, prices=PRICES)
    assert choice.method.algorithm == algorithm
    assert choice.method == choice.estimates[0].method


@given(LOADS)
def test_nothing_is_much_cheaper_than_what_is_chosen(load: JoinLoad) -> None:
    choice = choose_method(load, True, prices=PRICES)
    best = min(estimate(method, load, PRICES).ns for method in candidates(load, True))
    assert choice.estimates[0].ns <= 1.05 * best
    assert not is_outrun(choice.method, load, True, PRICES)
    assert sorted(each.method.algorithm for each in choice.estimates) == sorted([HASH, WHJ, WNL])


@pytest.mark.slow
@given(LOADS)
def test_the_range_ends_where_another_method_is_much_cheaper(load: JoinLoad) -> None:
    choice = choose_method(load, True, prices=PRICES)
    low, high = range_of(choice).both
    assert low < 1 < high
    for factor in (low, high):
        if 0 < factor < math.inf:
            there = replace(load, rates=(load.rates[0] * factor, load.rates[1] * factor))
            best = choose_method(there, True, prices=PRICES).estimates[0]
            assert estimate(choice.method, there, PRICES).ns > MARGIN / 1.05 * best.ns


@given(LOADS, st.floats(0.99, 1.01))
def test_a_method_that_was_given_up_is_not_taken_back_at_once(load: JoinLoad, factor: float) -> None:
    """At the border between two methods a small step back does not bring the old one back."""
    chosen = choose_method(load, True, prices=PRICES).method
    near = replace(load, rates=(load.rates[0] * factor, load.rates[1] * factor))
    assert not is_outrun(chosen, near, True, PRICES)


def test_without_statistics_there_is_the_hash_index_and_without_keys_nested_loops() -> None:
    assert choose_method(None, True, prices=PRICES).method == JoinMethod(HASH)
    assert choose_method(None, False, prices=PRICES).method == JoinMethod(WNL)
    assert choose_method(load(1e6), False, prices=PRICES).method.algorithm == WNL


@pytest.mark.parametrize("known", [None, load(10), load(1e6)])
def test_what_a_hint_says_is_done_and_what_it_leaves_open_is_chosen(known: JoinLoad | None) -> None:
    def method(*hint) -> JoinMethod:
        choice = choose_method(known, True, MethodHint(*hint), PRICES)
        assert choice.is_hinted
        return choice.method

    assert method(HASH) == JoinMethod(HASH)
    assert method(WNL).algorithm == WNL
    assert method(WNL, None, "optimal") == JoinMethod(WNL, 1, "optimal")
    assert method(WHJ).n_buckets > 1
    assert method(WHJ, 100).n_buckets == 100
    assert method(WHJ, 100, "probe_all") == JoinMethod(WHJ, 100, "probe_all")
