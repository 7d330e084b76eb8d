"""W-join, Figure 8: the hash window join and XJoin over two to four stores, with windows of an hour.

The stores are generated ones; see `wjoin_loads`.
"""

from __future__ import annotations

from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Experiment, Outcome
from sash.lab.experiments.wjoin_figures.fig7_nested_loops_and_merging import N_STREAMS
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, better_claim
from sash.lab.experiments.wjoin_figures.wjoin_loads import store_load
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_steps
from sash.lab.experiments.wjoin_figures.wjoin_service import PAPER, ServiceCase, WJoinScale, measure

JOINS = ("hw", "xjoin")
_SHORT_BUCKETS = (
    "both go through one bucket, and there are more buckets where there are more tuples, so XJoin's stale tuples cost "
    "little, while HW-join checks what it probes and looks for buckets that are rarely probed"
)


def run(scale: WJoinScale, note: Note) -> Outcome:
    """Both joins over the same sales."""
    cases = (ServiceCase({"n_streams": n}, store_load(n, scale.store_us), JOINS) for n in N_STREAMS)
    rows = measure(cases, scale.n_repeats, note)
    return Outcome(rows, [better_claim(rows, "xjoin", "hw", each, _SHORT_BUCKETS) for each in MEASURES])


EXPERIMENT = Experiment(
    8,
    "HW-join and XJoin over (generated) stores",
    PAPER,
    run,
    partial(draw_steps, part="n_streams", title="{} stores"),
)
