"""When a running join changes its method: it watches its load in event time, and gives up a method that is outrun.

    clock      |---- interval ----|---- interval ----|---- interval ----|
    load       inside              outrun             outrun → outrun → the best method for what was seen

An interval is a part of the window and some thousands of tuples long, so that a burst is not taken for a rate. Several
intervals in a row must agree, and the margin by which another method must be better keeps two that cost the same from
taking turns. Between two changes at least as many tuples arrive as the state holds, so that filling indexes anew at
most doubles the work of insertions.

A join of which nothing was known when it was planned does not wait that long: it chooses by its first step, before it
looks for pairs.

Nothing of this is in the output: every method finds the same pairs. Nor in the state: after a restart a join begins
with the plan's method and watches anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sash.cost.choose_join import JoinChoice, choose_method, is_outrun
from sash.cost.join_cost import JoinLoad, JoinMethod
from sash.store.batch import BEGINNING

Held: TypeAlias = tuple[int, int]
"""How many tuples the windows of both sides hold."""


@dataclass(slots=True, kw_only=True)
class IntervalWatch:
    """Since when a join watches its load, how much has come, and for how long its method has been outrun."""

    since: int = BEGINNING
    """The clock when the interval began."""
    n_arrived: list[int] = field(default_factory=lambda: [0, 0])
    n_steps: int = 0
    n_strikes: int = 0
    """How many intervals in a row the method was outrun in."""
    n_since_change: int = 0
    """Tuples that have arrived since the method was last changed."""
    n_changes: int = 0
    has_begun: bool = False
    """Whether the first step that says something of the load has come."""

    def arrive(self, arrived: Sequence[int]) -> None:
        """Takes note of the tuples of a step, by input."""
        self.n_arrived = [known + more for known, more in zip(self.n_arrived, arrived, strict=True)]
        self.n_steps += 1
        self.n_since_change += sum(arrived)

    def begin(self, clock: int) -> None:
        """Starts a new interval."""
        self.since, self.n_arrived, self.n_steps = clock, [0] * len(self.n_arrived), 0


@dataclass(slots=True)
class LoadWatch(IntervalWatch):
    """What a join of two has seen since the last interval ended."""

    windows_us: tuple[int | None, int | None]
    """The longest life on each side, None if rows bound it."""
    n_meetings: float = 0.0
    """Pairs of an arriving tuple and one in the window of the other side."""
    n_pairs: int = 0
    """Those of them with equal keys."""
    n_held: Held = (0, 0)

    def see(self, arrived: Sequence[int], held: tuple[Held, Held], n_pairs: int) -> None:
        """Takes note of a step: tuples that came, what the windows held before and after it, pairs that were found."""
        before, after = held
        self.arrive(arrived)
        for side in (0, 1):
            self.n_meetings += arrived[side] * (before[1 - side] + after[1 - side]) / 2
        self.n_pairs += n_pairs
        self.n_held = after

    def load(self, clock: int) -> JoinLoad | None:
        """Per second since the interval began; None if a side has been silent, or if its window is not of time."""
        seconds = (clock - self.since) / 1e6
        if seconds <= 0 or not all(self.n_arrived) or None in self.windows_us:
            return None
        rates = self.n_arrived[0] / seconds, self.n_arrived[1] / seconds
        windows_s = (self.windows_us[0] or 0) / 1e6, (self.windows_us[1] or 0) / 1e6
        return JoinLoad(rates, windows_s, max(1.0, self.n_meetings / max(self.n_pairs, 1)))

    def begin(self, clock: int) -> None:
        self.since, self.n_arrived, self.n_meetings, self.n_pairs, self.n_steps = clock, [0, 0], 0.0, 0, 0


@dataclass(frozen=True, slots=True)
class ReplanPolicy:
    """How patient a join is."""

    share: float = 0.25
    """An interval lasts at least this part of the longer window …"""
    min_tuples: int = 4096
    """… and at least so many tuples."""
    patience: int = 3
    """In so many intervals in a row must the method be outrun."""

    def next_method(self, watch: LoadWatch, clock: int, method: JoinMethod, choice: JoinChoice) -> JoinMethod | None:
        """The method to go on with, if it is another one. Called after every step of a join that was not hinted."""
        if not self.is_over(watch, clock, max((us for us in watch.windows_us if us is not None), default=0)):
            return None
        load, step_s = watch.load(clock), (clock - watch.since) / 1e6 / watch.n_steps
        watch.begin(clock)
        if load is None:
            return None
        if not self.gives_up(watch, is_outrun(method, load, choice.has_keys, choice.prices, step_s), sum(watch.n_held)):
            return None
        return choose_method(load, choice.has_keys, prices=choice.prices, step_s=step_s).method

    def is_over(self, watch: IntervalWatch, clock: int, window_us: int) -> bool:
        """Whether an interval is over; the first one begins now."""
        if watch.since == BEGINNING:
            watch.begin(clock)
            return False
        return sum(watch.n_arrived) >= self.min_tuples and clock - watch.since >= self.share * window_us

    def gives_up(self, watch: IntervalWatch, is_bad: bool, n_held: int) -> bool:
        """At the end of an interval: whether the method is to be changed, as it has been outrun for long enough."""
        watch.n_strikes = watch.n_strikes + 1 if is_bad else 0
        if watch.n_strikes < self.patience or watch.n_since_change < n_held:
            return False
        watch.n_strikes = watch.n_since_change = 0
        return True

    def first_method(self, load: JoinLoad, step_s: float, method: JoinMethod, choice: JoinChoice) -> JoinMethod | None:
        """The method to begin with, for the load of the first step, where a plan could not say; None: the plan's."""
        if not is_outrun(method, load, choice.has_keys, choice.prices, step_s):
            return None
        return choose_method(load, choice.has_keys, prices=choice.prices, step_s=step_s).method


POLICY = ReplanPolicy()
"""Of all joins of this process."""
