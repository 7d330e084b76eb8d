"""Exact, §6.4.2: what the invocation threshold does, read as in Algorithm 8 and as in §6.3.1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import falls, line, rises, tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import (
    PARTITIONED,
    RANGED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import measure_relation, tell_methods
from sash.lab.experiments.relation_figures.relation_picture import draw_by

WHEN = {False: "if lists are probed in idle time", True: "if they are probed at once"}
HIGH_RATE = 1800


def run(scale: RelationScale, note: Note) -> Outcome:
    cases = [
        (RelationCase(method, rate, n_invoke=each, is_eager=is_eager), _labels(each, is_eager, rate))
        for rate in (1000, HIGH_RATE)
        for is_eager in WHEN
        for method in PARTITIONED
        for each in scale.invokes
    ]
    rows = measure_relation(cases, scale, note)
    claims = [_lower(rows, is_eager) for is_eager in WHEN] + [_governs(rows, is_eager) for is_eager in WHEN]
    return Outcome(rows, numbered({"E6.9": claims}))


def _labels(n_invoke: int, is_eager: bool, rate: int) -> dict[str, Any]:
    return {"n_invoke": n_invoke, "is_eager": is_eager, "is_aside": is_eager or rate == HIGH_RATE}


def _lower(rows: Sequence[Row], is_eager: bool) -> Claim:
    delays, reads = (
        {method: line(rows, column, "n_invoke", method=method, is_eager=is_eager, rate=1000) for method in PARTITIONED}
        for column in ("delay_s", "n_reads")
    )
    return Claim(
        f"A lower `N_invoke` makes more probes and smaller delays, {WHEN[is_eager]}",
        f"delays {tell_methods(delays, '{:.1f}', ' s')}; reads {tell_methods(reads)}, by `N_invoke`",
        all(rises(delays[method]) and falls(reads[method]) for method in PARTITIONED),
        "at 3,000 and above no list reaches it: a full wait buffer has some hundred tuples for each",
    )


def _governs(rows: Sequence[Row], is_eager: bool) -> Claim:
    found = line(rows, "delay_s", "n_invoke", method=RANGED, is_eager=is_eager, rate=HIGH_RATE)
    return Claim(
        f"At a high rate it governs the delay of the range-partitioned join, {WHEN[is_eager]} (a lower one halves it)",
        f"{tell(found, '{:.1f}', ' s')} at {HIGH_RATE} tuples/s, by `N_invoke`",
        2 * found[min(found)] < found[max(found)],
        "the wait buffer is full before a list is that long",
    )


EXPERIMENT = Experiment(
    "6-invoke",
    "partitioned joins by the invocation threshold",
    RELATION_PAPER,
    run,
    partial(draw_by, over="n_invoke", axis="N_invoke", columns=("delay_s", "disk_s")),
)
