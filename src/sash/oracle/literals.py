"""Small tables as text, the way one draws them on a whiteboard.

    stream_of('''
        ts | k    | v
        1  | a    | 10
        2  | NULL | 2.5
    ''')

A cell is a number, `true` or `false`, a date `2026-01-31`, a timestamp `2026-01-31 12:00:00`, `NULL`, or text; text in
single quotes is text whatever it looks like. A column has the one type that fits all its cells, or the type given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sash.sql import duck

_NULL = "NULL"
_BOOLEANS = {"true": True, "false": False}
_BREAK = re.compile(r"\|(?=(?:[^']*'[^']*')*[^']*$)")
"""A bar outside quotes."""


def stream_of(text: str, /, **types: pa.DataType | str) -> pa.Table:
    """The table that the text draws: a line of names, then a line per row.

    `types`, of Arrow or by their SQL names (`k="DECIMAL(9,2)"`), overrule what the cells look like.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    names, *rows = [[cell.strip() for cell in _BREAK.split(line)] for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ValueError(f"row {number} has {len(row)} cells where the head names {len(names)}: {' | '.join(row)}")
    cells = {name: [row[idx] for row in rows] for idx, name in enumerate(names)}
    return pa.table({name: _read_column(column, types.get(name)) for name, column in cells.items()})


def draw(table: pa.Table) -> str:
    """The text from which `stream_of`, given the table's types, makes the table again."""
    columns = [[name, *map(write_cell, table.column(name).to_pylist())] for name in table.column_names]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns) if columns else ()
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def write_cell(value: Any) -> str:
    """A value as the cell of a drawn table."""
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _is_plain(value) else "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value)


def _is_plain(text: str) -> bool:
    """Whether a text may stand without quotes."""
    return bool(re.fullmatch(r"[^\W\d_]\w*", text)) and _infer(text)[1] == pa.string() and text != _NULL


def _read_column(cells: list[str], type: pa.DataType | str | None) -> pa.Array:
    values = [None if cell == _NULL else cell for cell in cells]
    type = duck.arrow_type(type) if isinstance(type, str) else type
    type = type or _common_type([_infer(value)[1] for value in values if value is not None])
    return pa.array([None if value is None else _convert(value, type) for value in values], type)


def _infer(cell: str) -> tuple[Any, pa.DataType]:
    """The value that a cell looks like, and its type."""
    readers: tuple[tuple[Callable[[str], Any], pa.DataType], ...] = (
        (_read_integer, pa.int64()),
        (float, pa.float64()),
        (lambda text: _BOOLEANS[text], pa.bool_()),
        (date.fromisoformat, pa.date32()),
        (datetime.fromisoformat, pa.timestamp("us")),
    )
    for read, type in readers:
        try:
            value = read(cell)
        except (ValueError, KeyError):
            continue
        is_zoned = isinstance(value, datetime) and value.tzinfo is not None
        return value, pa.timestamp("us", "UTC") if is_zoned else type
    return _unquoted(cell), pa.string()


def _read_integer(cell: str) -> int:
    value = int(cell)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{cell} does not fit into 64 bits")
    return value


def _unquoted(cell: str) -> str:
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == "'"
    return cell[1:-1].replace("''", "'") if is_quoted else cell


def _common_type(types: list[pa.DataType]) -> pa.DataType:
    """The one type that fits all cells: an integer among floats is one, anything else among others is text."""
    distinct = set(types)
    if len(distinct) == 1:
        return types[0]
    if distinct == {pa.int64(), pa.float64()}:
        return pa.float64()
    return pa.string()


def _convert(cell: str, type: pa.DataType) -> Any:
    """A cell as a value that Arrow takes for the type."""
    if pa.types.is_string(type):
        return _unquoted(cell)
    if pa.types.is_decimal(type):
        return Decimal(cell)
    if pa.types.is_floating(type):
        return float(cell)
    if pa.types.is_integer(type):
        return int(cell)
    value, _ = _infer(cell)
    if pa.types.is_timestamp(type) and not isinstance(value, datetime | int):
        return datetime.combine(value, datetime.min.time())
    return value
