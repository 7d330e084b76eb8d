"""Exact, Figure 3.8: how long EWJ computes and waits for its disk, by rate; and what idle time could be used for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, ExactCase, ExactScale, nested_case
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import LATENESS, Labelled, line, measure, rises, tell, tell_share
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick

LOW = 200
DISK_SHARE = 0.1
IDLE_RATE = 600
"""Of the runs of AH-EWJ, in tuples per second and stream."""


def run(scale: ExactScale, note: Note) -> Outcome:
    """EWJ at all rates and speeds of the disk; and AH-EWJ, which can probe in idle time, with that and without."""
    rows = measure(_cases(scale), scale, note)
    nested = [row for row in rows if row["method"] != AHEWJ]
    claims = {
        "E3.9": [_gap(nested), _low(nested)],
        "E3.10": [_disk(nested, speed) for speed in scale.speeds],
        "E3.16": [_saturation(nested)],
        "E3.11": [_coexist(nested), *_idle(rows)],
    }
    return Outcome(rows, numbered(claims))


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for speed in scale.speeds:
        yield from ((nested_case(rate, mb_per_s=speed), {"mb_per_s": speed}) for rate in scale.ewj_rates)
    idle = ExactCase(AHEWJ, IDLE_RATE)
    yield idle, {"mb_per_s": None, "is_idle_used": True}
    yield replace(idle, gap_s=idle.duration_s), {"mb_per_s": None, "is_idle_used": False}


def _gap(rows: Sequence[Row]) -> Claim:
    found = line(rows, "busy", "rate", mb_per_s=20)
    return Claim(
        "CPU and disk are busy for far less than the simulated time at low rates (a third), and the gap closes",
        "busy for " + tell_share(found),
        found[min(found)] < 1 / 3 and rises(found),
    )


def _low(rows: Sequence[Row]) -> Claim:
    found = {rate: each for rate, each in line(rows, "busy", "rate", mb_per_s=20).items() if rate < LOW}
    return Claim(
        f"Below {LOW} tuples per second and stream they are used little (less than half of the time)",
        "busy for " + tell_share(found),
        max(found.values()) < 0.5,
    )


def _disk(rows: Sequence[Row], speed: int) -> Claim:
    disk, total = (line(rows, column, "rate", mb_per_s=speed) for column in ("disk_s", "total_s"))
    shares = {rate: disk[rate] / total[rate] for rate in disk if rate >= LOW}
    return Claim(
        f"From {LOW} on the join is bound by its CPU: the disk takes little of its time "
        f"(less than {DISK_SHARE:.0%}), {speed} MB/s",
        f"{tell_share(shares)}; {tell({rate: disk[rate] for rate in shares}, '{:.0f}', ' s')}",
        max(shares.values()) < DISK_SHARE,
    )


def _saturation(rows: Sequence[Row]) -> Claim:
    peaks = line(rows, "buffered_peak", "rate", mb_per_s=20)
    behind = {rate: peak / (2 * rate) for rate, peak in peaks.items()}
    saturated = [rate for rate, seconds in behind.items() if seconds > nested_case(rate).window_s / 2]
    return Claim(
        "The join saturates around 250 tuples per second and stream (behind by half a window above that, not below)",
        f"behind by up to {tell(behind, '{:.0f}', ' s')}",
        bool(saturated) and min(saturated) > 250,
        "the price of a comparison was computed so that it should",
    )


def _coexist(rows: Sequence[Row]) -> Claim:
    busy, late = (line(rows, column, "rate", mb_per_s=20) for column in ("busy", "late_inputs"))
    low = {rate: late[rate] for rate in busy if busy[rate] < 0.5}
    return Claim(
        "Tuples are delayed while CPU and disk are idle for half of the time",
        tell_share(low),
        bool(low) and all(each > 0 for each in low.values()),
    )


def _idle(rows: Sequence[Row]) -> list[Claim]:
    rows = [row for row in rows if row["method"] == AHEWJ]
    columns = {"delay_s": "the average delay", **{each.column: f"delayed tuples, {each.title}" for each in LATENESS}}
    found = {name: [pick(rows, name, is_idle_used=each) for each in (False, True)] for name in columns}
    return [
        Claim(
            f"Probing in idle time lowers {title} (a conjecture; of AH-EWJ at {IDLE_RATE})",
            f"{unused:.1f} s → {used:.1f} s" if name == "delay_s" else f"{unused:.2%} → {used:.2%}",
            used < unused,
            "when blocks come from disk to be invalidated does not depend on when rows are probed",
        )
        for (name, title), (unused, used) in zip(columns.items(), found.values())
    ]


def _draw_nested(rows: Sequence[Row], path: Path, **picture: Any) -> None:
    draw_lines([row for row in rows if row["method"] != AHEWJ], path, **picture)


EXPERIMENT = Experiment(
    "3-8",
    "CPU and disk time of EWJ by rate",
    PAPER,
    run,
    partial(_draw_nested, over="rate", axis="tuples/s of a stream", columns=("cpu_s", "disk_s", "total_s")),
)
