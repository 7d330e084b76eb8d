"""Exact, Figure 6.6 and footnote 2 of chapter 6: MESHJOIN by the size of its R-buffer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import MESH, RELATION_PAPER, RelationCase, RelationScale
from sash.lab.experiments.relation_figures.relation_measures import measure_relation
from sash.lab.experiments.relation_figures.relation_picture import draw_by

SMALL_MB = 4
"""A tenth of the memory."""


def run(scale: RelationScale, note: Note) -> Outcome:
    sizes = [(RelationCase(MESH, read_mb=each), {"read_mb": each}) for each in scale.reads_mb]
    rows = measure_relation(sizes, scale, note)
    return Outcome(rows, numbered({"E6.3": [_least_disk(rows)], "E6.17": [_best(rows)]}))


def _least_disk(rows: Sequence[Row]) -> Claim:
    found = line(rows, "disk_s", "read_mb")
    return Claim(
        "Disk time of MESHJOIN is least for an R-buffer of 1 to 2 MB",
        f"{tell(found, '{:.0f}', ' s')}, by MB",
        1 <= min(found, key=lambda each: found[each]) <= 2,
    )


def _best(rows: Sequence[Row]) -> Claim:
    found = line(rows, "total_s", "read_mb")
    return Claim(
        "MESHJOIN is best with a small R-buffer and nearly all memory for its queue (CPU and disk time, with less than "
        "a tenth of the memory)",
        f"{tell(found, '{:.0f}', ' s')}, by MB",
        min(found, key=lambda each: found[each]) < SMALL_MB,
        "",
    )


EXPERIMENT = Experiment(
    "6-6",
    "MESHJOIN by its R-buffer",
    RELATION_PAPER,
    run,
    partial(draw_by, over="read_mb", axis="R-buffer, MB", columns=("disk_s", "total_s", "delay_s")),
)
