"""Exact, §6.1 and §6.2: whom a read serves, in MESHJOIN and in partitioned joins, with locality and without."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.relation_figures.relation_cases import (
    HASHED,
    MESH,
    NAMES,
    PARTITIONED,
    RANGED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import LAWS, measure_relation
from sash.lab.experiments.relation_figures.relation_picture import draw_by

EPOCHS = (1000, 10_000, 100_000)
"""τ, which the thesis does not give."""
ALIKE = 0.05


def run(scale: RelationScale, note: Note) -> Outcome:
    cases = [
        (RelationCase(method, is_even_relation=is_even, epoch=epoch), {"epoch": epoch, "keys": "pqrs"})
        for is_even in LAWS
        for method in PARTITIONED
        for epoch in EPOCHS
    ]
    cases += [
        (RelationCase(method, is_even_relation=True, is_even_stream=True), {"epoch": None, "keys": "even"})
        for method in PARTITIONED
    ]
    cases.append((RelationCase(MESH), {"epoch": None, "keys": "pqrs"}))
    rows = measure_relation(cases, scale, note)
    served = [_at_most_one(rows), *(_most_need_none(rows, is_even) for is_even in LAWS), _alike(rows)]
    return Outcome(rows, numbered({"E6.18": [_after_k(rows)], "E6.19": served}))


def _after_k(rows: Sequence[Row]) -> Claim:
    (row,) = [row for row in rows if row["method"] == MESH]
    n_expired = max(0, row["n_reads"] - row["n_segments"] + 1) * row["queue_rows"]
    return Claim(
        "A tuple leaves the queue of MESHJOIN after exactly k reads, and then every read expires one queue segment",
        f"k = {row['n_segments']}, {row['n_reads']:,} reads, {row['all_processed']:,} tuples expired in segments of "
        f"{row['queue_rows']:,}",
        row["all_processed"] == n_expired,
    )


def _at_most_one(rows: Sequence[Row]) -> Claim:
    found = [row for row in rows if row["method"] in PARTITIONED]
    return Claim(
        "A tuple is served by at most one read",
        ", ".join(f"{NAMES[row['method']]} {row['from_disk']:.3f}" for row in found) + " of the tuples by one",
        all(row["from_disk"] <= 1 for row in found),
    )


def _most_need_none(rows: Sequence[Row], is_even: bool) -> Claim:
    chosen = [row for row in rows if row["method"] == RANGED and row["is_even_relation"] == is_even and row["epoch"]]
    return Claim(
        f"With locality most tuples need none, {LAWS[is_even]}, range-partitioned",
        ", ".join(f"{1 - row['from_disk']:.3f} (τ {row['epoch']:,})" for row in chosen) + " of the tuples need none",
        all(row["from_disk"] < 0.5 for row in chosen),
        "a sixth of the relation is in memory; what is hot changes within eleven seconds, far sooner than a list is "
        "read, so what is read was hot; and if a range is hot for long, that it has more segments makes up for it",
    )


def _alike(rows: Sequence[Row]) -> Claim:
    """Not of the thesis: what range partitions gain must be by locality."""
    hashed, ranged = (pick(rows, "from_disk", method=method, keys="even") for method in (HASHED, RANGED))
    return Claim(
        "Without locality, with even keys, both partitionings need as many",
        f"hash-partitioned {1 - hashed:.3f}, range-partitioned {1 - ranged:.3f} of the tuples need none",
        abs(hashed - ranged) < ALIKE,
    )


EXPERIMENT = Experiment(
    "6-reads",
    "whom a read of the relation serves",
    RELATION_PAPER,
    run,
    partial(draw_by, over="epoch", axis="τ, tuples", columns=("from_disk", "delay_s")),
)
