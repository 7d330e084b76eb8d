"""What `sash bench planner` found, as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def show_planner(facts: Mapping[str, Any], console: Console) -> None:
    """A line for every load, and how often the choice was good."""
    table = Table(title="processor time of the whole join per tuple, by the planner's choice and by the best method")
    headings = ("rate", "ratio", "window", "keys", "choice", "ns", "best", "ns", "choice / best")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("choice", "best") else "right")
    for cell in facts["cells"]:
        workload, is_good = cell["workload"], cell["ratio"] <= facts["within"]
        table.add_row(
            f"{workload['rate']:,}/s",
            f"{workload['ratio']}:1",
            f"{workload['window_s']} s",
            f"{workload['n_distinct']:,}",
            cell["chosen"],
            f"{cell['chosen_ns']:,.0f}",
            cell["best"],
            f"{cell['best_ns']:,.0f}",
            f"{cell['ratio']:.2f}{'' if is_good else ' !'}",
        )
    console.print(table)
    margin = f"{facts['within'] - 1:.0%}"
    console.print(
        f"{facts['good']} of {len(facts['cells'])} choices are the best method, or within {margin} of it; "
        f"prices {facts['prices']}",
        highlight=False,
    )
