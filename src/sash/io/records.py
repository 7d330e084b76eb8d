"""What reading a file gives: the records that fit the declared columns, and those that do not, none of them lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import SourceError, suggest
from sash.io.lines import RecordBlock

REJECT_SCHEMA = pa.schema([("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("text", pa.string())])


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that does not fit: where it starts, why, and its text as it stands in the file."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Records:
    """A stretch of one file. Every record of the stretch is either in `rows` or in `rejects`, in file order."""

    rows: pa.Table
    lines: np.ndarray
    """Where each row starts: the line of the file (csv, json) or the number of the row (parquet), from 1."""
    rejects: pa.Table
    """One row of REJECT_SCHEMA for each record that does not fit."""


def find_column(names: Sequence[str], declared: str, path: str) -> int:
    """Where a declared column stands in a file: the name spelt exactly so, else the only one that differs in case."""
    exact = [position for position, name in enumerate(names) if name == declared]
    matching = exact or [position for position, name in enumerate(names) if name.lower() == declared.lower()]
    if not matching:
        raise SourceError(f"file `{path}` has no column `{declared}`; {suggest(declared, names)}")
    if len(matching) > 1:
        spelt = ", ".join(f"`{names[position]}`" for position in matching)
        raise SourceError(f"file `{path}` has column `{declared}` {len(matching)} times ({spelt}); keep one of them")
    return matching[0]


def part_records(
    path: str, block: RecordBlock, rows: pa.Table, reasons: dict[int, str], rejects: list[Reject]
) -> Records:
    """Parts good from bad: `rows` has one row for each record of `block`; those with a reason join the rejects."""
    rejects = rejects + [reject_record(block, idx, reason) for idx, reason in reasons.items()]
    if reasons:
        is_good = np.ones(len(rows), bool)
        is_good[list(reasons)] = False
        return Records(rows.filter(pa.array(is_good)), block.lines[is_good], tabulate_rejects(path, rejects))
    return Records(rows, block.lines, tabulate_rejects(path, rejects))


def reject_record(block: RecordBlock, idx: int, reason: str) -> Reject:
    """Record `idx` as a reject; bytes that are not UTF-8 are shown as `\\xNN`."""
    return Reject(int(block.lines[idx]), reason, decode_leniently(block.text(idx)))


def tabulate_rejects(path: str, rejects: Iterable[Reject]) -> pa.Table:
    """The rejects of one file as a table, by line."""
    ordered = sorted(rejects, key=lambda reject: reject.line)
    columns = [
        [path] * len(ordered),
        [reject.line for reject in ordered],
        [reject.reason for reject in ordered],
        [reject.text for reject in ordered],
    ]
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, REJECT_SCHEMA, strict=True)],
        schema=REJECT_SCHEMA,
    )


def decode_leniently(raw: bytes) -> str:
    """Text to show to a person, whatever the bytes."""
    return raw.decode("utf-8", errors="backslashreplace")
