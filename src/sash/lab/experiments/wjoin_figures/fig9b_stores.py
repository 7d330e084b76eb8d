"""W-join, Figure 9(b): joins by the number of streams, which are stores that sell at about the same rate.

The stores are generated ones; see `wjoin_loads`. All of them together have the same rate, however many they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.wjoin_figures.fig9a_rates import JOINS
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, Criterion, best_claim, ratios, tell
from sash.lab.experiments.wjoin_figures.wjoin_loads import STORE_WINDOW_S, store_load
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_over_streams
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, ServiceCase, WJoinScale, measure

ALIKE = 1.5


def run(scale: WJoinScale, note: Note) -> Outcome:
    """The three joins over the same sales."""
    cases = (
        ServiceCase({"window_s": STORE_WINDOW_S, "n_streams": n}, store_load(n, scale.store_us), JOINS)
        for n in scale.n_streams
    )
    rows = measure(cases, 1, note)
    best = [best_claim(rows, "hw", ("n_streams",), each) for each in MEASURES]
    return Outcome(rows, [*(_converge(rows, each) for each in MEASURES), *best])


def _converge(rows: Sequence[Row], each: Criterion) -> Claim:
    found = ratios(rows, "nlw", "mw", each, "n_streams")
    first, *_, last = found.values()
    return Claim(
        f"At comparable rates NLW-join and MW-join converge as streams are added, by {each.title} (to within "
        f"{ALIKE} times)",
        f"NLW-join takes {tell(found, 'streams')} times as much",
        last < first and max(last, 1 / last) <= ALIKE,
        "from three streams on, intermediate results lie between the tuples in the lists of NLW-join: a tuple that it "
        "scans takes it twice as long as with two streams, while MW-join scans arrays",
    )


EXPERIMENT = Experiment(
    "9b",
    "joins by the number of streams, over (generated) stores of comparable rates",
    PAPER,
    run,
    partial(draw_over_streams, part="window_s", title="windows of {} s"),
)
