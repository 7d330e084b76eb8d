"""What `sash bench shared` found, as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.store.byte_sizes import format_bytes

PLACES = {"embedded": "in this process, one thread", "spark": "on Spark"}
_FIGURES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "seconds": ("seconds", lambda value: f"{value:,.1f}"),
    "seconds, steady": ("steady_seconds", lambda value: f"{value:,.1f}"),
    "CPU s": ("cpu_seconds", lambda value: f"{value:,.1f}"),
    "CPU s, steady": ("steady_cpu_seconds", lambda value: f"{value:,.1f}"),
    "state rows": ("state_rows", lambda value: f"{value:,}"),
    "state": ("state_bytes", format_bytes),
    "RocksDB": ("store_bytes", format_bytes),
    "checkpoint": ("checkpoint_bytes", format_bytes),
    "rows out": ("rows", lambda value: f"{value:,}"),
}


def show_shared(facts: Mapping[str, Any], console: Console) -> None:
    """A table for each place where the queries ran."""
    for place, title in PLACES.items():
        if facts[place]:
            _show_place(facts[place], title, console)


def _show_place(facts: Mapping[str, Any], title: str, console: Console) -> None:
    workload = facts["workload"]
    n_queries = workload["n_queries"]
    table = Table(
        title=f"{n_queries} queries over one join, {title}: {workload['n_tuples']:,} tuples, windows up to "
        f"{workload['window_us'] / 1e6:g} s; every query gave the same rows sharing and alone",
        title_justify="left",
    )
    for heading in (
        "",
        "largest alone",
        f"{n_queries} sharing",
        f"{n_queries} separate",
        "sharing ÷ largest",
        "separate ÷ sharing",
    ):
        table.add_column(heading, justify="right" if heading else "left")
    for label, (figure, write) in _FIGURES.items():
        told = [each[figure] for each in facts["figures"].values()]
        if None not in told:
            ratios = [each.get(figure) for each in facts["ratios"].values()]
            table.add_row(label, *map(write, told), *("–" if each is None else f"{each:.2f}×" for each in ratios))
    console.print(table)
    if not facts["window_is_full"]:
        console.print("the windows were not yet full when steady state began: ask for more --tuples")
