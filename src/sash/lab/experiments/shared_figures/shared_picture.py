"""Figures of shared joins as PNG files, with logarithmic axes for times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sash.lab.bench.picture import new_figure
from sash.lab.experiments.experiment import Row, values_of
from sash.lab.experiments.shared_figures.shared_claims import AVERAGES
from sash.lab.experiments.shared_figures.shared_response import TITLES

_COLOURS = {"lwo": "#1f77b4", "swf": "#2ca02c", "mqt": "#d62728", "isolated": "#7f7f7f"}


def draw_averages(rows: Sequence[Row], path: Path, over: str, axis: str) -> None:
    """The average response time of each schedule over a label, by both averages."""
    figure, axes = new_figure(len(AVERAGES), 1)
    for ax, average in zip(axes, AVERAGES):
        for schedule, title in TITLES.items():
            line = [row for row in rows if row["schedule"] == schedule]
            places = [str(row[over]) for row in line]
            ax.plot(places, [row[average.column] for row in line], "o-", color=_COLOURS[schedule], label=title)
        ax.set(title=f"average {average.title}", xlabel=axis, ylabel="response time, ms", yscale="log")
    axes[0].legend()
    figure.savefig(path, dpi=120)


def draw_windows(rows: Sequence[Row], path: Path, part: str) -> None:
    """Above the average, below the maximum response time by window; a part for each value of a label."""
    parts, lines = values_of(rows, part), {"mean_ms": "average", "max_ms": "maximum"}
    figure, axes = new_figure(len(parts), len(lines))
    for number, ax in enumerate(axes):
        column, value = list(lines)[number // len(parts)], parts[number % len(parts)]
        for row in (row for row in rows if row[part] == value):
            places = [str(each) for each in row["windows_s"]]
            ax.plot(places, row[column], "o-", color=_COLOURS[row["schedule"]], label=TITLES[row["schedule"]])
        ax.set(title=str(value), xlabel="window, s", ylabel=f"{lines[column]} response time, ms", yscale="log")
    axes[0].legend()
    figure.savefig(path, dpi=120)


def draw_analysis(rows: Sequence[Row], path: Path, schedule: str) -> None:
    """What the analysis says of a schedule and of isolated execution, and crosses for what was measured."""
    figure, (ax, *_) = new_figure(1, 1)
    places = [str(row["window_s"]) for row in rows]
    for line, title in ((schedule, TITLES[schedule]), ("isolated", "isolated execution")):
        ax.plot(places, [row[f"{line}_ms"] for row in rows], "-", color=_COLOURS[line], label=title)
        measured = [row[f"{line}_measured_ms"] for row in rows]
        ax.plot(places, measured, "x", color=_COLOURS[line], label=f"{title}, measured")
    ax.set(xlabel="window, s", ylabel="average response time, ms", yscale="log")
    ax.legend()
    figure.savefig(path, dpi=120)
