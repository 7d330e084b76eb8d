"""What the units of the cost model of joins of many streams cost on this machine: a part of `sash calibrate`.

The real operator runs under synthetic loads by every algorithm. Prices are those with which the work that the model
expects explains the processor time best, so that they make up for what the model leaves out. What a step costs whatever
finds the combinations is fitted beside them, for all algorithms alike, and left out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from time import process_time_ns

import numpy as np

from sash.cost.choose_join import SHIPPED
from sash.cost.choose_multiway import ALTERNATIVES, estimate_multiway, price_list
from sash.cost.multiway_cost import LCA, MultiwayLoad, multiway_work
from sash.cost.multiway_prices import MultiwayCosts, MultiwayPrices
from sash.embedded.calibration import LITTLE_ERROR, N_FITS, Note, least_squares
from sash.embedded.multiway_load import ManyLoadStreams, even_many_load, many_schema, many_spec
from sash.operators.multiway_join import MultiwayJoin
from sash.store.block_window import CUTS, MAX_CUTS_PER_BATCH

STEP_ROWS = 8192
MOST_NS = 40_000_000
"""Of a step, by its estimate; an algorithm that would take longer gets a smaller one."""
HOPELESS_NS = 20_000
"""An algorithm that should take so long for a tuple is not measured: nobody would choose it."""
FILL_ROWS = 16_384
FEWEST_ROWS = 256
N_REPEATS = 3
_UNITS = [each.name for each in fields(MultiwayCosts)]
_LISTS = [each.name for each in fields(MultiwayPrices)]


@dataclass(frozen=True, slots=True)
class ManySample:
    """What a tuple took in a step by an algorithm, and the work that the model expects of it."""

    prices: str
    """Of which list."""
    work: tuple[float, ...]
    n_blocks: float
    n_steps: float
    ns: float


class ManyBed:
    """A join of many under a load, its windows full, that can be measured by one algorithm after the other."""

    def __init__(self, load: MultiwayLoad):
        self.load = load
        self.join = MultiwayJoin(many_spec(load), *(many_schema(number) for number in range(load.n_inputs)))
        self._streams = ManyLoadStreams(load)
        while self._streams.clock_us < 1e6 * max(map(max, load.reach_s)):
            self.join.process(*self._streams.step(FILL_ROWS))

    def measure(self, algorithm: str, n_tuples: int) -> float:
        """Nanoseconds per tuple of a step of about so many, by an algorithm: of several steps, the quickest."""
        if self.join.algorithm != algorithm:
            self.join.adopt(algorithm)
        return min(self._measure_step(n_tuples) for _ in range(N_REPEATS))

    def count(self, algorithm: str, n_tuples: int) -> tuple[float, ...]:
        """The work that is counted in such a step, per tuple, in the order of `MultiwayCounts`."""
        if self.join.algorithm != algorithm:
            self.join.adopt(algorithm)
        before = self.join.counts
        batches, clock = self._streams.step(n_tuples)
        self.join.process(batches, clock)
        n_given = sum(batch.num_rows for batch in batches)
        return tuple((after - was) / n_given for after, was in zip(self.join.counts, before))

    def _measure_step(self, n_tuples: int) -> float:
        batches, clock = self._streams.step(n_tuples)
        gc.disable()
        started = process_time_ns()
        self.join.process(batches, clock)
        ns = process_time_ns() - started
        gc.enable()
        return ns / max(1, sum(batch.num_rows for batch in batches))


def calibrate_multiway(note: Callable[[int, int], None] | Note = lambda done, total: None) -> MultiwayPrices:
    """Measures every algorithm, and fits the prices of all lists."""
    loads, samples = list(_loads()), list[ManySample]()
    for number, load in enumerate(loads):
        bed = ManyBed(load)
        for algorithm in algorithms_for(load):
            samples += [_sample(bed, algorithm, n_tuples) for n_tuples in _step_sizes(algorithm, load)]
        note(number + 1, len(loads))
    return fit_multiway(samples)


def algorithms_for(load: MultiwayLoad) -> Iterator[str]:
    """Those that are worth a measurement under a load."""
    for algorithm in ALTERNATIVES:
        is_other = algorithm != LCA or not load.has_one_window
        if is_other and _ns_per_tuple(algorithm, load) < HOPELESS_NS:
            yield algorithm


def step_size(algorithm: str, load: MultiwayLoad, n_most: int = STEP_ROWS) -> int:
    """So many tuples that a step does not take long."""
    return int(min(n_most, max(FEWEST_ROWS, MOST_NS / _ns_per_tuple(algorithm, load))))


def fit_multiway(samples: Sequence[ManySample]) -> MultiwayPrices:
    """Prices that are not negative, and that miss the measured times by as little as possible, relatively; those that
    come with Sash of what was not measured.
    """
    n_units = len(_UNITS)
    work = np.zeros((len(samples), n_units * len(_LISTS) + 2))
    for line, each in zip(work, samples):
        first = n_units * _LISTS.index(each.prices)
        line[first : first + n_units], line[-2:] = each.work, (each.n_blocks, each.n_steps)
    relative = work / np.array([each.ns for each in samples])[:, None]
    found = least_squares(relative, np.ones(len(samples)))
    for _ in range(N_FITS):
        weights = 1 / np.sqrt(np.maximum(np.abs(relative @ found - 1), LITTLE_ERROR))
        found = least_squares(relative * weights[:, None], weights)
    lists = dict(zip(_LISTS, found[:-2].reshape(len(_LISTS), n_units).tolist(), strict=True))
    measured = {each.prices for each in samples}
    return replace(SHIPPED.multiway, **{name: MultiwayCosts(*lists[name]) for name in measured})


def _sample(bed: ManyBed, algorithm: str, n_tuples: int) -> ManySample:
    rate = sum(bed.load.rates)
    load = replace(bed.load, step_s=n_tuples / rate)
    work = tuple(each / rate for each in astuple(multiway_work(algorithm, load)))
    cuts = CUTS * load.step_s / max(map(max, load.reach_s))
    n_blocks = load.n_inputs * min(MAX_CUTS_PER_BATCH, 1 + cuts) / n_tuples
    return ManySample(price_list(algorithm, load), work, n_blocks, 1 / n_tuples, bed.measure(algorithm, n_tuples))


def _ns_per_tuple(algorithm: str, load: MultiwayLoad) -> float:
    return estimate_multiway(algorithm, load, SHIPPED.multiway).ns / sum(load.rates) + 100


def _step_sizes(algorithm: str, load: MultiwayLoad) -> list[int]:
    """Two sizes tell what turns cost."""
    n_most = step_size(algorithm, load)
    return [n_most, max(FEWEST_ROWS, n_most // 8)]


def _loads() -> Iterator[MultiwayLoad]:
    """Loads that tell the units apart: with and without keys, with conditions, with a slow stream, windows of pairs."""
    for n_inputs in (3, 4):
        yield even_many_load(n_inputs, 20_000, 0.01, 100)
        yield even_many_load(n_inputs, 20_000, 0.3, 10_000)
        yield even_many_load(n_inputs, 1_000, 1, 10_000, slow=1_000)
        yield even_many_load(n_inputs, 1_000, 0.1, 100, slow=1_000, share=0.1)
        yield even_many_load(n_inputs, 200, 0.02, None)
    yield even_many_load(3, 1_000, 0.1, None, slow=1_000)
    yield even_many_load(3, 1_000, 0.1, None, slow=1_000, share=0.1)
    yield even_many_load(3, 1_000, 0.01, None, share=0.1)
    yield even_many_load(3, 20_000, 0.01, 100, share=0.1, is_local=True)
    yield even_many_load(3, 10_000, 0.01, 1_000, is_local=True)
    yield even_many_load(3, 1_000, 0.05, None, slow=100, is_local=True)
    yield even_many_load(3, 100_000, 1, 100_000)
