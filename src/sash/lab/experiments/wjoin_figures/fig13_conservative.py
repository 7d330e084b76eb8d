"""W-join, Figure 13: GCA and LCA, where one pair of four streams has a longer window than the others.

Windows are taken as they are given, as the paper does. Where the others are of 0.1 s, no two tuples of the one pair are
ever further apart than 0.2 s, though, which Sash finds out. Both joins are measured with these bounds as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, Criterion, ratios
from sash.lab.experiments.wjoin_figures.wjoin_loads import (
    SYNTHETIC_WINDOW_S,
    n_values,
    one_longer_window,
    synthetic_streams,
)
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_steps
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, Load, ServiceCase, WJoinScale, measure

JOINS = ("gca", "lca")
N_STREAMS, RATE = 4, 1000
SHORT_S = 0.1
OTHERS_S = (0.8, SHORT_S)


def run(scale: WJoinScale, note: Note) -> Outcome:
    """Both approaches over the same streams, for both windows of the other pairs."""
    cases = [
        *(ServiceCase(_labels(others_s, "given"), load(scale.n_tuples, others_s), JOINS) for others_s in OTHERS_S),
        ServiceCase(_labels(SHORT_S, "tight"), load(scale.n_tuples, SHORT_S, is_tight=True), JOINS),
    ]
    rows = measure(cases, scale.n_repeats, note)
    given = [row for row in rows if row["bounds"] == "given"]
    return Outcome(rows, [_below(given, others_s, each) for others_s in OTHERS_S for each in MEASURES])


def load(n_tuples: int, others_s: float, is_tight: bool = False) -> Load:
    """Four streams at the same rate; all pairs but the first have the shorter window."""
    streams = synthetic_streams([RATE] * N_STREAMS, n_tuples, n_values(SYNTHETIC_WINDOW_S))
    return Load(streams, one_longer_window(N_STREAMS, others_s, SYNTHETIC_WINDOW_S, is_tight))


def _labels(others_s: float, bounds: str) -> dict[str, Any]:
    follows = ", bounds that follow" if bounds == "tight" else ""
    return {
        "others_s": others_s,
        "bounds": bounds,
        "windows": f"{others_s} s, and one of {SYNTHETIC_WINDOW_S} s{follows}",
    }


def _below(rows: Sequence[Row], others_s: float, each: Criterion) -> Claim:
    ratio = ratios(rows, "gca", "lca", each, "others_s")[others_s]
    return Claim(
        f"LCA outperforms GCA with windows of {others_s} s and one of {SYNTHETIC_WINDOW_S} s, by {each.title}",
        f"GCA takes {ratio:.2f} times as much",
        ratio > 1,
    )


EXPERIMENT = Experiment(
    13,
    "GCA and LCA where one pair has a longer window",
    PAPER,
    run,
    partial(draw_steps, part="windows", title="windows of {}"),
)
