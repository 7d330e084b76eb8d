"""Scalar expressions over Arrow batches, evaluated by DuckDB: the same engine on both runtimes, so both agree.

One connection per thread, one DuckDB thread each: parallelism is the runtime's business. Nothing can be read from or
written to outside the batch.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import duckdb
import pyarrow as pa

from sash.errors import SourceError

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection."""
    if not hasattr(_local, "connection"):
        db = duckdb.connect(config={"threads": 1})
        db.execute("SET TimeZone = 'UTC'")
        db.execute("SET enable_external_access = false")
        db.create_function("exact_mean", _exact_mean, ["VARCHAR", "BIGINT"], "DOUBLE")
        _local.connection = db
    return _local.connection


def _exact_mean(total: str, n_values: int) -> float:
    """The nearest double to a decimal sum over how many values it is of; DuckDB itself would round more than once."""
    mean = Fraction(total) / n_values
    return mean.numerator / mean.denominator


def quote(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def select(batch: pa.Table, columns: Sequence[tuple[str, str]], predicate: str | None = None) -> pa.Table:
    """The named expressions (name, SQL) over the rows that satisfy the predicate, in the order of the batch."""
    sources = {quote(name): name for name in batch.column_names if _comes_back_alike(batch.schema.field(name).type)}
    if predicate is None and all(sql in sources or _is_constant(sql) for _, sql in columns):
        arrays = [
            _repeated(sql, batch.num_rows) if sql not in sources else batch.column(sources[sql]) for _, sql in columns
        ]
        return pa.table(arrays, names=[name for name, _ in columns])
    items = ", ".join(f"{sql} AS {quote(name)}" for name, sql in columns)
    return run(f"SELECT {items} FROM batch" + (f" WHERE {predicate}" if predicate else ""), batch=batch)


@lru_cache(maxsize=1024)
def _is_constant(sql: str) -> bool:
    """Whether an expression is NULL or an integer, of a type that it names."""
    return bool(re.fullmatch(r"CAST\((NULL|-?\d+) AS [A-Z0-9_(), ]+\)", sql))


def _repeated(sql: str, n_rows: int) -> pa.Array:
    return pa.repeat(_constant(sql), n_rows)


@lru_cache(maxsize=1024)
def _constant(sql: str) -> pa.Scalar:
    """What a constant is, which needs to be asked but once."""
    return run(f"SELECT {sql} AS constant").column("constant")[0]


def _comes_back_alike(type: pa.DataType) -> bool:
    """Whether DuckDB would return a column of this type as it got it, so that it need not be asked."""
    tests = (
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_date32,
        pa.types.is_float64,
        pa.types.is_decimal128,
    )
    return any(test(type) for test in tests) or (pa.types.is_timestamp(type) and type.unit == "us")


def keep(batch: pa.Table, predicate: str) -> pa.Table:
    """The rows that satisfy the predicate, in the order of the batch."""
    return run(f"SELECT * FROM batch WHERE {predicate}", batch=batch) if batch.num_rows else batch


def run(sql: str, **tables: pa.Table) -> pa.Table:
    """The answer of an SQL text over the given tables."""
    db = connection()
    for name, table in tables.items():
        db.register(name, table)
    try:
        return db.sql(sql).to_arrow_table()
    except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException) as error:
        # DuckDB's own remedies may be settings, which are not the user's to make.
        reason = re.split(r"\.? Use TRY\(|\n", str(error), maxsplit=1)[0]
        raise SourceError(
            f"an expression of the query failed on a row: {reason}; "
            "TRY(…) or a CASE around it gives such a row a NULL instead"
        ) from None
    finally:
        for name in tables:
            db.unregister(name)
