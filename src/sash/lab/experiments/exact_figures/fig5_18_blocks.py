"""Exact, Figure 5.18: production delay and CPU time of AH-EWJ and RPWJ, by the size of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, SCANNED_NS, TITLES, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import Labelled, line, measure, tell, with_scans
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import METHODS
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE = 1200
STEADY = {AHEWJ: 1.25, RPWJ: 1.5}
"""How many times the least delay the largest may be."""
_REASONS = {
    AHEWJ: "a tuple is joined when its block is full: 60 heads with many tuples each take longer to fill, which is "
    "more of a window that is smaller than printed",
    RPWJ: "open blocks are closed at every periodic stage as they are; larger ones are emptier, and memory holds less",
}


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure(_cases(scale), scale, note)
    claims = {
        "E5.25": [_steady(rows, method) for method in METHODS],
        "E5.26": [claim(rows, method) for claim in (_cpu, _cpu_with_scans) for method in METHODS],
    }
    return Outcome(rows, numbered(claims))


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for each in scale.blocks:
        yield from ((ExactCase(method, RATE, block_bytes=each), {"block_bytes": each}) for method in METHODS)


def _steady(rows: Sequence[Row], method: str) -> Claim:
    found = line(rows, "delay_s", "block_bytes", method=method)
    return Claim(
        f"The size of blocks does not change the average delay of {TITLES[method]} by much "
        f"(at most {STEADY[method]} times the least)",
        tell(found, "{:.1f}", " s"),
        max(found.values()) <= STEADY[method] * min(found.values()),
        _REASONS[method],
    )


def _cpu(rows: Sequence[Row], method: str) -> Claim:
    found = line(rows, "cpu_s", "block_bytes", method=method)
    first, second, *_ = found.values()
    return Claim(
        f"CPU time of {TITLES[method]} falls as blocks grow, up to a size (by 2 %, from the smallest to the next)",
        tell(found, "{:,.0f}", " s"),
        second < 0.98 * first,
        "blocks are compared tuple by tuple: what a scan of a partition costs beside its comparisons, which larger "
        "blocks would share, has no price",
    )


def _cpu_with_scans(rows: Sequence[Row], method: str) -> Claim:
    found = line(with_scans(rows), "cpu_s", "block_bytes", method=method)
    scanned, compared = (line(rows, column, "block_bytes", method=method) for column in ("scanned", "compared"))
    first, second, *_ = found.values()
    return Claim(
        f"So it does if a tuple that a scan goes over costs {SCANNED_NS:.0f} ns, {TITLES[method]}",
        f"{tell(found, '{:,.0f}', ' s')}; gone over for each comparison "
        f"{tell({size: scanned[size] / compared[size] for size in scanned}, '{:.3f}')}; it does from "
        f"{least_price_ns(line(rows, 'cpu_s', 'block_bytes', method=method), scanned):.1f} ns on",
        second < 0.98 * first,
        "the thesis gives no price of a scan, and at this one scans are too small a part of CPU time, beside "
        "comparisons that become more with larger blocks",
    )


def least_price_ns(cpu_s: Mapping[int, float], scanned: Mapping[int, float]) -> float:
    """From which price of a tuple that is gone over CPU time falls by 2 % from the smallest block to the next."""
    (cpu, next_cpu, *_), (scans, next_scans, *_) = cpu_s.values(), scanned.values()
    fewer = 0.98 * scans - next_scans
    return max(0.0, 1e9 * (next_cpu - 0.98 * cpu) / fewer) if fewer > 0 else math.inf


EXPERIMENT = Experiment(
    "5-18",
    "delay and CPU time of AH-EWJ and RPWJ by the size of a block",
    PAPER,
    run,
    partial(draw_lines, over="block_bytes", axis="block, bytes", columns=("delay_s", "cpu_s")),
)
