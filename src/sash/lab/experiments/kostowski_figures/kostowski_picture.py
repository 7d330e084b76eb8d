"""Figures of window joins as PNG files: what was measured as points on lines, the cost model as dashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sash.lab.bench.picture import new_figure
from sash.lab.experiments.experiment import Row, values_of

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd")
_MARKERS = "osD^v"
_TITLES = {
    "probe": "probe",
    "probe_insert": "probe and insert",
    "probe_all": "probe all buckets",
    "optimal": "optimal",
}
_CHECKS = "comparisons of the invalidation"
_PARTS: Mapping[str, tuple[Callable[[Row], float], Callable[[Row], float]]] = {
    "CPU time, milliseconds": (lambda row: 1e3 * row["cpu_s"], lambda row: 1e3 * row["model_cpu_s"]),
    "tuples scanned": (lambda row: row["work"]["scans"], lambda row: row["model"]["scans"]),
    _CHECKS: (lambda row: row["work"]["checks"], lambda row: row["model"]["checks"]),
}


def draw_over(rows: Sequence[Row], path: Path, over: str, by: str, axis: str) -> None:
    """A line for each value of the label `by`, over the values of `over`, both axes logarithmic."""
    parts = {title: part for title, part in _PARTS.items() if title != _CHECKS or by == "invalidation"}
    figure, axes = new_figure(len(parts))
    for ax, (title, (measured, modelled)) in zip(axes, parts.items(), strict=True):
        for number, value in enumerate(values_of(rows, by)):
            line = [row for row in rows if row[by] == value]
            places, colour = [row[over] for row in line], _COLOURS[number]
            name = f"selectivity {value}" if by == "selectivity" else _TITLES.get(value, value)
            ax.plot(places, list(map(measured, line)), color=colour, marker=_MARKERS[number], label=name)
            ax.plot(places, list(map(modelled, line)), color=colour, linestyle="--", linewidth=1)
        ax.set(title=title, xlabel=axis, xscale="log", yscale="log")
    axes[0].legend(title="dashed: cost model")
    figure.savefig(path, dpi=120)


def draw_occupancy(rows: Sequence[Row], path: Path) -> None:
    """Tuples held on the probed side over time, and by how many they exceed those of the optimal strategy."""
    figure, axes = new_figure(2)
    (optimal,) = [row for row in rows if row["invalidation"] == "optimal"]
    for number, row in enumerate(rows):
        colour, name = _COLOURS[number], _TITLES[row["invalidation"]]
        axes[0].plot(row["seconds"], row["probed"], color=colour, marker=_MARKERS[number], label=name)
        axes[0].plot(row["seconds"], row["model_probed"], color=colour, linestyle="--", linewidth=1)
        excess = [one - least for one, least in zip(row["probed"], optimal["probed"], strict=True)]
        axes[1].plot(row["seconds"], excess, color=colour, marker=_MARKERS[number], label=name)
    axes[0].set(title="tuples on the probed side", xlabel="seconds")
    axes[1].set(title="more than under the optimal strategy", xlabel="seconds", yscale="symlog")
    axes[0].legend(title="dashed: cost model")
    figure.savefig(path, dpi=120)
