"""Reads Parquet files, a batch of rows at a time.

The file says what types its columns have. They are cast to the declared types where no value loses anything; a file
that would lose something is refused as a whole, as its rows are not at fault one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.errors import SourceError
from sash.io.records import Records, find_column, tabulate_rejects

BATCH_ROWS = 1 << 18


def read(file: pa.NativeFile, path: str, schema: pa.Schema) -> Iterator[Records]:
    """The rows of one file in order. A column that is missing or does not fit its declared type is a SourceError."""
    # Spark's older timestamps span more years than nanoseconds can.
    parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    names = parquet.schema_arrow.names
    chosen = [names[find_column(names, declared, path)] for declared in schema.names]
    n_before = 0
    for batch in parquet.iter_batches(BATCH_ROWS, columns=list(dict.fromkeys(chosen)), use_threads=False):
        columns = [
            fit_declared(batch.column(name), field, f"file `{path}`")
            for name, field in zip(chosen, schema, strict=True)
        ]
        lines = np.arange(n_before + 1, n_before + 1 + len(batch), dtype=np.int64)
        yield Records(pa.Table.from_arrays(columns, schema=schema), lines, tabulate_rejects(path, []))
        n_before += len(batch)


def fit_declared(column: pa.Array, field: pa.Field, where: str) -> pa.Array:
    """The column as the declared type, or SourceError if the types differ in kind or a value would change.

    `where` says what it is a column of.
    """
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(field.type)
    if _kind(column.type) != _kind(field.type):
        raise SourceError(_describe_misfit(column, field, where, "which is of another kind"))
    try:
        fitted = column.cast(field.type)
        fitted.validate(full=True)
        is_same = fitted.type == column.type or _is_equal(fitted.cast(column.type), column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(_describe_misfit(column, field, where, f"and loses values: {error}")) from None
    if not is_same:
        raise SourceError(_describe_misfit(column, field, where, "and loses digits"))
    return fitted


def _kind(dtype: pa.DataType) -> str:
    """Types of one kind differ in size alone; to cast from one kind to another would be to guess at a meaning."""
    kinds = {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary),
        "time": (pa.types.is_timestamp, pa.types.is_date),
        "list": (pa.types.is_list, pa.types.is_large_list),
        "struct": (pa.types.is_struct,),
    }
    return next((kind for kind, tests in kinds.items() if any(test(dtype) for test in tests)), str(dtype))


def _is_equal(column: pa.Array, other: pa.Array) -> bool:
    """Whether two columns of one type hold the same values; a NaN equals a NaN."""
    if pa.types.is_floating(column.type):
        differs = pc.and_(pc.not_equal(column, other), pc.invert(pc.and_(pc.is_nan(column), pc.is_nan(other))))
        return not pc.any(differs, min_count=0).as_py()
    return column.equals(other)


def _describe_misfit(column: pa.Array, field: pa.Field, where: str, reason: str) -> str:
    return (
        f"{where}: column `{field.name}` is {column.type} but declared as {field.type}, {reason}; "
        f"declare the column as {column.type}"
    )
