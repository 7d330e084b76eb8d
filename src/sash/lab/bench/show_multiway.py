"""The results of `sash bench multiway` as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.lab.bench.embedded_join import TITLES
from sash.lab.bench.show_join import show_join
from sash.store.byte_sizes import format_bytes


def show_multiway(facts: Mapping[str, Any], titles: Mapping[str, str], console: Console) -> None:
    """What ran in this process, then what ran on Spark, each below a line that says how fast its streams are."""
    if facts["embedded"]:
        console.print(_describe_streams(facts["embedded"]), highlight=False)
        _show_embedded(facts["embedded"], console)
    if facts["spark"]:
        console.print(_describe_streams(facts["spark"]), highlight=False)
        show_join(facts["spark"], titles, console)


def _describe_streams(facts: Mapping[str, Any]) -> str:
    workload = facts["workload"]
    return (
        f"{workload['n_streams']} streams of {workload['rate']:,} tuples/s each: "
        f"a tuple completes {workload['combinations_per_tuple']:.3g} combinations"
    )


def _show_embedded(facts: Mapping[str, Any], console: Console) -> None:
    workload, n_rows = facts["workload"], facts["answer"]["rows"]
    title = (
        f"{workload['n_tuples']:,} tuples, {workload['n_keys']:,} keys, window {workload['window_us'] / 1e6:g} s: "
        f"{n_rows:,} joined rows, the same from both"
    )
    table = Table(title=title, title_justify="left")
    for heading in ("one thread", "tuples/CPU s", "– steady", "rows/CPU s", "CPU s", "state rows", "state"):
        table.add_column(heading, justify="left" if heading == "one thread" else "right")
    for engine, told in facts["engines"].items():
        is_batch = told["state_rows"] is None
        table.add_row(
            TITLES[engine],
            f"{told['tuples_per_cpu_second']:,.0f}",
            "–" if is_batch else f"{told['steady_tuples_per_cpu_second']:,.0f}",
            f"{told['rows_per_cpu_second']:,.0f}",
            f"{told['cpu_seconds']:.2f}",
            "–" if is_batch else f"{told['state_rows']:,}",
            "–" if is_batch else format_bytes(told["state_bytes"]),
        )
    console.print(table)
    if not facts["window_is_full"]:
        console.print("the windows were not yet full when steady state began: ask for more --tuples")
