"""What `sash bench plans` found, as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sash.store.byte_sizes import format_bytes


def show_plans(facts: Mapping[str, Any], console: Console) -> None:
    """The queries; where their time goes; and what else was asked for."""
    _show_queries(facts, console)
    for query in facts["queries"]:
        _show_operators(query, console)
    if facts.get("without_numba"):
        _show_without_numba(facts, console)
    if facts.get("sweeps"):
        _show_sweeps(facts, console)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for idx, heading in enumerate(headings):
        table.add_column(heading, justify="right" if idx else "left")
    return table


def _show_queries(facts: Mapping[str, Any], console: Console) -> None:
    table = _table(
        "whole plans in this process, on one core",
        "query", "tuples", "tuples/s", "tuples/CPU s", "µs/tuple", "changes/tuple", "state rows", "state",
    )  # fmt: skip
    for each in facts["queries"]:
        table.add_row(
            each["bench"]["query"],
            f"{each['n_tuples']:,}",
            f"{each['tuples_per_second']:,.0f}",
            f"{each['tuples_per_cpu_second']:,.0f}",
            f"{each['cpu_us_per_tuple']:.2f}",
            f"{each['changes_per_tuple']:.3f}",
            f"{each['n_state_rows']:,}",
            format_bytes(each["n_state_bytes"]),
        )
    console.print(table)


def _show_operators(query: Mapping[str, Any], console: Console) -> None:
    table = _table(f"{query['bench']['query']}: where the time goes", "operator", "rows in", "rows out", "s", "share")
    for name, work in query["operators"].items():
        share = work["seconds"] / query["seconds"]
        table.add_row(name, f"{work['rows_in']:,}", f"{work['rows_out']:,}", f"{work['seconds']:.3f}", f"{share:.0%}")
    rest = query["seconds"] - sum(work["seconds"] for work in query["operators"].values())
    table.add_row("reading and writing batches", "", "", f"{rest:.3f}", f"{rest / query['seconds']:.0%}")
    console.print(table)


def _show_without_numba(facts: Mapping[str, Any], console: Console) -> None:
    table = _table("kernels compiled and as plain Python", "query", "tuples/CPU s", "without numba", "ratio")
    for each in facts["without_numba"]:
        table.add_row(
            each["query"],
            f"{each['tuples_per_cpu_second']:,.0f}",
            f"{each['tuples_per_cpu_second_without_numba']:,.0f}",
            f"{each['ratio']:.1f}×",
        )
    console.print(table)


def _show_sweeps(facts: Mapping[str, Any], console: Console) -> None:
    table = _table(
        "more tuples in the window, or more groups, at equal output",
        "query", "sweep", "µs/tuple", "state/tuple", "changes/tuple",
    )  # fmt: skip
    for each in facts["sweeps"]:
        figures = (("cpu_us_per_tuple", ".2f"), ("state_bytes_per_tuple", ".1f"), ("changes_per_tuple", ".3f"))
        cells = [f"{each[name]:{form}} ({each['ratios'].get(name, 1):.2f}×)" for name, form in figures]
        table.add_row(each["query"], f"{each['factor']}× {each['sweep']}", *cells)
    console.print(table)
