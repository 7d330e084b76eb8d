"""Results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.lab.bench.embedded_join import TITLES
from sash.store.byte_sizes import format_bytes

_JOIN_FIGURES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "tuples/s": ("tuples_per_second", lambda value: f"{value:,.0f}"),
    "tuples/s, steady": ("steady_tuples_per_second", lambda value: f"{value:,.0f}"),
    "seconds": ("seconds", lambda value: f"{value:,.1f}"),
    "CPU s": ("cpu_seconds", lambda value: f"{value:,.1f}"),
    "tuples/CPU s, steady": ("steady_tuples_per_cpu_second", lambda value: f"{value:,.0f}"),
    "s, first batch": ("first_batch_seconds", lambda value: f"{value:,.1f}"),
    "state rows": ("state_rows", lambda value: f"{value:,}"),
    "state": ("state_bytes", format_bytes),
    "RocksDB": ("store_bytes", format_bytes),
    "checkpoint": ("checkpoint_bytes_per_batch", format_bytes),
    "– background": ("background_bytes", format_bytes),
}


def show_join(facts: Mapping[str, Any], titles: Mapping[str, str], console: Console) -> None:
    """A column per engine, then Sash's figures divided by those of each other engine."""
    engines = facts["engines"]
    ratios = {name: each for name, each in facts["ratios"].items() if each}
    headings = [titles[engine] for engine in engines] + [f"÷ {titles[name.split('/')[1]]}" for name in ratios]
    table = Table(title=_join_title(facts), title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, justify="right")
    for label, (figure, write) in _JOIN_FIGURES.items():
        told = [_write(each[figure], write) for each in engines.values()]
        table.add_row(label, *told, *(_write(each.get(figure), _write_ratio) for each in ratios.values()))
    console.print(table)
    if not facts["window_is_full"]:
        console.print("the windows were not yet full when steady state began: ask for more --tuples")


def show_embedded_join(facts: Mapping[str, Any], console: Console) -> None:
    """A row per engine; last, how many times faster than it Sash is."""
    table = Table(title=_join_title(facts), title_justify="left")
    for heading in ("one thread", "tuples/CPU s", "CPU s", "Sash ÷ it"):
        table.add_column(heading, justify="left" if heading == "one thread" else "right")
    for engine, told in facts["engines"].items():
        ratio = facts["ratios"].get(f"sash/{engine}")
        table.add_row(
            TITLES[engine],
            f"{told['tuples_per_cpu_second']:,.0f}",
            f"{told['cpu_seconds']:.2f}",
            _write(ratio, _write_ratio),
        )
    console.print(table)


def show_window(facts: Mapping[str, Any], console: Console) -> None:
    """A row per length of the window; in brackets the multiple of the first row."""
    table = Table(title=f"Sash, {facts['engine']}: longer windows, as many matches", title_justify="left")
    for heading in ("window", "keys", "matches", "s/M tuples", "checkpoint", "state rows", "state"):
        table.add_column(heading, justify="right")
    for step in facts["steps"]:
        ratios, workload = step["ratios"], step["workload"]
        table.add_row(
            f"{workload['window_us'] / 1e6:g} s",
            f"{workload['n_keys']:,}",
            f"{step['matches_per_tuple']:.3f}",
            f"{step['seconds_per_million_tuples']:.3f} ({ratios['seconds_per_million_tuples']:.2f}×)",
            _with_ratio(step, "checkpoint_bytes_per_batch"),
            f"{step['state_rows']:,}",
            _with_ratio(step, "state_bytes"),
        )
    console.print(table)
    first = facts["steps"][0]
    batch_seconds = first["workload"]["batch_rows"] / 2 / first["workload"]["rate"]
    if first["checkpoint_bytes_per_batch"] and batch_seconds > first["workload"]["window_us"] / 1e6:
        console.print(
            f"a batch lasts {batch_seconds:g} s of event time: rows of shorter windows may leave within their batch, "
            "and are then never written to a checkpoint",
            highlight=False,
        )


def _join_title(facts: Mapping[str, Any]) -> str:
    workload, rows = facts["workload"], facts["answer"]["rows"]
    rows_are = "rows of LEFT JOIN" if workload["is_outer"] else "joined rows"
    return (
        f"{workload['n_tuples']:,} tuples, {workload['n_keys']:,} keys, window {workload['window_us'] / 1e6:g} s, "
        f"payload {workload['payload']}: {rows:,} {rows_are}, the same from every engine"
    )


def _with_ratio(step: Mapping[str, Any], figure: str) -> str:
    if step[figure] is None:
        return "–"
    ratio = step["ratios"].get(figure)
    return format_bytes(step[figure]) + (f" ({ratio:.2f}×)" if ratio else "")


def _write(value: Any, write: Callable[[Any], str]) -> str:
    return "–" if value is None else write(value)


def _write_ratio(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:,.0f}×"
