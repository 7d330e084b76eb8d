"""W-join, Figure 14: nested loops and the local conservative approach along a path of four streams, there and back.

The question has two sides, the paths ABCD and DCBA (§5.2). NLW-join follows a path from its first stream on. Windows
are of a second; the paper does not say how long they are, nor which rates vary little and which much.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, TITLES, Criterion
from sash.lab.experiments.wjoin_figures.wjoin_loads import SYNTHETIC_WINDOW_S, n_values, path_windows, synthetic_streams
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_steps
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, Load, ServiceCase, WJoinScale, measure

JOINS = ("nlw", "lca")
RATES = {"small": (1000, 950, 900, 850), "large": (1000, 700, 400, 100), "very large": (1000, 670, 340, 10)}
"""Those of A to D, evenly spread: §4.3 has rates from 100 to 1000 that vary, and one of 10."""
WAYS = ("ABCD", "DCBA")


def run(scale: WJoinScale, note: Note) -> Outcome:
    """Both joins over the same streams, one way and the other."""
    cases = (
        ServiceCase({"variations": variations, "way": way}, load(RATES[variations], scale.n_tuples, way), JOINS)
        for variations in RATES
        for way in WAYS
    )
    rows = measure(cases, scale.n_repeats, note)
    betters = (("small", "lca", "nlw"), ("large", "nlw", "lca"), ("very large", "nlw", "lca"))
    return Outcome(rows, [_better(rows, *better, each) for better in betters for each in MEASURES])


def load(rates: Sequence[float], n_tuples: int, way: str) -> Load:
    """The streams in the order of the path."""
    streams = synthetic_streams(rates, n_tuples, n_values(SYNTHETIC_WINDOW_S))
    in_order = streams if way == WAYS[0] else streams[::-1]
    return Load(in_order, path_windows(len(streams), SYNTHETIC_WINDOW_S))


def _better(rows: Sequence[Row], variations: str, worse: str, better: str, each: Criterion) -> Claim:
    costs = {
        join: [pick(rows, each.column, join=join, variations=variations, way=way) for way in WAYS] for join in JOINS
    }
    ratio = sum(costs[worse]) / sum(costs[better])
    by_way = [f"{way} {cost / least:.2f}" for way, cost, least in zip(WAYS, costs[worse], costs[better], strict=True)]
    return Claim(
        f"{TITLES[better]} outperforms {TITLES[worse]} for {variations} variations of the rates, "
        f"{max(RATES[variations])} to {min(RATES[variations])}, by {each.title}",
        f"{TITLES[worse]} takes {ratio:.2f} times as much for both paths ({', '.join(by_way)})",
        ratio > 1,
        "a path that begins with a slow stream has few intermediate results, which NLW-join makes use of; LCA gains "
        "where a path ends with it",
    )


EXPERIMENT = Experiment(
    14,
    "NLW-join and LCA along a path",
    PAPER,
    run,
    partial(draw_steps, part="variations", title="{} variations of the rates", dashed=("way", "DCBA")),
)
