"""W-join, Figure 7: nested loops, merging and the ripple join over two to four stores, with windows of an hour.

The stores are generated ones; see `wjoin_loads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.wjoin_figures.wjoin_claims import (
    MEASURES,
    ORDER,
    Criterion,
    better_claim,
    is_order,
    ratios,
    tell,
)
from sash.lab.experiments.wjoin_figures.wjoin_loads import store_load
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_steps
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, ServiceCase, WJoinScale, measure

N_STREAMS = (2, 3, 4)
JOINS = ("nlw", "mw", "ripple")


def run(scale: WJoinScale, note: Note) -> Outcome:
    """The three joins over the same sales."""
    cases = (ServiceCase({"n_streams": n}, store_load(n, scale.store_us), JOINS) for n in N_STREAMS)
    rows = measure(cases, 1, note)
    outperforms = [better_claim(rows, "ripple", "nlw", each, _LOOKS_TWICE) for each in MEASURES]
    return Outcome(rows, [*outperforms, *(_order(rows, each) for each in MEASURES)])


_LOOKS_TWICE = "NLW-join looks at each tuple twice, whether it is out and whether it joins, the ripple join once"


def _order(rows: Sequence[Row], each: Criterion) -> Claim:
    found = ratios(rows, "nlw", "mw", each, "n_streams")
    return Claim(
        f"MW-join is almost an order of magnitude below NLW-join, by {each.title} ({ORDER[0]:.1f} to {ORDER[1]:.1f} "
        "times)",
        f"NLW-join takes {tell(found, 'streams')} times as much",
        is_order(found),
        "an hour has hundreds of sales of every store: there is always a next N_tuple, Mode 1 drops tuples no earlier "
        "than NLW-join does, and what is saved is the checks",
    )


EXPERIMENT = Experiment(
    7,
    "NLW-join, MW-join and the ripple join over (generated) stores",
    PAPER,
    run,
    partial(draw_steps, part="n_streams", title="{} stores"),
)
