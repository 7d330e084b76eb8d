"""Exact, Figure 6.5: how many tuples wait in the input buffer over time."""

from __future__ import annotations

from collections.abc import Sequence

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import nearest, tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import MESH, NAMES, PARTITIONED, RELATION_PAPER, RelationScale
from sash.lab.experiments.relation_figures.relation_measures import LAWS, by_rate, rates_of_all
from sash.lab.experiments.relation_figures.relation_picture import draw_backlog

LOW_S, LARGE_S = 120, 300
"""A backlog is low if it is never more than what arrives in two minutes on average, and large from five minutes on."""


def run(scale: RelationScale, note: Note) -> Outcome:
    rows = rates_of_all(scale, note)
    low = [_stays_low(rows, method, is_even) for is_even in LAWS for method in PARTITIONED]
    return Outcome(rows, numbered({"E6.1": low, "E6.2": [_is_large(rows)]}))


def _stays_low(rows: Sequence[Row], method: str, is_even: bool) -> Claim:
    peaks = by_rate(rows, method, "buffered_peak", is_even)
    return Claim(
        f"The backlog of the {NAMES[method]} join stays very low at all rates (never more than arrive in two minutes), "
        f"{LAWS[is_even]}",
        f"at most {tell(peaks)}, by tuples/s",
        all(peak <= LOW_S * rate for rate, peak in peaks.items()),
        "a tuple is compared with a whole segment, as in MESHJOIN with a bucket of as many rows; block by block only a "
        "scan is shared, which is all that it can save, and bursts are four times the average rate",
    )


def _is_large(rows: Sequence[Row]) -> Claim:
    peaks = by_rate(rows, MESH, "buffered_peak")
    rate = nearest(peaks, 1500)
    return Claim(
        "The backlog of MESHJOIN is large already at 1,500 tuples per second (more than arrive in five minutes)",
        f"at most {tell(peaks)}, by tuples/s",
        peaks[rate] > LARGE_S * rate,
    )


EXPERIMENT = Experiment("6-5", "tuples that wait for joins with a relation", RELATION_PAPER, run, draw_backlog)
