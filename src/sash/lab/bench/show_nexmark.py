"""The results of `sash bench nexmark` as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.lab.bench.nexmark_runs import TITLES


def show_nexmark(facts: Mapping[str, Any], console: Console) -> None:
    """Per query how many events a second each engine took in, and what Sash wrote."""
    workload = facts["workload"]
    engines = [engine for engine in TITLES if any(engine in told for told in facts["queries"].values())]
    title = f"{workload['duration_us'] / 1e6:g} s of {workload['rate']:,g} events/s; events per second of each query"
    table = Table(title=title, title_justify="left")
    table.add_column("query")
    for heading in (*(TITLES[engine] for engine in engines), "changes"):
        table.add_column(heading, justify="right")
    for name, told in facts["queries"].items():
        speeds = (_speed(told.get(engine)) for engine in engines)
        table.add_row(name, *speeds, f"{told['embedded']['n_changes']:,}")
    console.print(table)
    console.print("rows that an engine reads twice count once; `–`: cannot run over streams there", highlight=False)


def _speed(run: Mapping[str, Any] | None) -> str:
    return "–" if run is None else f"{run['n_read'] / run['seconds']:,.0f}"
