"""From text to typed values, without loss.

A text converts only if the typed value says exactly what the text says: `1.5` is no integer, `1.239` is no
DECIMAL(10, 2), seven digits of a second are no TIMESTAMP. What does not convert is reported, never turned into NULL.

Whether a text converts is defined by `_guarded_cast`, a SQL expression: DuckDB's own casts round, drop zone offsets and
read `1_000`, so a pattern stands before each of them. Arrow's casts are several times faster; where Arrow converts a
whole column and is known to accept no more than the SQL does (`_cast_plain`), its result is taken.
"""

from __future__ import annotations

import os
import threading
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SQL_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
_FINITE = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WITH_EXPONENT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,3}"
_NOT_FINITE = r"(?i:nan|[+-]?inf|[+-]?infinity)"

_DECIMAL_DIGITS = 38
_SHOWN_CHARACTERS = 80
_per_thread = threading.local()


def sql_name(dtype: pa.DataType) -> str | None:
    """The SQL name of a type that text can be converted to; None for a type that text cannot hold."""
    if pa.types.is_decimal128(dtype) and dtype.scale >= 0:
        return f"DECIMAL({dtype.precision}, {dtype.scale})"
    return _SQL_NAMES.get(dtype)


def convert(texts: pa.Table, schema: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """Gives `texts`, whose columns stand in the order of `schema`, the types of `schema`.

    A column that has its type already is left alone. Also returned: for each row with a text that does not convert,
    which texts and why; such a row is to be rejected, as those cells are NULL in the table.
    """
    columns = [_convert_column(texts.column(idx), field.type) for idx, field in enumerate(schema)]
    reasons: dict[int, str] = {}
    for idx, (column, field) in enumerate(zip(columns, schema, strict=True)):
        if column.null_count == texts.column(idx).null_count:
            continue
        for row in np.flatnonzero(_failed(texts.column(idx), column)).tolist():
            reason = describe_misfit(field, texts.column(idx)[row].as_py())
            reasons[row] = f"{reasons[row]}; {reason}" if row in reasons else reason
    return pa.Table.from_arrays(columns, schema=schema), reasons


def describe_misfit(field: pa.Field, seen: str) -> str:
    """Why a record is rejected: the field, the value seen and the declared type."""
    shown = seen if len(seen) <= _SHOWN_CHARACTERS else f"{seen[:_SHOWN_CHARACTERS]}…"
    return f"field `{field.name}`: '{shown}' is not a {sql_name(field.type)}"


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's own in-memory DuckDB, single-threaded and in UTC; a forked process gets a fresh one."""
    # What a forked process inherits stays in the mapping: DuckDB cannot close it there without hanging.
    by_process = vars(_per_thread).setdefault("by_process", {})
    if os.getpid() not in by_process:
        fresh = duckdb.connect(config={"threads": 1})
        fresh.execute("SET TimeZone = 'UTC'").fetchall()
        by_process[os.getpid()] = fresh
    return by_process[os.getpid()]


def _convert_column(texts: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    if texts.type == dtype:
        return texts
    if pa.types.is_large_string(dtype):
        return texts.cast(dtype)
    plain = _cast_plain(texts, dtype)
    return plain if plain is not None else _cast_each(texts, dtype)


def _cast_plain(texts: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray | None:
    """The whole column as Arrow casts it; None if a text fails or might mean something else to `_cast_each`."""
    if pa.types.is_timestamp(dtype):
        return _cast_plain_timestamps(texts, dtype)
    if pa.types.is_integer(dtype) and _holds_letter(texts, b"x"):
        return None
    if pa.types.is_decimal(dtype) and (_holds_letter(texts, b"e") or _may_overflow(texts, dtype.scale)):
        return None
    values = _cast_all(texts, dtype)
    if values is not None and pa.types.is_floating(dtype) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        return None
    return values


def _cast_plain_timestamps(texts: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray | None:
    """As `_cast_plain`. Arrow wants a zone in all texts or in none, and takes `2024-01-01 10` for a time."""
    shortest = pc.min(pc.binary_length(texts)).as_py() or 0
    values = None
    if texts.null_count == len(texts) or shortest >= len("2024-01-01 10:00:00"):
        values = _cast_all(texts, pa.timestamp("us"))
    if values is None and shortest > len("2024-01-01 10+00:00"):
        values = _cast_all(texts, pa.timestamp("us", "UTC"))
    return None if values is None else values.cast(dtype)


def _cast_all(texts: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return texts.cast(dtype)
    except pa.ArrowInvalid:
        return None


def _may_overflow(texts: pa.ChunkedArray, scale: int) -> bool:
    """Whether a text may have more digits, once brought to a type's scale, than fit: Arrow does not notice."""
    n_longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return n_longest + scale > _DECIMAL_DIGITS


def _holds_letter(texts: pa.ChunkedArray, letter: bytes) -> bool:
    """Whether `letter` may occur in the column, in upper or lower case; sees whole buffers, so it may err to yes."""
    buffers = [chunk.buffers()[2] for chunk in texts.chunks]
    to_lower_case = 0x20
    return any(bool(np.any(np.frombuffer(data, np.uint8) | to_lower_case == letter[0])) for data in buffers if data)


def _cast_each(texts: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    """Each text by itself as its SQL type; NULL where it does not convert."""
    if pa.types.is_integer(dtype) or pa.types.is_decimal(dtype):
        texts = _without_exponents(texts)
    trimmed = connection().from_arrow(pa.table({"text": pc.utf8_trim(texts, characters=" ")}))
    return trimmed.project(f"{_guarded_cast(dtype)} AS value").to_arrow_table().column("value").cast(dtype)


def _without_exponents(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same numbers with `1.5e3` spelt out as `1500`, since the casts round what has an exponent."""
    has_exponent = pc.fill_null(pc.match_substring_regex(texts, f"^ *{_WITH_EXPONENT} *$"), False)
    if not pc.any(has_exponent, min_count=0).as_py():
        return texts
    spelt_out = [f"{Decimal(text.strip()):f}" for text in texts.filter(has_exponent).to_pylist()]
    replaced = pc.replace_with_mask(texts.combine_chunks(), has_exponent.combine_chunks(), pa.array(spelt_out))
    return pa.chunked_array([replaced])


def _guarded_cast(dtype: pa.DataType) -> str:
    """A SQL expression over the column `text`: the value of type `dtype` it denotes exactly, or NULL."""
    if pa.types.is_timestamp(dtype):
        return f"CASE WHEN {_matches(f'{_DATE}(?:[ T]{_TIME}{_ZONE}?)?')} THEN TRY_CAST(text AS TIMESTAMPTZ) END"
    cast = f"TRY_CAST(text AS {sql_name(dtype)})"
    if pa.types.is_floating(dtype):
        # A finite number too large for the type comes out of the cast as infinity.
        return f"CASE WHEN ({_matches(_FINITE)} AND isfinite({cast})) OR {_matches(_NOT_FINITE)} THEN {cast} END"
    if pa.types.is_decimal(dtype):
        digits = f"[0-9]{{0,{dtype.scale}}}0*"
        return f"CASE WHEN {_matches(f'[+-]?[0-9]*(?:[.]{digits})?')} THEN {cast} END"
    if pa.types.is_integer(dtype):
        return f"CASE WHEN {_matches('[+-]?[0-9]+(?:[.]0*)?')} THEN {cast} END"
    return f"CASE WHEN {_matches(_DATE if pa.types.is_date(dtype) else '(?i:true|false|0|1)')} THEN {cast} END"


def _matches(pattern: str) -> str:
    return f"regexp_full_match(text, '{pattern}')"


def _failed(texts: pa.ChunkedArray, values: pa.ChunkedArray) -> np.ndarray:
    return pc.and_(pc.is_valid(texts), pc.is_null(values)).to_numpy()
