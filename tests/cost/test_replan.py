"""A running join gives up a method that its load has outrun; what it puts out does not change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import pyarrow as pa
import pytest

from sash.cost import replan
from sash.cost.choose_join import AlgorithmPrices, JoinChoice, JoinPrices, choose_method, is_outrun
from sash.cost.join_cost import HASH, INVALIDATIONS, WHJ, WNL, JoinCosts, JoinLoad, JoinMethod
from sash.cost.replan import LoadWatch, ReplanPolicy
from sash.embedded.join_load import LoadStreams, load_schema, load_spec
from sash.operators.window_join import WindowJoin
from sash.store.batch import BEGINNING
from sash.store.directory import Directory

SLOW = JoinLoad((20.0, 20.0), (1.0, 1.0), 200)
FAST = replace(SLOW, rates=(2000.0, 2000.0))
PRICES = JoinPrices(
    hash=AlgorithmPrices(JoinCosts(scan=5, insert=300, invalidate=20, check=0, output=50), 10),
    buckets=AlgorithmPrices(JoinCosts(scan=1, insert=150, invalidate=20, check=3, output=50), 40),
)
"""Nested loops are best for the slow load, and far from it for the fast one."""
PATIENT = ReplanPolicy(min_tuples=50)


def join_for(load: JoinLoad, method: JoinMethod, is_hinted: bool = False, is_watched: bool = True) -> WindowJoin:
    choice = replace(choose_method(load, True, prices=PRICES), method=method, is_hinted=is_hinted)
    spec = replace(load_spec(load), method=method, choice=choice if is_watched else None)
    return WindowJoin(spec, load_schema(0), load_schema(1))


def steps(*phases: tuple[JoinLoad, int]) -> Iterator[tuple[list[pa.Table], int]]:
    """So many steps of each load, one after the other; a step is a tenth of a second."""
    start_us = 0
    for seed, (load, n_steps) in enumerate(phases):
        streams = LoadStreams(load, seed)
        for _ in range(n_steps):
            batches, clock = streams.step(round(sum(load.rates) / 10))
            yield [_later(batch, start_us) for batch in batches], clock + start_us
        start_us += streams.clock_us


def _later(batch: pa.Table, us: int) -> pa.Table:
    for name in ("_ts", "_expires"):
        moved = pa.array(batch[name].to_numpy() + us)
        batch = batch.set_column(batch.schema.get_field_index(name), name, moved)
    return batch


def run(join: WindowJoin, *phases: tuple[JoinLoad, int]) -> list[tuple]:
    seen = [join.process(batches, clock) for batches, clock in steps(*phases)]
    return sorted(tuple(row.values()) for table in seen for row in table.to_pylist())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replan, "POLICY", PATIENT)


@pytest.mark.slow
def test_a_rate_that_grows_a_hundredfold_brings_another_method() -> None:
    watched, still = (join_for(SLOW, JoinMethod(WNL), is_watched=is_watched) for is_watched in (True, False))
    phases = (SLOW, 40), (FAST, 20)
    assert run(watched, *phases) == run(still, *phases)
    assert watched.n_replans == 1
    assert watched.method.algorithm != WNL
    assert (still.n_replans, still.method) == (0, JoinMethod(WNL))


def test_a_steady_rate_does_not() -> None:
    join = join_for(SLOW, JoinMethod(WNL))
    run(join, (SLOW, 100))
    assert join.n_replans == 0


def test_what_was_hinted_stays() -> None:
    join = join_for(SLOW, JoinMethod(WNL), is_hinted=True)
    run(join, (SLOW, 20), (FAST, 20))
    assert (join.n_replans, join.method) == (0, JoinMethod(WNL))


def test_a_burst_shorter_than_the_patience_does_not() -> None:
    join = join_for(SLOW, JoinMethod(WNL))
    run(join, (SLOW, 20), (FAST, 4), (SLOW, 20))
    assert join.n_replans == 0


def test_after_a_restart_the_plan_counts() -> None:
    join = join_for(SLOW, JoinMethod(WNL))
    run(join, (SLOW, 10), (FAST, 20))
    assert join.method != JoinMethod(WNL)
    again = join_for(SLOW, JoinMethod(WNL))
    entries = {name: log.entries() for name, log in join.logs().items()}
    again.restore(entries, join.registers())
    assert (again.method, again.n_replans) == (JoinMethod(WNL), 0)
    join.reset(join._finder.windows[0].arena)
    assert (join.method, join.n_replans, sum(join.counts)) == (JoinMethod(WNL), 0, 0)


def border() -> tuple[JoinLoad, JoinMethod, JoinChoice]:
    """A load under which two methods cost nearly the same, and the worse of them."""
    load = replace(SLOW, n_distinct=1e6)
    while choose_method(load, True, prices=PRICES).method.algorithm != HASH:
        load = replace(load, rates=(load.rates[0] * 1.02, load.rates[1] * 1.02))
    below = replace(load, rates=(load.rates[0] / 1.02, load.rates[1] / 1.02))
    return load, choose_method(below, True, prices=PRICES).method, choose_method(load, True, prices=PRICES)


@pytest.mark.slow
def test_at_the_border_a_join_does_not_go_to_and_fro() -> None:
    load, other, choice = border()
    assert other != choice.method
    for method in (other, choice.method):
        for factor in (0.95, 1.0, 1.05):
            near = replace(load, rates=(load.rates[0] * factor, load.rates[1] * factor))
            assert not is_outrun(method, near, True, choice.prices)


def test_the_watch_tells_the_load() -> None:
    join = join_for(FAST, JoinMethod(HASH))
    known = replace(FAST, n_distinct=100)
    clock, seen = 0, None
    for batches, clock in steps((known, 10)):
        join.process(batches, clock)
    join._watch.begin(clock)
    for batches, later in steps((known, 20)):
        if later > clock:
            join.process(batches, later)
            seen = join._watch.load(later)
            if seen is not None and later >= 1_900_000:
                break
    assert seen is not None
    assert seen.rates == pytest.approx(FAST.rates, rel=0.05)
    assert seen.n_distinct == pytest.approx(100, rel=0.25)


def test_nothing_can_be_said_of_a_silent_side() -> None:
    watch = LoadWatch((1_000_000, 1_000_000))
    watch.begin(0)
    watch.see((10, 0), ((0, 0), (10, 0)), 0)
    assert watch.load(1_000_000) is None
    watch.see((0, 10), ((10, 0), (10, 10)), 1)
    assert watch.load(BEGINNING) is None
    assert watch.load(1_000_000) == JoinLoad((10, 10), (1, 1), 100)


class Restless(ReplanPolicy):
    """Another method every other step."""

    methods = cycle(
        [JoinMethod(HASH), JoinMethod(WNL), *(JoinMethod(WHJ, 3, invalidation) for invalidation in INVALIDATIONS)]
    )

    def next_method(self, watch: LoadWatch, clock: int, method: JoinMethod, choice: JoinChoice) -> JoinMethod | None:
        return next(self.methods) if watch.n_steps % 2 else None


def test_however_often_the_method_changes_the_pairs_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replan, "POLICY", Restless())
    dense = replace(SLOW, rates=(50.0, 50.0), n_distinct=5)
    restless, still = (join_for(dense, JoinMethod(HASH), is_watched=is_watched) for is_watched in (True, False))
    assert run(restless, (dense, 60)) == run(still, (dense, 60))
    assert restless.n_replans > 20
    assert restless.counts.outputs == still.counts.outputs


@pytest.mark.parametrize("is_known", [False, True])
def test_where_the_plan_knew_nothing_the_first_step_decides(is_known: bool) -> None:
    """Few keys: what counts is how fast the tuples of one key are scanned."""
    load = JoinLoad((500.0, 500.0), (1.0, 1.0), 20)
    choice = choose_method(load if is_known else None, True)
    spec = replace(load_spec(load), choice=replace(choice, method=JoinMethod(HASH)))
    join, still = (WindowJoin(each, load_schema(0), load_schema(1)) for each in (spec, load_spec(load)))
    batches, clock = LoadStreams(load).step(1200)
    outputs = [each.process(batches, clock).to_pylist() for each in (join, still)]
    assert sorted(map(str, outputs[0])) == sorted(map(str, outputs[1]))
    assert (join.n_replans == 1) == (join.method.algorithm != HASH) == (not is_known)


def test_a_method_that_is_given_up_leaves_no_files_behind(tmp_path) -> None:
    join = join_for(SLOW, JoinMethod(HASH))
    join.reset(Directory(tmp_path))
    n_files = {}
    for method in (JoinMethod(WHJ, 16), JoinMethod(HASH), JoinMethod(WHJ, 64), JoinMethod(HASH)):
        join.adopt(method)
        n_files.setdefault(method.algorithm, []).append(len(list(tmp_path.iterdir())))
    assert all(len(set(each)) == 1 for each in n_files.values())
