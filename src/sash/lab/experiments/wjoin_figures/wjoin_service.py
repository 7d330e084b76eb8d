"""What the figures of W-join have in common: several joins over the same streams, and what each takes per tuple.

    tuples     0 ── 1000 ── 2000 ── …      of all streams together, in order of time
                 │       │
                 NLW …   NLW …             every join takes the same step, one after the other

A step is 1,000 input tuples, as the paper averages the service time over so many (§4.3). All joins of a run stand over
the same windows and take turns, so that a busy moment of the machine hits them alike. Work is what a join looks at:
comparisons to find combinations, and checks of what to remove or to drop. The service time is CPU time, step by step
that of the fastest of several runs over the same streams. The windows that stand beside the joins are not in it.

Pipelines can also take one tuple of each stream in turn, whatever its time. A step is the next 1,000 of these then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.index.multiway_index import MultiwayCounts
from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Paper
from sash.papers.wjoin.wjoin_algorithms import ALGORITHMS
from sash.store.batch import EXPIRES, TS
from sash.store.ordered_window import OrderedWindow

STEP_TUPLES = 1_000
_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_KEY = "value"
_SCHEMA = pa.schema([(_KEY, pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64())])


@dataclass(frozen=True, slots=True)
class WJoinScale:
    """How much is measured of joins of many streams."""

    name: str
    store_us: int
    """For how long stores sell, from when they open for the first time."""
    n_streams: Sequence[int]
    """Where joins are compared by the number of streams."""
    n_tuples: int
    """Of all synthetic streams together."""
    windows_s: Sequence[float]
    """Where the paper does not say how long windows are."""
    turns_s: Sequence[float]
    """How long runs are in which streams take turns, in seconds of the streams' times."""
    n_repeats: int
    """Of synthetic streams."""


QUICK = WJoinScale("quick", 4 * _HOUR, (2, 4), 16_000, (0.1, 0.01), (2, 4), n_repeats=1)
DEFAULT = WJoinScale("default", 24 * _HOUR, (2, 3, 4, 5, 6), 40_000, (1, 0.1, 0.01), (10, 30), n_repeats=2)
FULL = WJoinScale("full", 72 * _HOUR, (2, 3, 4, 5, 6), 200_000, (1, 0.1, 0.01), (10, 30), n_repeats=3)
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
PAPER = Paper("W-join", "Joining Multiple Data Streams with Window Constraints", SCALES)


class TimedStream(NamedTuple):
    """The tuples of a stream in order of time."""

    ts: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True, slots=True)
class Load:
    """What is joined: streams with equal values, and how far their times may lie apart."""

    streams: Sequence[TimedStream]
    reach: np.ndarray
    """[i, j]: t_j - t_i is at most this in a combination, in microseconds."""


class ServiceCase(NamedTuple):
    """What tells a run from others, what is joined, and by which joins."""

    labels: Mapping[str, Any]
    load: Load
    joins: Sequence[str]
    takes_turns: bool = False
    """Whether streams take turns; else tuples are in order of time."""
    is_whole: bool = False
    """Whether means are those of the whole run."""


class ServiceStep(NamedTuple):
    """What a join did with 1,000 tuples."""

    n_tuples: int
    ends_at: int
    """The time up to which all streams have come."""
    counts: MultiwayCounts
    cpu_s: float


def measure(cases: Iterable[ServiceCase], n_repeats: int, note: Note) -> list[dict[str, Any]]:
    """A row for each join of each case."""
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        _warm_up(case)
        runs = [ComparedJoins(case.load, case.joins, case.takes_turns).run() for _ in range(n_repeats)]
        outputs = {tuple(step.counts.outputs for step in runs[0][join]) for join in case.joins}
        assert len(outputs) == 1, "all joins put out the same combinations in every step"
        rows += [_row(case, join, [run[join] for run in runs]) for join in case.joins]
        note(number + 1)
    return rows


