"""What notebooks show of changes and answers, which are Arrow tables to all others: counts, the clock, a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

import pyarrow as pa

from sash.operators.living_rows import SYSTEM, times_of
from sash.runtime.plain_answer import show_instant
from sash.store.batch import BEGINNING, EXPIRES, OP, TS
from sash.store.changes_reading import ANSWER, ChangesReading

N_SHOWN = 20
_MIME = "text/html"
_SIGNS = {1: "+", -1: "−"}


def show_in_notebooks() -> None:
    """Where IPython runs, tells it how to show tables that Sash made; all others look as before."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    formatter = shell.display_formatter.formatters[_MIME]
    before: Callable[[pa.Table], str | None] | None = formatter.for_type(pa.Table)

    def show(table: pa.Table) -> str | None:
        found = html_of(table)
        return before(table) if found is None and before is not None else found

    formatter.for_type(pa.Table, show)


def html_of(table: pa.Table) -> str | None:
    """A table that Sash made as HTML; None for any other one."""
    reading, told = ChangesReading.of(table.schema), (table.schema.metadata or {}).get(ANSWER)
    if reading is not None and all(name in table.schema.names for name in SYSTEM):
        return "".join(_changes(table, reading))
    return None if told is None else "".join(_answer(table, told.decode()))


def _changes(changes: pa.Table, reading: ChangesReading) -> Iterator[str]:
    n_back = int((changes.column(OP).to_numpy() < 0).sum())
    parts = [_counted(changes.num_rows, "change")]
    if n_back:
        parts.append(f"{n_back:,} of them taken back")
    if reading.replaced_by is not None:
        by = ", ".join(reading.replaced_by)
        parts.append(f"the newest row of each ({by}) counts" if by else "the newest row counts")
    if reading.final_us is not None:
        parts.append(f"final up to {show_instant(reading.final_us, changes.schema.field(TS).type)}")
    order = times_of(changes, TS, BEGINNING).argsort(kind="stable")
    newest = changes.take(pa.array(order[max(0, len(order) - N_SHOWN) :]))
    yield _headed(parts, "the newest", newest.num_rows, changes.num_rows)
    yield from _rows(newest)


def _answer(answer: pa.Table, instant: str) -> Iterator[str]:
    yield _headed([_counted(answer.num_rows, "row"), f"at {instant}"], "the first", N_SHOWN, answer.num_rows)
    yield from _rows(answer.slice(0, N_SHOWN))


def _headed(parts: list[str], which: str, n_shown: int, n_all: int) -> str:
    shown = [f"{which} {n_shown:,} are shown"] if n_shown < n_all else []
    return f"<p>{escape(' · '.join([*parts, *shown]))}</p>"


def _rows(rows: pa.Table) -> Iterator[str]:
    is_number = [pa.types.is_integer(each.type) or pa.types.is_floating(each.type) for each in rows.schema]
    yield "<table><thead><tr>"
    yield from (f"<th>{escape(name)}</th>" for name in rows.schema.names)
    yield "</tr></thead><tbody>"
    columns = [_texts(name, rows.column(name)) for name in rows.schema.names]
    for row in zip(*columns):
        cells = (
            f'<td style="text-align:{"right" if right else "left"}">{escape(cell)}</td>'
            for cell, right in zip(row, is_number)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table>"


def _texts(name: str, column: pa.ChunkedArray) -> list[str]:
    if name in (TS, EXPIRES) and pa.types.is_timestamp(column.type):
        times = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
        return ["" if us is None else show_instant(us, column.type) for us in times]
    show = repr if pa.types.is_floating(column.type) else str
    if column.type == pa.float16():
        column = column.cast(pa.float64())
    values: list[Any] = column.to_pylist()
    if name == OP:
        return [_SIGNS[sign] for sign in values]
    return ["NULL" if value is None else show(value) for value in values]


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
