"""A running join of many streams gives up an algorithm that its load has outrun; what it puts out does not change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pyarrow as pa
import pytest

from sash.cost import replan
from sash.cost.choose_join import SHIPPED
from sash.cost.choose_multiway import MultiwayChoice, choose_algorithm
from sash.cost.multiway_cost import MW, PROBE, MultiwayLoad, combinations_per_s
from sash.cost.multiway_prices import MultiwayCosts, MultiwayPrices
from sash.cost.replan import ReplanPolicy
from sash.cost.replan_multiway import ManyStep, MultiwayWatch
from sash.embedded.multiway_load import ManyLoadStreams, even_many_load, many_schema, many_spec
from sash.operators.multiway_join import MultiwayJoin
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena

LOOKED_AT = MultiwayCosts(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
PRICES = replace(
    SHIPPED,
    multiway=MultiwayPrices(LOOKED_AT, LOOKED_AT, LOOKED_AT, LOOKED_AT, LOOKED_AT),
)
"""What is looked at decides, and nothing else."""
SLOW = even_many_load(3, 1_000, 0.01, None, slow=2_000)
"""Merging drops nearly all that comes, as the third stream has nothing for it; see `test_what_is_best`."""
FAST = even_many_load(3, 1_000, 0.05, 1_000)
PATIENT = ReplanPolicy(min_tuples=1_000)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replan, "POLICY", PATIENT)


def join_for(load: MultiwayLoad, choice: MultiwayChoice | None) -> MultiwayJoin:
    spec = replace(many_spec(load), choice=choice)
    return MultiwayJoin(spec, *(many_schema(number) for number in range(load.n_inputs)))


def steps(load: MultiwayLoad, n_steps: int, n_tuples: int = 200) -> Iterator[tuple[list[pa.Table], int]]:
    streams = ManyLoadStreams(load)
    for _ in range(n_steps):
        yield streams.step(n_tuples)


def run(join: MultiwayJoin, load: MultiwayLoad, n_steps: int = 30) -> list[tuple]:
    found = [join.process(batches, clock) for batches, clock in steps(load, n_steps)]
    return sorted(tuple(row.values()) for table in found for row in table.to_pylist())


def chosen_for(load: MultiwayLoad) -> str:
    return choose_algorithm(load, PRICES).algorithm


def begin_with(algorithm: str, load: MultiwayLoad, is_hinted: bool = False) -> MultiwayChoice:
    return replace(choose_algorithm(load, PRICES), algorithm=algorithm, is_hinted=is_hinted)


def test_what_is_best() -> None:
    assert chosen_for(SLOW) == MW
    assert chosen_for(FAST) == PROBE


@pytest.mark.parametrize(("load", "begins", "ends"), [(SLOW, PROBE, MW), (FAST, MW, PROBE), (FAST, "nlw", PROBE)])
def test_a_join_that_its_load_has_outrun_goes_on_with_another_algorithm(
    load: MultiwayLoad, begins: str, ends: str
) -> None:
    join = join_for(load, begin_with(begins, load))
    assert join.algorithm == begins
    found = run(join, load)
    assert (join.algorithm, join.n_replans) == (ends, 1)
    assert found == run(join_for(load, None), load)


def test_a_join_of_which_nothing_was_known_chooses_by_its_first_tuples() -> None:
    join = join_for(SLOW, choose_algorithm(None, PRICES))
    assert join.algorithm == PROBE
    found = [join.process(batches, clock) for batches, clock in steps(SLOW, 1, 1_500)]
    assert (join.algorithm, join.n_replans) == (MW, 1)
    assert found


def test_an_algorithm_that_was_asked_for_stays() -> None:
    join = join_for(SLOW, choose_algorithm(None, PRICES, "nlw"))
    run(join, SLOW)
    assert (join.algorithm, join.n_replans) == (PROBE, 0), "the choice says nothing: `algorithm` of the plan does"
    hinted = MultiwayJoin(
        replace(many_spec(SLOW), algorithm="nlw", choice=choose_algorithm(None, PRICES, "nlw")),
        *(many_schema(number) for number in range(3)),
    )
    run(hinted, SLOW)
    assert (hinted.algorithm, hinted.n_replans) == ("nlw", 0)


def test_where_memory_is_limited_there_are_probes_alone(tmp_path: Path) -> None:
    join = join_for(SLOW, begin_with(MW, SLOW))
    join.reset(SpillArena(MemoryBudget.of(1 << 20, tmp_path)))
    found = run(join, SLOW)
    assert (join.algorithm, join.n_replans) == (PROBE, 0)
    assert found == run(join_for(SLOW, None), SLOW)


def test_work_is_counted_over_all_algorithms() -> None:
    join, probing = join_for(SLOW, begin_with(PROBE, SLOW)), join_for(SLOW, None)
    n_rows = sum(batch.num_rows for batches, _ in steps(SLOW, 30) for batch in batches)
    run(join, SLOW)
    found = run(probing, SLOW)
    assert join.counts.outputs == len(found)
    assert join.counts.insertions <= n_rows == probing.counts.insertions


def test_an_input_that_was_silent_counts_as_half_a_tuple() -> None:
    watch = MultiwayWatch(n_arrived=[0, 0, 0])
    watch.see(ManyStep((10, 10, 0), 0, 20, 2_000_000, 1_000_000))
    watch.see(ManyStep((0, 0, 0), 0, 20, 3_000_000, 3_000_000))
    assert watch.load(FAST, 1_000_000, lambda: (0.5,)) is None, "no time has passed"
    seen = watch.load(FAST, 3_000_000, lambda: (0.5,))
    assert seen is not None
    assert (seen.rates, seen.matches, seen.step_s) == ((5.0, 5.0, 0.25), (0.5,), 1.0)


def test_what_is_put_out_says_how_many_pass_the_conditions() -> None:
    load = even_many_load(3, 100, 0.1, None, share=0.5)
    watch = MultiwayWatch(n_arrived=[0, 0, 0])
    n_met = round(10 * combinations_per_s(load, range(3)))
    watch.see(ManyStep((1_000, 1_000, 1_000), n_met // 100, 0, 10_000_000, 0))
    seen = watch.load(load, 10_000_000, tuple)
    assert seen is not None
    assert [each.share for each in seen.conditions] == pytest.approx([0.1, 0.1], rel=0.01)


def test_prices_add_up() -> None:
    assert sum(astuple(LOOKED_AT)) == 4
