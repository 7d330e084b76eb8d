"""Exact, §6.3.4 and §6.5: what working block by block saves, for two ways in which time may be spent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.relation_figures.relation_cases import (
    NAMES,
    PARTITIONED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import measure_relation
from sash.lab.experiments.relation_figures.relation_picture import draw_by

NEVER_BLOCKS = 1 << 40
"""No input buffer is as full."""
PRICES = {True: "if scans cost", False: "if only comparisons cost"}
RATE = 1500
MUCH = 0.8


def run(scale: RelationScale, note: Note) -> Outcome:
    cases = [
        (
            RelationCase(method, rate, is_scan_priced=is_priced, h_mark=h_mark),
            {"is_scan_priced": is_priced, "switches": h_mark < NEVER_BLOCKS, "is_aside": not is_priced},
        )
        for is_priced in PRICES
        for method in PARTITIONED
        for rate in (1000, RATE)
        for h_mark in (100, NEVER_BLOCKS)
    ]
    rows = measure_relation(cases, scale, note)
    claims = [_saves(rows, method, is_priced) for is_priced in PRICES for method in PARTITIONED]
    return Outcome(rows, numbered({"E6.21": claims}))


def _saves(rows: Sequence[Row], method: str, is_priced: bool) -> Claim:
    chosen = {"method": method, "rate": RATE, "is_scan_priced": is_priced}
    per_tuple = {
        switches: 1e6
        * pick(rows, "cpu_s", switches=switches, **chosen)
        / pick(rows, "taken", switches=switches, **chosen)
        for switches in (True, False)
    }
    return Claim(
        f"Switching between tuples and blocks cuts the processing time of the {NAMES[method]} join much (by a fifth), "
        f"{PRICES[is_priced]}",
        f"{per_tuple[True]:.0f} µs a tuple with it, {per_tuple[False]:.0f} µs without, at {RATE} tuples/s",
        per_tuple[True] < MUCH * per_tuple[False],
        "a block makes as many comparisons as its tuples, and those who wait are joined by lists in either case: only "
        "the sixth whose segment is in memory has a scan to save",
    )


EXPERIMENT = Experiment(
    "6-granularity",
    "partitioned joins tuple by tuple and block by block",
    RELATION_PAPER,
    run,
    partial(draw_by, over="rate", axis="tuples/s", columns=("cpu_s", "delay_s")),
)
