"""Figures of joins of many streams as PNG files: above the service time, below the work, per input tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sash.lab.bench.picture import new_figure, save
from sash.lab.experiments.experiment import Row, values_of
from sash.lab.experiments.wjoin_figures.wjoin_claims import TITLES

_COLOURS = {
    "nlw": "#1f77b4",
    "mw": "#d62728",
    "hw": "#2ca02c",
    "ripple": "#7f7f7f",
    "xjoin": "#ff7f0e",
    "gca": "#9467bd",
    "lca": "#d62728",
}
_MARKERS = {"nlw": "o", "mw": "s", "hw": "D"}
_LINES: Mapping[str, str] = {
    "cpu_us": "service time, µs of CPU per tuple",
    "work": "comparisons and checks per tuple",
}


def draw_steps(
    rows: Sequence[Row], path: Path, part: str, title: str, dashed: tuple[str, str] | None = None, is_log: bool = False
) -> None:
    """What each join took over the tuples that had come, a part for each value of a label.

    `dashed` is a label, and the value of it whose lines are dashed.
    """
    parts = values_of(rows, part)
    figure, axes = new_figure(len(parts), len(_LINES))
    for number, ax in enumerate(axes):
        column, value = list(_LINES)[number // len(parts)], parts[number % len(parts)]
        for row in rows:
            if row[part] == value:
                is_dashed = dashed is not None and row[dashed[0]] == dashed[1]
                ax.plot(
                    [n_tuples / 1_000 for n_tuples in row["steps"]["n_tuples"]],
                    row["steps"][column],
                    color=_COLOURS[row["join"]],
                    linestyle="--" if is_dashed else "-",
                    label=TITLES[row["join"]] + (f", {row[dashed[0]]}" if dashed else ""),
                )
        ax.set(title=title.format(value), xlabel="input tuples, thousands", ylabel=_LINES[column])
        if is_log:
            ax.set_yscale("log")
    axes[0].legend()
    if is_log:
        figure.savefig(path, dpi=120)
    else:
        save(figure, path)


def draw_over_streams(rows: Sequence[Row], path: Path, part: str, title: str) -> None:
    """What each join took on average, by the number of streams, a part for each value of a label."""
    parts = values_of(rows, part)
    figure, axes = new_figure(len(parts), len(_LINES))
    for number, ax in enumerate(axes):
        column, value = list(_LINES)[number // len(parts)], parts[number % len(parts)]
        for join in values_of(rows, "join"):
            line = [row for row in rows if (row[part], row["join"]) == (value, join)]
            ax.plot(
                [row["n_streams"] for row in line],
                [row[column] for row in line],
                color=_COLOURS[join],
                marker=_MARKERS[join],
                label=TITLES[join],
            )
        ax.set(title=title.format(value), xlabel="streams", ylabel=_LINES[column], yscale="log")
        ax.set_xticks(values_of(rows, "n_streams"))
    axes[0].legend()
    figure.savefig(path, dpi=120)
