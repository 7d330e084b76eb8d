"""Figures as PNG files. matplotlib is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sash.lab.bench.picture import new_figure, save
from sash.lab.experiments.experiment import Row, values_of
from sash.lab.experiments.scheduling import SCHEDULES

_COLOURS = {"input": "#d62728", "clock": "#7f7f7f", "tpa": "#1f77b4", "nta": "#ff7f0e", "hybrid": "#2ca02c"}
_MARKERS = {"input": "o", "clock": "x", "tpa": "s", "nta": "^", "hybrid": "D"}
_FIGURES = {
    "average delay, seconds": ("average_s", 1),
    "maximum delay, seconds": ("maximum_s", 1),
    "tuples in the pipeline, thousands": ("n_tuples", 1_000),
}


def draw_by_query(rows: Sequence[Row], path: Path) -> None:
    """A group of bars per query."""
    rows = [row for row in rows if "average_s" in row]
    figure, axes = new_figure(len(_FIGURES))
    queries, schedules = values_of(rows, "query"), values_of(rows, "schedule")
    width = 0.8 / len(schedules)
    for ax, (title, (name, unit)) in zip(axes, _FIGURES.items()):
        for number, schedule in enumerate(schedules):
            shown = {row["query"]: row[name] / unit for row in rows if row["schedule"] == schedule}
            places = [queries.index(query) + (number - (len(schedules) - 1) / 2) * width for query in shown]
            ax.bar(places, list(shown.values()), width, color=_COLOURS[schedule], label=SCHEDULES[schedule].title)
        ax.set_xticks(range(len(queries)), queries)
        ax.set_title(title)
    axes[0].legend()
    save(figure, path)


def draw_lines(rows: Sequence[Row], path: Path, label: str, axis: str) -> None:
    """A line per query and schedule, over the values of a label."""
    figure, axes = new_figure(len(_FIGURES))
    queries = values_of(rows, "query")
    for ax, (title, (name, unit)) in zip(axes, _FIGURES.items()):
        for query in queries:
            for schedule in values_of(rows, "schedule"):
                line = [row for row in rows if (row["query"], row["schedule"]) == (query, schedule)]
                ax.plot(
                    [row[label] for row in line],
                    [row[name] / unit for row in line],
                    color=_COLOURS[schedule],
                    marker=_MARKERS[schedule],
                    linestyle=("-", "--")[queries.index(query)],
                    label=f"{query}, {SCHEDULES[schedule].title}",
                )
        ax.set(title=title, xlabel=axis)
    axes[0].legend(fontsize=8)
    save(figure, path)


def draw_throughput(rows: Sequence[Row], path: Path) -> None:
    """A part per query: time over rows put out."""
    queries = values_of(rows, "query")
    figure, axes = new_figure(len(queries))
    for ax, query in zip(axes, queries):
        for row in rows:
            if row["query"] == query:
                outputs, seconds = zip(*row["curve"])
                ax.plot(outputs, seconds, color=_COLOURS[row["schedule"]], label=SCHEDULES[row["schedule"]].title)
        ax.set(title=query, xlabel="rows put out", ylabel="CPU seconds")
        ax.legend()
    save(figure, path)
