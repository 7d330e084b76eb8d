"""Figures of Exact as PNG files: what was measured over a parameter, or over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sash.lab.bench.picture import new_figure
from sash.lab.experiments.exact_figures.exact_cases import TITLES
from sash.lab.experiments.experiment import Row, values_of

COLOURS = {"ewj": "#2ca02c", "rpwj": "#ff7f0e", "ahewj": "#1f77b4"}
AXES = {
    "delay_s": "average production delay, s",
    "late_inputs": "delayed tuples, share of those that leave",
    "late_outputs": "pairs after the window's limit, share",
    "window_mb": "fullest windows, MB",
    "stream_mb": "fullest window of a stream, MB",
    "cpu_s": "CPU time, s",
    "disk_s": "disk time, s",
    "total_s": "CPU and disk time, s",
    "accesses_per_tuple": "disk accesses per tuple",
}


def draw_lines(rows: Sequence[Row], path: Path, over: str, axis: str, columns: Sequence[str]) -> None:
    """A part for each column, with a line for each method, over a label."""
    figure, axes = new_figure(len(columns), 1)
    for ax, column in zip(axes, columns):
        for method in values_of(rows, "method"):
            chosen = [row for row in rows if row["method"] == method and row.get("mb_per_s", 20) == 20]
            chosen = [row for row in chosen if row.get(over) is not None and not row.get("is_gap_of_partition")]
            places, values = [row[over] for row in chosen], [row[column] for row in chosen]
            ax.plot(places, values, "o-", color=COLOURS[method], label=TITLES[method])
        ax.set(xlabel=axis, ylabel=AXES[column])
        ax.set_ylim(bottom=0)
    axes[0].legend()
    figure.savefig(path, dpi=120)


def draw_curves(rows: Sequence[Row], path: Path, over: str, axis: str, columns: Mapping[str, str]) -> None:
    """A part for each method and column that was followed over time, with a line for each value of a label."""
    methods = values_of(rows, "method")
    figure, axes = new_figure(len(methods), len(columns))
    parts = [(column, method) for column in columns for method in methods]
    for ax, (column, method) in zip(axes, parts):
        for row in (row for row in rows if row["method"] == method):
            ax.plot(row["times_s"], row[column], label=f"{row[over]} {axis}")
        ax.set(title=TITLES[method], xlabel="time, s", ylabel=columns[column])
    axes[0].legend()
    figure.savefig(path, dpi=120)
