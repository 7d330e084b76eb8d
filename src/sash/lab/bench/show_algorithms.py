"""What `sash bench algorithms` found, as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def show_algorithms(facts: Mapping[str, Any], console: Console) -> None:
    """A line for every load, and how often the choice was good."""
    table = Table(title="processor time of the whole join per tuple, by the planner's choice and by the best algorithm")
    left = ("choice", "best", "keys")
    for heading in (
        "rates",
        "window",
        "keys",
        "choice",
        "ns",
        "looked at",
        "best",
        "ns",
        "choice / best",
        "probe / choice",
    ):
        table.add_column(heading, justify="left" if heading in left else "right")
    for cell in facts["cells"]:
        ns, work = cell["ns_per_tuple"], cell["work_per_tuple"][cell["chosen"]]
        keys = f"{cell['keys']:,}" if cell["keys"] else "none"
        table.add_row(
            ", ".join(f"{rate:,.0f}" if rate >= 10 else f"{rate:g}" for rate in cell["rates"]),
            f"{cell['window_s']:.3g} s{' by pairs' if cell['is_local'] else ''}",
            keys + (", a condition" if cell["has_conditions"] else ""),
            cell["chosen"],
            f"{ns[cell['chosen']]:,.0f}",
            f"{work['comparisons']:,.3g}",
            cell["best"],
            f"{ns[cell['best']]:,.0f}",
            f"{cell['ratio']:.2f}{'' if cell['ratio'] <= facts['within'] else ' !'}",
            f"{cell['gain']:.2f}" if cell["gain"] else "",
        )
    console.print(table)
    margin = f"{facts['within'] - 1:.0%}"
    console.print(
        f"{facts['good']} of {len(facts['cells'])} choices are the best algorithm, or within {margin} of it; the worst "
        f"takes {facts['worst']:.2f} times as long; prices {facts['prices']}",
        highlight=False,
    )
