"""Results as PNG files. matplotlib is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"sash": "#1f77b4", "builtin": "#ff7f0e", "duckdb": "#7f7f7f"}
_COLOURS |= {"tiered": "#17becf", "ewj": "#2ca02c", "rpwj": "#d62728", "ahewj": "#9467bd"}
_MIB = 1 << 20


def draw_join(facts: Mapping[str, Any], titles: Mapping[str, str], path: Path) -> None:
    """Throughput per batch of the engines that work in batches, and in steady state of all."""
    from matplotlib.ticker import MaxNLocator

    figure, (left, right) = new_figure(2)
    for engine, told in facts["engines"].items():
        if told["checkpoint_bytes_per_batch"] is not None:
            rates = [batch["n_rows"] / batch["seconds"] for batch in told["batches"]]
            left.plot(
                range(1, len(rates) + 1), rates, marker="o", markersize=3, color=_COLOURS[engine], label=titles[engine]
            )
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set(title="throughput per batch", xlabel="batch", ylabel="tuples per second")
    if left.lines:
        left.legend()
    steady = {titles[name]: told["steady_tuples_per_second"] for name, told in facts["engines"].items()}
    _draw_bars(
        right, steady, "steady state (second half of the batches)", [_COLOURS[name] for name in facts["engines"]]
    )
    right.set_ylabel("tuples per second")
    save(figure, path)


def draw_embedded_join(facts: Mapping[str, Any], path: Path) -> None:
    """Throughput of each engine."""
    from sash.lab.bench.embedded_join import TITLES

    figure, (ax,) = new_figure(1)
    speeds = {TITLES[engine]: told["tuples_per_cpu_second"] for engine, told in facts["engines"].items()}
    _draw_bars(ax, speeds, "tuples per CPU second, one thread")
    save(figure, path)


def draw_multiway(facts: Mapping[str, Any], titles: Mapping[str, str], path: Path) -> None:
    """Throughput in steady state, in this process and on Spark."""
    figure, axes = new_figure(2)
    parts = {
        "embedded": ("tuples per CPU second, one thread", "steady_tuples_per_cpu_second"),
        "spark": ("on Spark: tuples per second, steady", "steady_tuples_per_second"),
    }
    for ax, (part, (title, figure_name)) in zip(axes, parts.items()):
        engines = (facts[part] or {"engines": {}})["engines"]
        bars = {titles[engine]: told[figure_name] for engine, told in engines.items()}
        _draw_bars(ax, bars, title, [_COLOURS[engine] for engine in engines])
    save(figure, path)


def draw_nexmark(facts: Mapping[str, Any], titles: Mapping[str, str], path: Path) -> None:
    """Events per second of every query, on every engine that ran it."""
    figure, (ax,) = new_figure(1)
    figure.set_size_inches(12, 4.5)
    colours = dict(zip(titles, (_COLOURS["sash"], _COLOURS["duckdb"], _COLOURS["builtin"])))
    names, width = list(facts["queries"]), 0.8 / len(titles)
    for place, (engine, title) in enumerate(titles.items()):
        runs = [(at, facts["queries"][name].get(engine)) for at, name in enumerate(names)]
        bars = {at + place * width: run["n_read"] / run["seconds"] for at, run in runs if run}
        if bars:
            ax.bar(list(bars), list(bars.values()), width, align="edge", color=colours[engine], label=title)
    ax.set_xticks([at + 0.4 for at in range(len(names))], names)
    ax.set(title="Nexmark", ylabel="events per second")
    ax.legend()
    save(figure, path)


def draw_shared(facts: Mapping[str, Any], path: Path) -> None:
    """CPU time of one query, of all sharing, and of all separately, wherever they ran."""
    parts = {"embedded": "in this process", "spark": "on Spark"}
    figure, axes = new_figure(2)
    for ax, (part, title) in zip(axes, parts.items()):
        figures = (facts[part] or {"figures": {}})["figures"]
        bars = {name: told["cpu_seconds"] or told["seconds"] for name, told in figures.items()}
        _draw_bars(ax, bars, f"{title}: CPU seconds")
    save(figure, path)


def draw_window(facts: Mapping[str, Any], path: Path) -> None:
    """What a step costs, by how many times longer its window is."""
    figure, axes = new_figure(3)
    steps: Sequence[Mapping[str, Any]] = facts["steps"]
    figures = {
        "seconds per million tuples": ("seconds_per_million_tuples", 1),
        "checkpoint per batch, MiB": ("checkpoint_bytes_per_batch", _MIB),
        "state, MiB": ("state_bytes", _MIB),
    }
    for ax, (title, (name, unit)) in zip(axes, figures.items()):
        _draw_bars(ax, {f"{step['factor']}×": (step[name] or 0) / unit for step in steps}, title)
        ax.set_xlabel("length of the window")
    save(figure, path)


def draw_memory(facts: Mapping[str, Any], titles: Mapping[str, str], path: Path) -> None:
    """What a tuple costs and how much memory is taken, by how many times larger than memory the window is."""
    from matplotlib.ticker import LogFormatter

    figure, axes = new_figure(3)
    ratios = sorted(facts["bench"]["ratios"])
    parts: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "CPU time per tuple, µs": lambda cell: cell["cpu_us_per_tuple"],
        "read and written per tuple, bytes": lambda cell: (
            (cell["read_per_tuple"] or 0) + (cell["written_per_tuple"] or 0)
        ),
        "peak memory, MiB": lambda cell: cell["peak_bytes"] / _MIB,
    }
    for ax, (title, figure_of) in zip(axes, parts.items()):
        for engine in facts["bench"]["engines"]:
            cells = [cell for cell in facts["cells"] if cell["engine"] == engine and "left_out" not in cell]
            places, values = [cell["ratio"] for cell in cells], [figure_of(cell) for cell in cells]
            ax.plot(places, values, marker="o", markersize=4, color=_COLOURS[engine], label=titles[engine])
        ax.set(title=title, xlabel="window ÷ memory", xscale="log")
        ax.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])
        ax.set_xticks([], minor=True)
    for ax in (axes[0], axes[2]):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(LogFormatter())
        ax.yaxis.set_minor_formatter(LogFormatter())
    axes[0].legend()
    axes[1].set_yscale("symlog", linthresh=10)
    axes[1].yaxis.set_major_formatter("{x:,.0f}")
    axes[1].set_ylim(bottom=0)
    axes[2].axhline(facts["bench"]["limit_bytes"] / _MIB, color="black", linewidth=0.8, linestyle="--")
    figure.savefig(path, dpi=120)


def draw_plans(facts: Mapping[str, Any], path: Path) -> None:
    """How fast each query is, and what its operators take of the time."""
    figure, (left, right) = new_figure(2)
    names = [query["bench"]["query"] for query in facts["queries"]]
    speeds = [query["tuples_per_cpu_second"] for query in facts["queries"]]
    _draw_bars(left, dict(zip(names, speeds)), "tuples per CPU second")
    for name, query in zip(names, facts["queries"]):
        bottom = 0.0
        for number, (operator, work) in enumerate(query["operators"].items()):
            height = work["seconds"] / query["n_tuples"] * 1e6
            right.bar(name, height, bottom=bottom, color=f"C{number}")
            if height > 0.3:
                right.annotate(
                    operator.split("-")[1], (name, bottom + height / 2), ha="center", va="center", fontsize=7
                )
            bottom += height
    right.set(title="operators", ylabel="µs per tuple")
    save(figure, path)


def new_figure(n_parts: int, n_lines: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """Without pyplot: nothing is opened, and nothing stays in memory afterwards. Parts come line by line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * n_parts, 4.5 * n_lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(n_lines, n_parts, squeeze=False).flat)
    for ax in axes:
        ax.grid(axis="y", alpha=0.3)
        ax.yaxis.set_major_formatter("{x:,.9g}")
    return figure, axes


def _draw_bars(ax: Axes, bars: Mapping[str, float], title: str, colours: Sequence[str] | None = None) -> None:
    drawn = ax.bar(list(bars), list(bars.values()), color=colours or _COLOURS["sash"])
    ax.bar_label(drawn, labels=[f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in bars.values()])
    ax.set_title(title)


def save(figure: Figure, path: Path) -> None:
    for ax in figure.axes:
        ax.set_ylim(bottom=0)
    figure.savefig(path, dpi=120)
