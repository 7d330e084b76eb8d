"""Reads CSV files: RFC 4180 with a choice of delimiter, quote and NULL text.

Blocks of whole records (`lines`) are split into fields by Arrow, all as text, and the texts converted (`values`). An
unquoted field that equals the NULL text is NULL; by default that is the empty field. Empty lines hold no record, except
in a file with a single column, where an empty line is a NULL.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sash.errors import InternalError, PlanError, SourceError
from sash.io.lines import Quoting, RecordBlock, read_blocks
from sash.io.records import Records, Reject, decode_leniently, find_column, part_records, reject_record
from sash.io.values import convert

OPTIONS = ("header", "delimiter", "quote", "null")

_TORN = "a quote stands inside a field that is not quoted, or a quoted field is never closed"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written. Refuses with PlanError what cannot be told apart when read."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null: str = ""

    def __post_init__(self):
        for name, character in (("delimiter", self.delimiter), ("quote", self.quote)):
            is_one_byte = len(character) == 1 and character.isascii() and character not in "\r\n"
            if not is_one_byte and (name, character) != ("quote", ""):
                raise PlanError(f"option `{name}` is '{character}' but must be a single ASCII character")
        if self.delimiter == self.quote:
            raise PlanError(f"options `delimiter` and `quote` are both '{self.quote}'; choose different characters")

    @classmethod
    def from_options(cls, options: Sequence[tuple[str, str]]) -> Dialect:
        """Reads the texts of an OPTIONS clause, whose names are known to be right."""
        chosen = {name.lower(): text for name, text in options}
        delimiter = chosen.get("delimiter", ",")
        return cls(
            header=_read_flag("header", chosen.get("header", "true")),
            delimiter="\t" if delimiter == r"\t" else delimiter,
            quote=chosen.get("quote", '"'),
            null=chosen.get("null", ""),
        )

    @property
    def quoting(self) -> Quoting | None:
        """Which characters decide where records end; None if every line is a record."""
        return Quoting(self.quote.encode(), self.delimiter.encode()) if self.quote else None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the declared columns stand among the columns of one file."""

    n_columns: int
    positions: tuple[int, ...]


def read(stream: pa.NativeFile, path: str, schema: pa.Schema, dialect: Dialect) -> Iterator[Records]:
    """The records of one file, block by block. A file that lacks a declared column is a SourceError."""
    layout = None if dialect.header else Layout(len(schema), tuple(range(len(schema))))
    for block in read_blocks(stream, path, dialect.quoting):
        if layout is None:
            header, block = _take_header(block, path)
            if header is None:
                continue
            layout = _find_columns(header, path, schema, dialect)
        yield _read_block(block, path, schema, dialect, layout)


def _read_flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PlanError(f"option `{name}` is '{text}' but must be 'true' or 'false'")
    return text.lower() == "true"


def _take_header(block: RecordBlock, path: str) -> tuple[bytes | None, RecordBlock]:
    """The first record that is not an empty line, None if there is none, and the records after it."""
    filled = np.flatnonzero(block.stops > block.starts)
    if block.torn and (not len(filled) or block.torn[0][0] < block.lines[filled[0]]):
        raise SourceError(f"file `{path}`: the header (line {block.torn[0][0]}) cannot be read: {_TORN}")
    if not len(filled):
        return None, block
    return block.text(filled[0]), block.take(slice(filled[0] + 1, None))


def _find_columns(header: bytes, path: str, schema: pa.Schema, dialect: Dialect) -> Layout:
    """Matches the declared columns to a header's names, without regard to case or order."""
    quoting = csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE
    try:
        line = header.decode()
        [fields] = csv.reader([line], delimiter=dialect.delimiter, quotechar=dialect.quote or None, quoting=quoting)
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"file `{path}`: the header cannot be read: {error}; save the file as UTF-8") from None
    names = [name.strip() for name in fields]
    if {name.lower() for name in names}.isdisjoint(name.lower() for name in schema.names):
        raise SourceError(
            f"file `{path}` starts with `{decode_leniently(header[:80])}`, which names no declared column; "
            "if that is data, declare the source with OPTIONS (header 'false')"
        )
    return Layout(len(names), tuple(find_column(names, declared, path) for declared in schema.names))


def _read_block(block: RecordBlock, path: str, schema: pa.Schema, dialect: Dialect, layout: Layout) -> Records:
    """Sets aside, one after the other, what is torn, not UTF-8, misshapen, empty, or does not convert."""
    rejects = [Reject(line, _TORN, decode_leniently(raw)) for line, raw in block.torn]
    is_text = block.mask_utf8()
    rejects += [reject_record(block, idx, "not valid UTF-8") for idx in np.flatnonzero(~is_text).tolist()]
    block = block.take(is_text)
    texts, misshapen = _split_fields(block, dialect, layout)
    rejects += [reject_record(block, idx, reason) for idx, reason in misshapen.items()]
    has_row = np.ones(len(block.starts), bool)
    has_row[list(misshapen)] = False
    block = block.take(has_row)
    if layout.n_columns > 1 and np.any(is_empty := block.stops == block.starts):
        texts, block = texts.filter(pa.array(~is_empty)), block.take(~is_empty)
    rows, reasons = convert(texts, schema)
    return part_records(path, block, rows, reasons, rejects)


def _split_fields(block: RecordBlock, dialect: Dialect, layout: Layout) -> tuple[pa.Table, dict[int, str]]:
    """The declared columns as text, and why a record, by its index, has no row: it has too few or too many fields."""
    names = [str(position) for position in range(layout.n_columns)]
    chosen = [names[position] for position in layout.positions]
    if not len(block.starts):
        return pa.table({name: pa.array([], pa.string()) for name in chosen}), {}
    misshapen: dict[int, str] = {}

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        assert row.number is not None  # as rows are not read by several threads
        misshapen[row.number - 1] = f"{row.actual_columns} fields where {row.expected_columns} are expected"
        return "skip"

    texts = _parse(block.join(), names, chosen, dialect, skip)
    if len(texts) + len(misshapen) != len(block.starts):
        raise InternalError(f"{len(block.starts)} csv records were cut into {len(texts)} + {len(misshapen)} rows")
    return texts, misshapen


def _parse(
    data: bytes, names: list[str], chosen: list[str], dialect: Dialect, skip: Callable[[pyarrow.csv.InvalidRow], str]
) -> pa.Table:
    """The fields of whole records, all as text; `skip` is called for a record that has not one field for each name."""
    return pyarrow.csv.read_csv(
        pa.py_buffer(data),
        pyarrow.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        pyarrow.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            newlines_in_values=bool(dialect.quote),
            ignore_empty_lines=False,
            invalid_row_handler=skip,
        ),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(chosen, pa.string()),
            include_columns=chosen,
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
