"""Figures of Exact, chapter 6, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sash.lab.bench.picture import new_figure
from sash.lab.experiments.experiment import Row, values_of
from sash.lab.experiments.relation_figures.relation_cases import NAMES

COLOURS = {"hash": "#ff7f0e", "range": "#1f77b4", "mesh": "#2ca02c", "inl": "#7f7f7f"}
AXES = {
    "delay_s": "average production delay, s",
    "cpu_s": "CPU time, s",
    "disk_s": "disk time, s",
    "total_s": "CPU and disk time, s",
    "taken": "tuples processed",
    "from_disk": "tuples that a read was for, share",
}


def draw_by(
    rows: Sequence[Row], path: Path, over: str, axis: str, columns: Sequence[str], is_log: bool = False
) -> None:
    """A part for each column, with a line for each method over a label; dashed if the relation's keys are even."""
    figure, axes = new_figure(len(columns), 1)
    for ax, column in zip(axes, columns):
        for method in values_of(rows, "method"):
            for is_even, style in ((False, "o-"), (True, "x--")):
                chosen = [row for row in rows if row["method"] == method and row["is_even_relation"] == is_even]
                chosen = [row for row in chosen if row.get(over) is not None and not row.get("is_aside")]
                places, values = [row[over] for row in chosen], [row[column] for row in chosen]
                label = NAMES[method] if not is_even else None
                ax.plot(places, values, style, color=COLOURS[method], label=label)
        ax.set(xlabel=axis, ylabel=AXES[column], yscale="log" if is_log else "linear")
    axes[0].legend()
    figure.savefig(path, dpi=120)


def draw_backlog(rows: Sequence[Row], path: Path) -> None:
    """Buffered tuples over time: a part for each method, a line for each rate."""
    methods = values_of(rows, "method")
    figure, axes = new_figure(len(methods), 1)
    for ax, method in zip(axes, methods):
        for row in (row for row in rows if row["method"] == method and not row["is_even_relation"]):
            ax.plot(row["times_s"], row["buffered"], label=f"{row['rate']} tuples/s")
        ax.set(title=NAMES[method], xlabel="time, s", ylabel="buffered tuples")
    axes[0].legend()
    figure.savefig(path, dpi=120)
