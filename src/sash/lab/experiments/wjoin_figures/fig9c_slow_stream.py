"""W-join, Figure 9(c): four streams at the same rate, and again with one that is slow most of the time.

    D   · · · · · · ·  ·  ·   ·  ·   ·················   · · ·  ·      10 and 1000 tuples per second,
        |---- 100 tuples, 10 s ---| |- 100, 0.1 s -|                    for 100 of its tuples each

The paper does not say how long the windows are; they are of several lengths here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick, values_of
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, TITLES, Criterion
from sash.lab.experiments.wjoin_figures.wjoin_loads import n_values, one_window, switching_stream, synthetic_streams
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_steps
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, Load, ServiceCase, WJoinScale, measure

JOINS = ("nlw", "mw", "hw")
N_STREAMS = 4
RATE, SLOW = 1000, 10
IMPROVED = 2
STEADY = 1.5


def run(scale: WJoinScale, note: Note) -> Outcome:
    """The three joins over the same streams, for each window; then with the slowed stream."""
    cases = (
        ServiceCase({"window_s": window_s, "rates": rates}, load(scale.n_tuples, window_s), JOINS)
        for window_s in scale.windows_s
        for rates, load in (("equal", equal_load), ("switching", switching_load))
    )
    rows = measure(cases, scale.n_repeats, note)
    return Outcome(rows, [claim(rows, each) for claim in (_reacts, _steady) for each in MEASURES])


def equal_load(n_tuples: int, window_s: float) -> Load:
    """All streams at the same rate."""
    streams = synthetic_streams([RATE] * N_STREAMS, n_tuples, n_values(window_s))
    return Load(streams, one_window(N_STREAMS, window_s))


def switching_load(n_tuples: int, window_s: float) -> Load:
    """The last stream is slow, then fast, and so on; the others are those of `equal_load`."""
    others = synthetic_streams([RATE] * (N_STREAMS - 1), n_tuples, n_values(window_s))
    slowed = switching_stream((SLOW, RATE), int(others[0].ts[-1]), n_values(window_s))
    return Load([*others, slowed], one_window(N_STREAMS, window_s))


def _gains(rows: Sequence[Row], join: str, each: Criterion) -> dict[float, float]:
    """How many times as much a join takes when all rates are equal, by window."""
    return {
        window_s: pick(rows, each.column, join=join, window_s=window_s, rates="equal")
        / pick(rows, each.column, join=join, window_s=window_s, rates="switching")
        for window_s in values_of(rows, "window_s")
    }


def _told(gains: dict[float, float]) -> str:
    return ", ".join(f"{gain:.2f} ({window_s:g} s)" for window_s, gain in gains.items())


def _reacts(rows: Sequence[Row], each: Criterion) -> Claim:
    gains = _gains(rows, "mw", each)
    return Claim(
        f"MW-join gets much faster when one stream is slow (at least {IMPROVED} times), by {each.title}",
        f"{_told(gains)} times",
        min(gains.values()) >= IMPROVED,
        "with windows as long as the slow stream's time between two tuples, or longer, there is one in nearly every "
        "window, and nothing for Mode 1 to skip",
    )


def _steady(rows: Sequence[Row], each: Criterion) -> Claim:
    gains = {join: _gains(rows, join, each) for join in JOINS if join != "mw"}
    every = [gain for own in gains.values() for gain in own.values()]
    return Claim(
        f"NLW-join and HW-join do not change much (less than {STEADY} times with every window), by {each.title}",
        "; ".join(f"{TITLES[join]} takes {_told(own)} times as much at equal rates" for join, own in gains.items()),
        all(1 / STEADY < gain < STEADY for gain in every),
        "what the slow stream does not send needs no scan of the intermediate results of the other three",
    )


EXPERIMENT = Experiment(
    "9c",
    "one stream that changes its rate",
    PAPER,
    run,
    partial(draw_steps, part="window_s", title="windows of {} s", dashed=("rates", "switching")),
)
