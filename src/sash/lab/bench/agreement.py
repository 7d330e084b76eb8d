"""Whether engines gave the same rows, in whatever order.

Of each output DuckDB takes the number of rows and the sum and the exclusive or of a 64-bit hash of each row, over all
columns that the query selects. Only if these differ are the rows themselves compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa

from sash.errors import MismatchError
from sash.lab.bench.join_texts import sql_type

SHOWN_ROWS = 3


@dataclass(frozen=True, slots=True)
class Checksum:
    """The same for the same rows in any order."""

    n_rows: int
    sum: int
    xor: int

    def __add__(self, other: Checksum) -> Checksum:
        """Of the rows of both."""
        return Checksum(self.n_rows + other.n_rows, self.sum + other.sum, self.xor ^ other.xor)

    def __str__(self) -> str:
        return f"{self.n_rows:,} rows, checksum {self.sum & (2**64 - 1):016x}{self.xor:016x}"


def check_agreement(
    outputs: Mapping[str, Sequence[Path]], columns: Mapping[str, pa.DataType], condition: str | None = None
) -> Checksum:
    """The checksum of what every engine wrote; `outputs` are its Parquet files. Only rows that satisfy a condition of
    DuckDB's, in which times are microseconds, count if there is one.

    Raises `MismatchError` if two engines do not agree, and shows rows that only one of them has.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = {engine: _rows(files, columns, condition) for engine, files in outputs.items()}
        checksums = {engine: _checksum(connection, rows[engine], columns) for engine in outputs}
        for one, other in pairwise(outputs):
            if checksums[one] != checksums[other]:
                told = ", ".join(f"`{engine}` gives {checksum}" for engine, checksum in checksums.items())
                found = [*_only_in(connection, rows, one, other), *_only_in(connection, rows, other, one)]
                raise MismatchError("\n  ".join([f"the answers differ: {told}", *found[:SHOWN_ROWS]]))
    return next(iter(checksums.values()))


def checksum_of(rows: str, columns: Mapping[str, pa.DataType], **tables: pa.Table) -> Checksum:
    """The checksum of what a query of DuckDB's gives, over tables that it may name."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        for name, table in tables.items():
            connection.register(name, table)
        plain = ", ".join(f"{_plain(name, dtype)} AS {name}" for name, dtype in columns.items())
        return _checksum(connection, f"SELECT {plain} FROM ({rows})", columns)


def _rows(files: Sequence[Path], columns: Mapping[str, pa.DataType], condition: str | None) -> str:
    """A query for an output's rows with the same types for every engine: a hash depends on the type."""
    if not files:
        return f"SELECT {', '.join(f'NULL::{_plain_type(dtype)} AS {name}' for name, dtype in columns.items())} LIMIT 0"
    listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
    plain = ", ".join(f"{_plain(name, dtype)} AS {name}" for name, dtype in columns.items())
    rows = f"SELECT {plain} FROM read_parquet([{listed}], hive_partitioning = false)"
    return f"SELECT * FROM ({rows}) WHERE {condition}" if condition else rows


def _plain(name: str, dtype: pa.DataType) -> str:
    """Times as microseconds: some writers mark them as UTC and some do not."""
    return f"epoch_us({name})" if pa.types.is_timestamp(dtype) else f"CAST({name} AS {sql_type(dtype)})"


def _plain_type(dtype: pa.DataType) -> str:
    return "BIGINT" if pa.types.is_timestamp(dtype) else sql_type(dtype)


def _checksum(connection: duckdb.DuckDBPyConnection, rows: str, columns: Mapping[str, pa.DataType]) -> Checksum:
    hashed = f"hash({', '.join(columns)})"
    found = connection.execute(
        f"SELECT count(*), coalesce(sum({hashed}::HUGEINT), 0), coalesce(bit_xor({hashed}), 0) FROM ({rows})"
    ).fetchone()
    assert found is not None
    return Checksum(*(int(value) for value in found))


def _only_in(connection: duckdb.DuckDBPyConnection, rows: Mapping[str, str], one: str, other: str) -> list[str]:
    """Some rows that one engine gives, or gives more often, than the other."""
    query = f"SELECT * FROM ({rows[one]}) EXCEPT ALL SELECT * FROM ({rows[other]}) LIMIT {SHOWN_ROWS}"
    result = connection.execute(query)
    names = [column[0] for column in result.description or ()]
    found = result.fetchall()
    return [f"only `{one}`, not `{other}`: {', '.join(f'{k} = {v}' for k, v in zip(names, row))}" for row in found]