class ComparedJoins:
    """Several joins over the same windows."""

    def __init__(self, load: Load, joins: Sequence[str], takes_turns: bool = False):
        n_streams = len(load.streams)
        self._load = load
        self._takes_turns = takes_turns
        self._windows = [OrderedWindow(_SCHEMA, ((_KEY,),), 1 + int(own.max())) for own in load.reach]
        has_key = np.ones((n_streams, 1), np.bool_)
        how = {"takes_turns": True} if takes_turns else {}
        self._joins = {join: ALGORITHMS[join](self._windows, has_key, load.reach, **how) for join in joins}
        self.steps: dict[str, list[ServiceStep]] = {join: [] for join in joins}

    def run(self) -> dict[str, list[ServiceStep]]:
        """Takes all tuples; returns what each join has done in each step. A rest of less than a step is left out."""
        steps = self._steps_by_turns() if self._takes_turns else self._steps_by_time()
        firsts = [0] * len(self._windows)
        for ends, nexts in steps:
            self._take(firsts, ends, nexts)
            firsts = ends
        return self.steps

    def _steps_by_time(self) -> Iterator[tuple[list[int], list[int]]]:
        """The end of each stream's tuples in each step, and the earliest time that may come next of each."""
        ts = np.sort(np.concatenate([stream.ts for stream in self._load.streams]), kind="stable")
        for clock in ts[STEP_TUPLES - 1 :: STEP_TUPLES].tolist():
            ends = [int(np.searchsorted(each.ts, clock, "right")) for each in self._load.streams]
            yield ends, [clock + 1] * len(ends)

    def _steps_by_turns(self) -> Iterator[tuple[list[int], list[int]]]:
        """The same by turns. Of a stream that has ended, nothing comes before the others end."""
        lengths = [len(stream.ts) for stream in self._load.streams]
        turns = np.sort(np.concatenate([np.arange(length) for length in lengths]), kind="stable")
        latest = 1 + max(int(stream.ts[-1]) for stream in self._load.streams)
        for n_turns in (1 + turns[STEP_TUPLES - 1 :: STEP_TUPLES]).tolist():
            ends = [min(n_turns, length) for length in lengths]
            nexts = [int(each.ts[end]) if end < len(each.ts) else latest for each, end in zip(self._load.streams, ends)]
            yield ends, nexts

    def _take(self, firsts: Sequence[int], ends: Sequence[int], nexts: Sequence[int]) -> None:
        """What no later tuple of another stream can join is dead."""
        limits = [int(np.delete(nexts - own, number).min()) for number, own in enumerate(self._load.reach)]
        starts = [window.next_row for window in self._windows]
        for window, stream, first, end, limit in zip(self._windows, self._load.streams, firsts, ends, limits):
            window.insert(_batch(stream, slice(first, end)), limit - 2)
        floors = [window.first_since(limit) for window, limit in zip(self._windows, limits)]
        for join, index in self._joins.items():
            before, began = index.counts, time.process_time()
            for _ in index.arrive(starts):
                pass
            index.advance(floors)
            cpu_s = time.process_time() - began
            done = MultiwayCounts(*(now - then for now, then in zip(index.counts, before)))
            self.steps[join].append(ServiceStep(sum(ends) - sum(firsts), min(nexts) - 1, done, cpu_s))
        self._evict(limits)

    def _evict(self, limits: Sequence[int]) -> None:
        n_rebuilds = sum(window.n_rebuilds for window in self._windows)
        for window, limit in zip(self._windows, limits):
            window.evict(limit - 2)
        if sum(window.n_rebuilds for window in self._windows) > n_rebuilds:
            for index in self._joins.values():
                index.refill()


def _warm_up(case: ServiceCase) -> None:
    """Compiles the kernels, or loads what was compiled."""
    streams = [TimedStream(np.arange(STEP_TUPLES), np.arange(STEP_TUPLES)) for _ in case.load.streams]
    ComparedJoins(Load(streams, np.minimum(case.load.reach, 10)), case.joins, case.takes_turns).run()


def _row(case: ServiceCase, join: str, runs: Sequence[Sequence[ServiceStep]]) -> dict[str, Any]:
    """Means are those of the steps after the longest window has passed, if there are any, or else of all; they are per
    input tuple.
    """
    steps = runs[0]
    cpu_s = np.min([[step.cpu_s for step in run] for run in runs], axis=0)
    n_tuples = np.array([step.n_tuples for step in steps])
    counts = np.array([step.counts for step in steps])
    works = counts[:, 0] + counts[:, 3]
    full_at = min(stream.ts[0] for stream in case.load.streams) + case.load.reach.max()
    is_full = np.array([step.ends_at > full_at for step in steps])
    chosen = is_full if is_full.any() and not case.is_whole else np.full(len(steps), True)
    n_chosen = n_tuples[chosen].sum()
    return {
        **case.labels,
        "join": join,
        "work": float(works[chosen].sum() / n_chosen),
        "cpu_us": float(1e6 * cpu_s[chosen].sum() / n_chosen),
        **MultiwayCounts(*(counts[chosen].sum(axis=0) / n_chosen).tolist())._asdict(),
        "steps": {
            "n_tuples": np.cumsum(n_tuples).tolist(),
            "work": (works / n_tuples).tolist(),
            "cpu_us": (1e6 * cpu_s / n_tuples).tolist(),
        },
    }


def _batch(stream: TimedStream, rows: slice) -> pa.Table:
    """Tuples as windows take them. When they expire is for the answer alone, which nobody reads here."""
    ts = stream.ts[rows]
    return pa.table([pa.array(stream.keys[rows]), pa.array(ts), pa.array(ts)], schema=_SCHEMA)
