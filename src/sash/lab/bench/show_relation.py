"""The result of `sash bench relation` as a table on the terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sash.lab.bench.picture import new_figure
from sash.lab.bench.relation_engines import ENGINES
from sash.store.byte_sizes import format_bytes, format_traffic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "tuples/s": ("tuples_per_second", lambda value: f"{value:,.0f}"),
    "mean delay, ms": ("mean_delay_ms", lambda value: f"{value:,.1f}"),
    "p99 delay, ms": ("p99_delay_ms", lambda value: f"{value:,.1f}"),
    "read/tuple": ("read_per_tuple", format_traffic),
}
_DRAWN = {
    "tuples_per_second": "tuples per second",
    "mean_delay_ms": "mean delay, ms",
    "read_per_tuple": "read per tuple, bytes",
}


def show_relation(facts: Mapping[str, Any], console: Console) -> None:
    """A row per engine and relation; below, why some were left out."""
    table = Table(title=_title(facts["bench"]), title_justify="left")
    table.add_column("engine")
    for heading in ("relation ÷ memory", "b", *_FIGURES):
        table.add_column(heading, justify="right")
    cells = sorted(facts["cells"], key=lambda cell: (list(ENGINES).index(cell["engine"]), cell["ratio"], cell["bias"]))
    for engine, of_engine in groupby(cells, key=lambda cell: cell["engine"]):
        for number, cell in enumerate(of_engine):
            figures = [_write(cell.get(name), write) for name, write in _FIGURES.values()]
            name = "" if number else ENGINES[engine]
            table.add_row(name, f"{cell['ratio']:g}", f"{cell['bias']:g}", *figures)
        table.add_section()
    console.print(table)
    for cell in cells:
        if "left_out" in cell:
            told = f"{ENGINES[cell['engine']]} is left out at {cell['ratio']:g}: it {cell['left_out']}"
            console.print(told, highlight=False)


def draw_relation(facts: Mapping[str, Any], path: Path) -> None:
    """Above, against the size of the relation; below, against how unequal keys are."""
    figure, axes = new_figure(len(_DRAWN), n_lines=2)
    bench = facts["bench"]
    largest, usual = max(bench["ratios"]), bench["usual_bias"]
    for number, (name, title) in enumerate(_DRAWN.items()):
        _draw_lines(axes[number], facts, name, "ratio", lambda cell: cell["bias"] == usual)
        axes[number].set(title=title, xlabel=f"relation ÷ memory, b = {usual:g}", xscale="log")
        below = axes[number + len(_DRAWN)]
        _draw_lines(below, facts, name, "bias", lambda cell: cell["ratio"] == largest)
        below.set(xlabel=f"b, relation {largest:g} times the memory")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=120)


def _draw_lines(
    ax: Axes, facts: Mapping[str, Any], name: str, along: str, is_shown: Callable[[Mapping[str, Any]], bool]
) -> None:
    for number, engine in enumerate(facts["bench"]["engines"]):
        found = [each for each in facts["cells"] if each["engine"] == engine and is_shown(each)]
        cells = sorted((each for each in found if each.get(name) is not None), key=lambda each: each[along])
        places, values = [each[along] for each in cells], [each[name] for each in cells]
        ax.plot(places, values, marker="o", markersize=4, color=f"C{number}", label=ENGINES[engine])
    ax.set_yscale("symlog", linthresh=1)


def _title(bench: Mapping[str, Any]) -> str:
    return (
        f"{format_bytes(bench['limit_bytes'])} of memory, steps of {bench['step_rows']:,} tuples, "
        f"{bench['n_measured']} measured: the same pairs from every engine"
    )


def _write(value: float | None, write: Callable[[float], str]) -> str:
    return "—" if value is None else write(value)
