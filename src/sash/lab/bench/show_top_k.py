"""The result of `sash bench topk` as a table on the terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.lab.bench.picture import new_figure, save
from sash.lab.bench.top_k_cost import GROUPED, TITLES, TOP_K
from sash.store.byte_sizes import format_bytes


def show_top_k(facts: Mapping[str, Any], console: Console) -> None:
    """A row per query, and below each what its operators took; last, the ratio."""
    bench, answer = facts["bench"], facts["answer"][TOP_K]
    title = (
        f"{bench['n_keys']:,} keys, {bench['per_key']:g} tuples of each in the window, the first {bench['n_shown']:,} "
        f"by {bench['aggregate']}: as DuckDB answers, at {answer['instants']:,} instants"
    )
    table = Table(title=title, title_justify="left")
    for heading in ("one thread", "CPU µs/tuple", "tuples/CPU s", "changes/tuple", "state", "÷ GROUP BY"):
        table.add_column(heading, justify="left" if heading == "one thread" else "right")
    for name, told in facts["queries"].items():
        table.add_row(
            TITLES[name],
            f"{told['cpu_us_per_tuple']:.2f}",
            f"{told['tuples_per_cpu_second']:,.0f}",
            f"{told['changes_per_tuple']:.2f}",
            format_bytes(told["state_bytes"]),
            f"{told['cpu_seconds'] / facts['queries'][GROUPED]['cpu_seconds']:.2f}×",
        )
        for operator, work in told["operators"].items():
            table.add_row(f"  {operator}", f"{1e6 * work['seconds'] / bench['n_tuples']:.2f}", "", "", "", "")
    console.print(table)


def draw_top_k(facts: Mapping[str, Any], path: Path) -> None:
    """What a tuple costs in each query, by operator."""
    figure, (ax,) = new_figure(1)
    for name, told in facts["queries"].items():
        bottom = 0.0
        for number, (operator, work) in enumerate(told["operators"].items()):
            height = 1e6 * work["seconds"] / facts["bench"]["n_tuples"]
            ax.bar(TITLES[name], height, bottom=bottom, color=f"C{number}")
            if height > 0.05:
                ax.annotate(operator, (TITLES[name], bottom + height / 2), ha="center", va="center", fontsize=7)
            bottom += height
    ax.set(title=f"{facts['bench']['n_keys']:,} keys", ylabel="µs per tuple")
    save(figure, path)
