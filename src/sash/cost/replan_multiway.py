"""When a running join of many streams changes its algorithm: as joins of two change their method (`replan`).

What is watched is how many tuples of each input come, and how many combinations are put out: against those that rates
and keys lead to expect, that says which share passes the conditions. How often keys are equal is looked up at the end
of an interval, in the windows, which every algorithm has. An input that was silent is taken to have had half a tuple:
that there is nothing to be joined with is what algorithms differ by most.

A join of which nothing was known when it was planned takes the first tuples at their word, as soon as they are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sash.cost import replan
from sash.cost.choose_multiway import MultiwayChoice, choose_algorithm, is_algorithm_outrun
from sash.cost.multiway_cost import ManyCondition, MultiwayLoad, combinations_per_s
from sash.cost.replan import IntervalWatch
from sash.store.batch import BEGINNING

N_TELLING = 1024
"""So many tuples say enough of the rates and keys to come to begin with an algorithm."""
SILENT = 0.5
"""So many tuples an input is taken to have had that had none."""
FEWEST_EXPECTED = 64
"""So many combinations say enough of how many pass the conditions."""

FindMatches = Callable[[], tuple[float, ...]]
"""For each key how often two tuples of the windows have the same."""


@dataclass(frozen=True, slots=True)
class ManyStep:
    """What a step of a join of many was: tuples by input, combinations, tuples held behind it, its clock, and when the
    oldest of its tuples came, the clock if there was none."""

    n_arrived: Sequence[int]
    n_out: int
    n_held: int
    clock: int
    oldest_us: int


@dataclass(slots=True)
class MultiwayWatch(IntervalWatch):
    """What a join of many has seen since the last interval ended."""

    n_out: int = 0

    def see(self, step: ManyStep) -> None:
        if self.since == BEGINNING and any(step.n_arrived):
            self.since = step.oldest_us
        self.arrive(step.n_arrived)
        self.n_out += step.n_out

    def begin(self, clock: int) -> None:
        self.since, self.n_arrived, self.n_out, self.n_steps = clock, [0] * len(self.n_arrived), 0, 0

    def load(self, shape: MultiwayLoad, clock: int, find_matches: FindMatches) -> MultiwayLoad | None:
        """What was seen until now, of a join of this shape; None if that was but an instant."""
        seconds = (clock - self.since) / 1e6
        if seconds <= 0:
            return None
        rates = tuple(max(count, SILENT) / seconds for count in self.n_arrived)
        seen = replace(shape, rates=rates, matches=find_matches(), step_s=seconds / self.n_steps)
        n_expected = seconds * combinations_per_s(seen, range(seen.n_inputs))
        return replace(seen, conditions=self._passing(seen.conditions, n_expected))

    def _passing(self, conditions: tuple[ManyCondition, ...], n_expected: float) -> tuple[ManyCondition, ...]:
        """What passes them all is shared out evenly."""
        if not conditions or n_expected < FEWEST_EXPECTED:
            return conditions
        share = min(1.0, max(self.n_out, 1) / n_expected) ** (1 / len(conditions))
        return tuple(replace(each, share=share) for each in conditions)


def next_algorithm(
    watch: MultiwayWatch,
    step: ManyStep,
    algorithm: str,
    choice: MultiwayChoice,
    shape: MultiwayLoad,
    find_matches: FindMatches,
) -> str | None:
    """The algorithm to go on with, None if nothing speaks against the one there is. Called after every step of a join
    that was not hinted.
    """
    watch.see(step)
    if not watch.has_begun:
        if sum(watch.n_arrived) < N_TELLING:
            return None
        watch.has_begun = True
        first = watch.load(shape, step.clock, find_matches) if choice.load is None else None
        return choose_algorithm(first, choice.prices).algorithm if first is not None else None
    if not replan.POLICY.is_over(watch, step.clock, round(1e6 * max(map(max, shape.reach_s)))):
        return None
    load = watch.load(shape, step.clock, find_matches)
    watch.begin(step.clock)
    if load is None:
        return None
    if not replan.POLICY.gives_up(watch, is_algorithm_outrun(algorithm, load, choice.prices.multiway), step.n_held):
        return None
    return choose_algorithm(load, choice.prices).algorithm
