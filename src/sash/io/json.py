"""Reads newline-delimited JSON: one object per line.

A field that is missing or null is NULL; a field that is not declared is skipped; names match in any case. A scalar
converts as its text would (`values`), so `"5"` is a BIGINT and `5` a VARCHAR, while `1.5` is no BIGINT. Empty lines
hold no record.

`_read_closely` defines what a line means. Most lines are plain, and Arrow's parser reads them many times faster and to
the same effect. It takes all lines or none, so a block that it refuses is cut into pieces, and a piece that it refuses
is read closely.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sash.io.lines import RecordBlock, is_utf8, read_blocks
from sash.io.records import Records, part_records
from sash.io.values import convert, describe_misfit

_N_PIECES = 128
_FIELD_NAME = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')


class _Fields(list[tuple[str, Any]]):
    """A JSON object with its fields as they stand, repeated ones too."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"not valid JSON: {name} is no number")


# Numbers stay text, so that no digit is lost on the way to their type.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant, object_pairs_hook=_Fields)


def read(stream: pa.NativeFile, path: str, schema: pa.Schema) -> Iterator[Records]:
    """The records of one file, block by block."""
    for block in read_blocks(stream, path):
        block = block.take(_mask_filled(block))
        rows, reasons = _read_block(block, schema)
        yield part_records(path, block, rows, reasons, [])


def _mask_filled(block: RecordBlock) -> np.ndarray:
    """Which lines hold more than white space."""
    is_filled = block.stops > block.starts
    codes = np.frombuffer(block.data, np.uint8)
    for idx in np.flatnonzero(is_filled & (codes[np.minimum(block.starts, len(codes) - 1)] <= ord(" "))):
        is_filled[idx] = not block.text(int(idx)).isspace()
    return is_filled


def _read_block(block: RecordBlock, schema: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """One row for each line, and the reason for each line, by its index, whose row is to be rejected."""
    plain = _read_plainly(block, schema)
    if plain is not None:
        return convert(plain, schema)
    plain, is_odd = _sift(block, schema)
    rows, reasons = convert(plain, schema)
    odd_rows, odd_reasons = _read_closely(block.take(is_odd), schema)
    lines = np.concatenate([np.flatnonzero(~is_odd), np.flatnonzero(is_odd)])
    reasons |= {len(rows) + row: reason for row, reason in odd_reasons.items()}
    in_order = pa.concat_tables([rows, odd_rows]).take(pa.array(np.argsort(lines)))
    return in_order, {int(lines[row]): reason for row, reason in reasons.items()}


def _sift(block: RecordBlock, schema: pa.Schema) -> tuple[pa.Table, np.ndarray]:
    """The rows of the pieces that are plain, and a mask of the lines in the others."""
    tables = [_plain_schema(schema).empty_table()]
    is_odd = np.zeros(len(block.starts), bool)
    for lines in np.array_split(np.arange(len(block.starts)), _N_PIECES):
        rows = _read_plainly(block.take(lines), schema)
        if rows is None:
            is_odd[lines] = True
        else:
            tables.append(rows)
    return pa.concat_tables(tables), is_odd


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """What Arrow's parser is asked for: times as text, since it reads more spellings of them than `values` does."""
    types = [pa.string() if pa.types.is_temporal(dtype) else dtype for dtype in schema.types]
    return pa.schema(list(zip(schema.names, types, strict=True)))


def _read_plainly(block: RecordBlock, schema: pa.Schema) -> pa.Table | None:
    """The rows of all lines; None unless Arrow's parser gives what `_read_closely` would give."""
    if not len(block.starts):
        return _plain_schema(schema).empty_table()
    data = block.join()
    if not _is_plain(block, data, schema):
        return None
    try:
        rows = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(explicit_schema=_plain_schema(schema), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    is_faithful = len(rows) == len(block.starts) and _is_finite(rows) and not _misses_spelling(rows, data)
    return rows if is_faithful else None


def _is_plain(block: RecordBlock, data: bytes, schema: pa.Schema) -> bool:
    """Whether Arrow's parser can be trusted with these lines.

    It reads objects without regard to lines. When every line starts with `{` and ends with `}`, no object spans lines
    (`}` and `{` never follow each other inside one), so as many rows as lines means a row per line.
    """
    codes = np.frombuffer(block.data, np.uint8)
    is_braced = (codes[block.starts] == ord("{")) & (codes[block.stops - 1] == ord("}"))
    is_json = bool(np.all(is_braced)) and is_utf8(data) and b"NaN" not in data and b"Inf" not in data
    # Arrow reads 12345 as a DECIMAL(38, 36) without noticing that it does not fit.
    return is_json and not any(pa.types.is_decimal(dtype) for dtype in schema.types)


def _is_finite(rows: pa.Table) -> bool:
    """False if a number is too large for its type: Arrow makes it infinite."""
    floats = [column for column in rows.columns if pa.types.is_floating(column.type)]
    return all(pc.all(pc.is_finite(column), min_count=0).as_py() for column in floats)


def _misses_spelling(rows: pa.Table, data: bytes) -> bool:
    """Whether a NULL may come from a field whose name is spelt in another case, which Arrow does not see."""
    absent = {name for name in rows.column_names if rows.column(name).null_count}
    if not absent:
        return False
    spelt = {json.loads(b'"%b"' % raw, strict=False) for raw in set(_FIELD_NAME.findall(data))}
    return not {name.lower() for name in absent}.isdisjoint(name.lower() for name in spelt - absent)


def _read_closely(block: RecordBlock, schema: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """As `_read_block`, line by line."""
    declared = {field.name: field for field in schema}
    reasons: dict[int, str] = {}
    cells: list[list[str | None]] = []
    for idx in range(len(block.starts)):
        try:
            cells.append(_pick_fields(_parse_object(block.text(idx)), declared))
        except ValueError as error:
            reasons[idx] = str(error)
            cells.append([None] * len(schema))
    columns = [pa.array([texts[idx] for texts in cells], pa.string()) for idx in range(len(schema))]
    rows, misfits = convert(pa.Table.from_arrays(columns, names=schema.names), schema)
    return rows, reasons | misfits


def _parse_object(raw: bytes) -> _Fields:
    """The object of a line, or ValueError with the reason if there is none."""
    try:
        value = _DECODER.decode(raw.decode())
    except UnicodeDecodeError:
        raise ValueError("not valid UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("not readable: nested too deeply") from None
    if not isinstance(value, _Fields):
        raise ValueError("not a JSON object")
    return value


def _pick_fields(fields: _Fields, declared: dict[str, pa.Field]) -> list[str | None]:
    """The texts of the declared fields."""
    unique = dict(fields)
    if len(unique) < len(fields):
        unique = {}
    return [
        _to_text(field, unique[name] if name in unique else _find_field(fields, name))
        for name, field in declared.items()
    ]


def _find_field(fields: _Fields, name: str) -> Any:
    """The value of the field spelt exactly so, else of the only one that differs in case alone, else None."""
    values = [value for spelt, value in fields if spelt == name]
    values = values or [value for spelt, value in fields if spelt.lower() == name.lower()]
    if len(values) > 1:
        raise ValueError(f"field `{name}` appears {len(values)} times")
    return values[0] if values else None


def _to_text(field: pa.Field, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value.isascii()):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        raise ValueError(describe_misfit(field, "{…}" if isinstance(value, _Fields) else "[…]"))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"field `{field.name}`: half of a surrogate pair is not a character") from None
    return value
