"""What DuckDB says of the columns of a SELECT, remembered: the same is asked again and again while a query is bound."""

from __future__ import annotations

import atexit
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from sash.sql import duck

MAX_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class Selected:
    """The columns that a SELECT has: their names, and their types as DuckDB says and as they travel."""

    names: tuple[str, ...]
    types: tuple[DuckDBPyType, ...]
    arrow_types: tuple[pa.DataType, ...]


class Answers:
    """Asks DuckDB of SELECTs from an empty table `sources` with these columns; to be closed.

    An answer follows from the columns and the text alone, so one that was given before, to whomever, is given again.
    """

    def __init__(self, columns: pa.Schema):
        self._columns = columns
        self._key = tuple((field.name, field.type) for field in columns)
        self._connection: duckdb.DuckDBPyConnection | None = None

    def ask(self, select: str) -> Selected:
        """What the SELECT has; `duckdb.Error` when it cannot be bound, or when a constant in it has no value."""
        key = self._key, select
        answer = _recall(key)
        if answer is None:
            answer = self._find(select)
            _remember(key, answer)
        if isinstance(answer, duckdb.Error):
            raise type(answer)(str(answer))
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _find(self, select: str) -> Selected | duckdb.Error:
        try:
            relation = self._connected().sql(select)
            arrow_types = relation.to_arrow_table().schema.types
        except duckdb.Error as error:
            return error
        return Selected(tuple(relation.columns), tuple(relation.types), tuple(arrow_types))

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = duck.connect()
            # DuckDB takes no table without columns; a constant has none to read.
            columns = self._columns if len(self._columns) else pa.schema({"": pa.int8()})
            self._connection.register("sources", columns.empty_table())
        return self._connection


_Key = tuple[tuple[tuple[str, pa.DataType], ...], str]
_remembered: OrderedDict[_Key, Selected | duckdb.Error] = OrderedDict()
_lock = Lock()
atexit.register(_remembered.clear)  # DuckDB complains of types that outlive it


def _recall(key: _Key) -> Selected | duckdb.Error | None:
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
        return _remembered.get(key)


def _remember(key: _Key, answer: Selected | duckdb.Error) -> None:
    """The newest answers; those that were not asked for the longest time are forgotten."""
    with _lock:
        _remembered[key] = answer
        while len(_remembered) > MAX_REMEMBERED:
            _remembered.popitem(last=False)
