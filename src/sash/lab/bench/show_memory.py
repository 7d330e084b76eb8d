"""The result of `sash bench memory` as a table on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.lab.bench.step_engines import ENGINES
from sash.store.byte_sizes import format_bytes

_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "CPU µs/tuple": ("cpu_us_per_tuple", lambda value: f"{value:,.2f}"),
    "µs/tuple": ("us_per_tuple", lambda value: f"{value:,.2f}"),
    "read/tuple": ("read_per_tuple", format_bytes),
    "written/tuple": ("written_per_tuple", format_bytes),
    "peak memory": ("peak_bytes", format_bytes),
}


def show_memory(facts: Mapping[str, Any], console: Console) -> None:
    """A row per engine and window; below, why some were left out."""
    table = Table(title=_title(facts["bench"]), title_justify="left")
    table.add_column("engine")
    for heading in ("window ÷ memory", *_FIGURES):
        table.add_column(heading, justify="right")
    cells = sorted(facts["cells"], key=lambda cell: (list(ENGINES).index(cell["engine"]), cell["ratio"]))
    for engine, of_engine in groupby(cells, key=lambda cell: cell["engine"]):
        for number, cell in enumerate(of_engine):
            figures = [_write(cell.get(name), write) for name, write in _FIGURES.values()]
            table.add_row("" if number else ENGINES[engine], f"{cell['ratio']:g}", *figures)
        table.add_section()
    console.print(table)
    for cell in cells:
        if "left_out" in cell:
            reason = f"{ENGINES[cell['engine']]} is left out at {cell['ratio']:g}: it {cell['left_out']}"
            console.print(reason, highlight=False)


def _title(bench: Mapping[str, Any]) -> str:
    return (
        f"{format_bytes(bench['limit_bytes'])} of memory, steps of {bench['step_rows']:,} rows, {bench['n_measured']} "
        "measured with a full window: the same pairs from every engine"
    )


def _write(value: float | None, write: Callable[[float], str]) -> str:
    return "—" if value is None else write(value)
