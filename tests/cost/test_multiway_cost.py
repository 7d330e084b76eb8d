"""The model of joins of many streams against the counters of joins that run, and what is chosen by it."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from sash.cost.choose_join import SHIPPED
from sash.cost.choose_multiway import ALTERNATIVES, choose_algorithm, estimate_multiway, estimates_of
from sash.cost.multiway_cost import (
    HW,
    LCA,
    MW,
    NLW,
    PROBE,
    MultiwayLoad,
    MultiwayWork,
    combinations_per_s,
    multiway_work,
)
from sash.embedded.multiway_calibration import ManyBed
from sash.embedded.multiway_load import even_many_load
from sash.errors import PlanError

LOADS = {
    "equal rates": even_many_load(3, 1_000, 0.1, 50),
    "of four": even_many_load(4, 1_000, 0.03, 20),
    "no key": even_many_load(3, 200, 0.03, None),
    "a slow one": even_many_load(3, 2_000, 0.1, 100, slow=200),
    "no key, a slow one": even_many_load(3, 500, 0.05, None, slow=50),
    "windows of pairs": even_many_load(3, 1_000, 0.1, 50, is_local=True),
    "windows of pairs, no key": even_many_load(3, 200, 0.05, None, is_local=True),
}
STEP_ROWS = 4_000


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_the_model_expects_the_work_that_is_done(name: str) -> None:
    """Tuples looked at, tuples put into buffers and combinations, by every algorithm, per tuple."""
    load = LOADS[name]
    bed, rate = ManyBed(load), sum(load.rates)
    for algorithm in ALTERNATIVES:
        bed.count(algorithm, STEP_ROWS)
        comparisons, insertions, _, _, outputs = bed.count(algorithm, STEP_ROWS)
        expected = multiway_work(algorithm, replace(load, step_s=STEP_ROWS / rate)).times(1 / rate)
        assert expected.comparisons == pytest.approx(comparisons, rel=0.6, abs=0.3), algorithm
        assert expected.outputs == pytest.approx(outputs, rel=0.25, abs=0.05), algorithm
        assert expected.insertions == pytest.approx(insertions, rel=0.4, abs=0.05), algorithm


@pytest.mark.parametrize(("keys", "is_local"), [(None, False), (50, False), (50, True)])
def test_combinations_are_those_of_every_last_tuple(keys: int | None, is_local: bool) -> None:
    """λ^3 w^2 · 3 for three streams within one window; with windows of pairs in a row, a part of those."""
    load = even_many_load(3, 100, 0.1, keys, is_local=is_local)
    found = combinations_per_s(load, range(3)) * (keys or 1) ** 2
    whole = 3 * 100**3 * 0.1**2
    assert found == pytest.approx(whole, rel=1e-4) if not is_local else 0.2 * whole < found < 0.8 * whole


def test_what_is_expected_of_two_streams_are_the_equations_of_joins_of_two() -> None:
    """λA λB (TA + TB) comparisons by nested loops."""
    load = even_many_load(2, 100, 0.5, None)
    assert multiway_work(NLW, load).comparisons == pytest.approx(100 * 100 * (0.5 + 0.5), rel=1e-4)


def test_conditions_let_combinations_of_probes_grow_no_further() -> None:
    plain, tested = (even_many_load(3, 100, 0.1, None, share=share) for share in (None, 0.1))
    assert multiway_work(PROBE, tested).comparisons < 0.6 * multiway_work(PROBE, plain).comparisons
    assert multiway_work(MW, tested).comparisons == multiway_work(MW, plain).comparisons
    assert multiway_work(MW, tested).tests == multiway_work(MW, tested).outputs


def test_a_slow_stream_lets_merging_drop_what_it_will_not_join() -> None:
    even, slow = (even_many_load(3, 1_000, 0.01, None, slow=slow) for slow in (1, 10_000))
    assert multiway_work(MW, slow).insertions < 0.01 * multiway_work(MW, even).insertions
    assert multiway_work(MW, slow).comparisons < 0.1 * multiway_work(NLW, slow).comparisons


def test_what_is_chosen_costs_the_least_or_hardly_more() -> None:
    for load in LOADS.values():
        choice = choose_algorithm(load, SHIPPED)
        assert choice.estimates[0].algorithm == choice.algorithm
        assert choice.estimates[0].ns <= 1.2 * min(each.ns for each in choice.estimates)
        assert [each.ns for each in choice.estimates[1:]] == sorted(each.ns for each in choice.estimates[1:])
        assert {each.algorithm for each in choice.estimates} == {
            each.algorithm for each in estimates_of(load, SHIPPED.multiway)
        }


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (even_many_load(3, 1_000, 0.01, None, share=0.1), MW),
        (even_many_load(3, 1_000, 0.1, None, slow=1_000, share=0.1), MW),
        (even_many_load(3, 100_000, 1, 100_000), PROBE),
        (even_many_load(3, 20_000, 1, 10_000, slow=1_000), PROBE),
        (even_many_load(4, 1_000, 1, 10_000), HW),
    ],
)  # fmt: skip
def test_choices(load: MultiwayLoad, expected: str) -> None:
    assert choose_algorithm(load, SHIPPED).algorithm == expected


def test_without_a_load_or_with_a_hint_there_is_nothing_to_choose() -> None:
    assert choose_algorithm(None, SHIPPED).algorithm == PROBE
    hinted = choose_algorithm(LOADS["no key"], SHIPPED, "gca")
    assert (hinted.algorithm, hinted.is_hinted, hinted.estimates) == ("gca", True, ())


def test_of_algorithms_that_cost_about_the_same_probes_are_taken() -> None:
    load = LOADS["no key"]
    costs = SHIPPED.multiway.probes
    own = estimate_multiway(PROBE, load, SHIPPED.multiway).ns
    best = min(each.ns for each in estimates_of(load, SHIPPED.multiway) if each.algorithm != PROBE)
    scaled = type(costs)(*(best / own * each for each in astuple(costs)))
    for factor, is_taken in ((1.15, True), (1.25, False)):
        probes = type(costs)(*(factor * each for each in astuple(scaled)))
        prices = replace(SHIPPED, multiway=replace(SHIPPED.multiway, probes=probes))
        assert (choose_algorithm(load, prices).algorithm == PROBE) == is_taken


def test_lca_is_considered_where_windows_differ() -> None:
    assert LCA in {each.algorithm for each in estimates_of(LOADS["windows of pairs"], SHIPPED.multiway)}
    assert LCA not in {each.algorithm for each in estimates_of(LOADS["no key"], SHIPPED.multiway)}


def test_a_load_must_be_one() -> None:
    with pytest.raises(PlanError, match=r"must be more than 0"):
        replace(LOADS["no key"], rates=(1.0, 0.0, 1.0))
    with pytest.raises(PlanError, match=r"from 0 to 1"):
        replace(LOADS["equal rates"], matches=(1.5,))


def test_work_is_in_proportion_to_time() -> None:
    assert MultiwayWork(1, 2, 3).times(2) == MultiwayWork(2, 4, 6)
