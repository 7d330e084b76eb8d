"""W-join, Figure 9(a): joins by the number of streams, whose rates lie evenly between 1000 and 100 tuples per second.

The paper does not say how long the windows are; they are of several lengths here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, values_of
from sash.lab.experiments.wjoin_figures.wjoin_claims import (
    MEASURES,
    ORDER,
    Criterion,
    best_claim,
    is_order,
    ratios,
    tell,
)
from sash.lab.experiments.wjoin_figures.wjoin_loads import n_values, one_window, synthetic_streams
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_over_streams
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, Load, ServiceCase, WJoinScale, measure

JOINS = ("nlw", "mw", "hw")
FASTEST, SLOWEST = 1000, 100
KEPT = 0.8


def run(scale: WJoinScale, note: Note) -> Outcome:
    """The three joins over the same streams, for each window."""
    cases = (
        ServiceCase({"window_s": window_s, "n_streams": n}, variable_load(n, scale.n_tuples, window_s), JOINS)
        for window_s in scale.windows_s
        for n in scale.n_streams
    )
    rows = measure(cases, scale.n_repeats, note)
    claims = [
        *(order_claim(rows, each, "at variable rates", _ALWAYS_A_NEXT) for each in MEASURES),
        *(kept_claim(rows, each, "", _FOUND_ANEW) for each in MEASURES),
        *(best_claim(rows, "hw", ("window_s", "n_streams"), each, _FEW) for each in MEASURES),
    ]
    return Outcome(rows, claims)


def variable_rates(n_streams: int) -> list[float]:
    """The fastest first."""
    return np.linspace(FASTEST, SLOWEST, n_streams).tolist()


def variable_load(n_streams: int, n_tuples: int, window_s: float) -> Load:
    """Streams at different rates, the fastest first."""
    return Load(
        synthetic_streams(variable_rates(n_streams), n_tuples, n_values(window_s)), one_window(n_streams, window_s)
    )


_FEW = (
    "in windows of 0.1 s and less there are so few tuples to look at that to keep hash tables and intermediate results "
    "takes longer than the nested loops of MW-join"
)
_ALWAYS_A_NEXT = (
    "while each window has some tuples of the slowest stream, there is always a next N_tuple, and nothing for Mode 1 "
    "to skip; with windows so short that there is not, NLW-join has little to scan either"
)
_FOUND_ANEW = "the nested loop of MW-join finds intermediate results anew that NLW-join has in its buffers"


def _by_window(rows: Sequence[Row], each: Criterion) -> dict[float, dict[int, float]]:
    """How many times as much as MW-join NLW-join takes, by window and number of streams."""
    return {
        window_s: ratios([row for row in rows if row["window_s"] == window_s], "nlw", "mw", each, "n_streams")
        for window_s in values_of(rows, "window_s")
    }


def order_claim(rows: Sequence[Row], each: Criterion, where: str, reason: str) -> Claim:
    """Whether there is a window with which NLW-join takes about ten times as much as MW-join."""
    found = _by_window(rows, each)
    parts = [f"with windows of {window_s:g} s {tell(own, 'streams')}" for window_s, own in found.items()]
    return Claim(
        f"MW-join is an order of magnitude below NLW-join {where}, with a window of some length, by "
        f"{each.title} ({ORDER[0]:.1f} to {ORDER[1]:.1f} times)",
        f"NLW-join takes {'; '.join(parts)} times as much",
        any(is_order(own) for own in found.values()),
        reason,
    )


def kept_claim(rows: Sequence[Row], each: Criterion, where: str, reason: str) -> Claim:
    """Whether NLW-join takes as many times as much as MW-join with most streams as with two, with every window."""
    found = {}
    for window_s, own in _by_window(rows, each).items():
        first, *_, last = own.values()
        found[window_s] = last / first
    return Claim(
        f"What MW-join gains is kept as streams are added{where}, by {each.title} (with most streams, at least {KEPT} "
        "times the gain with two)",
        f"{tell(found, 's')} times",
        all(ratio >= KEPT for ratio in found.values()),
        reason,
    )


EXPERIMENT = Experiment(
    "9a",
    "joins by the number of streams, at variable rates",
    PAPER,
    run,
    partial(draw_over_streams, part="window_s", title="windows of {} s"),
)
