"""Schedules in virtual time: the same answer, at different moments."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import sash
from sash.lab.experiments.delays import Delays, Period, count_wrong, run_ticks
from sash.lab.experiments.operator_costs import COSTS_US
from sash.lab.experiments.scheduling import SalesWorkload, VirtualRun, kind_of
from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.retail import QUERIES, Retail
from sash.testing import assert_changes

SECOND = 1_000_000
PERIOD = Period(4 * SECOND, 7 * SECOND)
RETAIL = Retail(10, PERIOD.duration_us, PERIOD.window_us, favorites=0.3, seed=2)


def measured(query: str, schedule: str) -> Delays:
    return run_ticks(VirtualRun(SalesWorkload(query, RETAIL), schedule), PERIOD)[0]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["tpa", "nta", "hybrid"])
@pytest.mark.parametrize("query", QUERIES)
def test_tick_by_tick_it_is_the_answer_of_the_engine(query, schedule):
    """Up to the last tick; the engine knows nothing after its last tuple."""
    workload = SalesWorkload(query, RETAIL)
    _, changes = run_ticks(VirtualRun(workload, schedule), PERIOD)
    relations = {name: sash.relation(table) for name, table in workload.relations().items()}
    expected = sash.sql(workload.text(schedule), **workload.streams(), **relations)
    last = expected.column("_ts")[-1].as_py()
    seen, expected = (each.filter(pc.less(each.column("_ts"), last)) for each in (changes, expected))
    assert seen.num_rows > 10
    assert_changes(seen, expected)


def test_tuples_wait_for_the_tick_and_for_work_alone():
    """A tick is 100 ms; under Time Probing, nothing waits longer."""
    delays = measured("q1", "tpa")
    assert 0 < delays.average_s < delays.maximum_s < 0.101
    assert 0 < delays.processing_us < 100


def test_an_operator_that_waits_for_input_lets_expirations_wait_too():
    late, probed = measured("q1", "input"), measured("q1", "tpa")
    assert late.average_s > 2 * probed.average_s
    assert late.n_tuples == probed.n_tuples


def test_twice_the_tuples_cost_twice_as_much():
    run = VirtualRun(SalesWorkload("q1", RETAIL), "nta")
    run.tick(START_US - 1, START_US + PERIOD.duration_us)
    counted = {name: run.rows_in[name] + run.expired[name] for name in run.rows_in}
    assert run.busy_us == pytest.approx(sum(n * COSTS_US[kind_of(name)] for name, n in counted.items()))
    expire = next(name for name in counted if kind_of(name) == "Expire")
    assert run.expired[expire] > 0
    assert run.rows_in["4-GroupBy"] == run.rows_in[expire] + run.expired[expire]


@pytest.mark.slow
def test_queues_before_operators_with_a_clock_make_wrong_answers():
    workload = SalesWorkload("q1", RETAIL)
    n_wrong = {}
    for schedule in ("clock", "tpa"):
        _, changes = run_ticks(VirtualRun(workload, schedule), PERIOD)
        n_wrong[schedule], n_instants = count_wrong(workload, changes, PERIOD, 100)
        assert n_instants > 50
    assert n_wrong["clock"] > n_wrong["tpa"] == 0


@pytest.mark.slow
def test_a_seed_gives_the_same_delays():
    assert measured("q5", "input") == measured("q5", "input")
