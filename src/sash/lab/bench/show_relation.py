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
_LINES = {"ratio": "relation ÷ memory", "bias": "b", "step_rows": "tuples in a step"}
_DRAWN = {
    "tuples_per_second": "tuples per second",
    "mean_delay_ms": "mean delay, ms",
    "read_per_tuple": "read per tuple, bytes",
}


def show_relation(facts: Mapping[str, Any], console: Console) -> None:
    """A row per engine and relation; below, why some were left out."""
    table = Table(title=_title(facts["bench"]), title_justify="left")
    table.add_column("engine")
    for heading in ("relation ÷ memory", "b", "tuples/step", *_FIGURES):
        table.add_column(heading, justify="right")
    cells = sorted(facts["cells"], key=lambda cell: (list(ENGINES).index(cell["engine"]), *_place(cell)))
    for engine, of_engine in groupby(cells, key=lambda cell: cell["engine"]):
        for number, cell in enumerate(of_engine):
            figures = [_write(cell.get(name), write) for name, write in _FIGURES.values()]
            name = "" if number else ENGINES[engine]
            ratio, bias, step_rows = _place(cell)
            table.add_row(name, f"{ratio:g}", f"{bias:g}", f"{step_rows:,}", *figures)
        table.add_section()
    console.print(table)
    for cell in cells:
        if "left_out" in cell:
            ratio, bias, step_rows = _place(cell)
            where = f"{ratio:g}, b = {bias:g}, {step_rows:,} tuples in a step"
            told = f"{ENGINES[cell['engine']]} is left out at {where}: it {cell['left_out']}"
            console.print(told, highlight=False)


def draw_relation(facts: Mapping[str, Any], path: Path) -> None:
    """Line by line, against the size of the relation, how unequal keys are, and how long steps are."""
    figure, axes = new_figure(len(_DRAWN), n_lines=3)
    bench = facts["bench"]
    usual = {"ratio": max(bench["ratios"]), "bias": bench["usual_bias"], "step_rows": bench["usual_step"]}
    told = {"ratio": f"{usual['ratio']:g} times the memory", "bias": f"b = {usual['bias']:g}"}
    told["step_rows"] = f"steps of {usual['step_rows']:,}"
    for line, (along, label) in enumerate(_LINES.items()):
        others = [other for other in usual if other != along]
        for number, (name, title) in enumerate(_DRAWN.items()):
            ax = axes[number + line * len(_DRAWN)]
            _draw_lines(ax, facts, name, along, lambda cell, others=others: all(cell[o] == usual[o] for o in others))
            ax.set(xlabel=f"{label} ({', '.join(told[other] for other in others)})")
            if line == 0:
                ax.set(title=title)
            if along != "bias":
                ax.set(xscale="log")
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


def _place(cell: Mapping[str, Any]) -> tuple[float, float, int]:
    return cell["ratio"], cell["bias"], cell["step_rows"]


def _title(bench: Mapping[str, Any]) -> str:
    memory = format_bytes(bench["limit_bytes"])
    return f"{memory} of memory, {bench['n_measured']} steps measured: the same pairs from every engine"


def _write(value: float | None, write: Callable[[float], str]) -> str:
    return "—" if value is None else write(value)
