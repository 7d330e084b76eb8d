"""Cuts a stream of bytes into blocks of whole records, and knows at which line of the file each record starts.

A line ends with LF, CRLF or CR. A record is a line, or several lines where a quoted field holds line ends:

    line 1   a,b            record at line 1
    line 2   "x             record at line 2, two lines long
    line 3   y",2
    line 4   3,"z           torn: the quote is never closed (or what follows a closing quote is not a delimiter)
    line 5   4,w            record at line 5

A quote opens only at the start of a field and closes only at its end (RFC 4180). So quotes open and close by turns, and
a line end is the end of a record iff an even number of quotes stands before it: no loop over bytes is needed. Where a
quote stands in a wrong place, the first line of that record alone is torn, and reading resumes on the next line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import SourceError

BLOCK_BYTES = 4 << 20
MAX_RECORD_BYTES = 16 << 20
"""A quote that is not closed within this many bytes counts as never closed, which bounds the memory of a reader."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Whole records of a file: record i is `data[starts[i]:stops[i]]`, without its line end, at line `lines[i]`."""

    data: bytes
    starts: np.ndarray
    stops: np.ndarray
    lines: np.ndarray
    torn: list[tuple[int, bytes]]
    """Line number and text of the lines that belong to no record."""

    def text(self, idx: int) -> bytes:
        """Record `idx` as it stands in the file."""
        return self.data[self.starts[idx] : self.stops[idx]]

    def take(self, chosen: np.ndarray | slice) -> RecordBlock:
        """The chosen records alone; what is torn stays."""
        return RecordBlock(self.data, self.starts[chosen], self.stops[chosen], self.lines[chosen], self.torn)

    def mask_utf8(self) -> np.ndarray:
        """Which records are valid UTF-8."""
        n_records = len(self.starts)
        if not n_records or is_utf8(self.data[self.starts[0] : self.stops[-1]]):
            return np.ones(n_records, bool)
        return np.fromiter((is_utf8(self.text(idx)) for idx in range(n_records)), bool, n_records)

    def join(self) -> bytes:
        """All records and nothing else, each with a line end; no copy per record unless the file uses CR alone."""
        codes = np.frombuffer(self.data, np.uint8)
        after = self.stops[:-1]
        is_return = codes[after] == _CR
        is_crlf = is_return & (codes[after + 1] == _LF)
        if np.any(is_return & ~is_crlf):
            return b"".join(self.text(idx) + b"\n" for idx in range(len(self.starts)))
        gaps = np.flatnonzero(self.starts[1:] - after > 1 + is_crlf)
        firsts, lasts = [0, *(gaps + 1)], [*gaps, len(self.starts) - 1]
        return b"".join(
            self.data[self.starts[first] : self.stops[last]] + b"\n" for first, last in zip(firsts, lasts, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Quoting:
    """How fields are quoted; both are single bytes."""

    quote: bytes
    delimiter: bytes


def read_blocks(stream: pa.NativeFile, path: str, quoting: Quoting | None = None) -> Iterator[RecordBlock]:
    """The records of a whole file in order; without `quoting` every line is a record. Closes nothing."""
    rest, n_lines_before, first = b"", 0, True
    while True:
        fresh = stream.read(BLOCK_BYTES)
        data = rest + fresh
        if first:
            data, first = data.removeprefix(_BYTE_ORDER_MARK), False
        if not data:
            return
        block, n_lines, n_bytes = _cut(data, quoting, n_lines_before, is_last=not fresh)
        if not n_bytes and len(data) > MAX_RECORD_BYTES:
            raise SourceError(
                f"file `{path}`: line {n_lines_before + 1} is longer than {MAX_RECORD_BYTES >> 20} MiB; "
                "is this a text file with one record per line?"
            )
        if len(block.starts) or block.torn:
            yield block
        rest, n_lines_before = data[n_bytes:], n_lines_before + n_lines


def is_utf8(raw: bytes) -> bool:
    """Whether the bytes are valid UTF-8."""
    try:
        return raw.isascii() or raw.decode() is not None
    except UnicodeDecodeError:
        return False


def _cut(data: bytes, quoting: Quoting | None, n_lines_before: int, is_last: bool) -> tuple[RecordBlock, int, int]:
    """The whole records at the start of `data`, and how many lines and bytes they and the torn lines take up."""
    ends = _find_line_ends(data, is_last)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if quoting is None or quoting.quote not in data:
        first_lines = last_lines = np.arange(len(ends))
        torn_lines, n_lines = [], len(ends)
    else:
        n_waiting = 0 if is_last else int(np.count_nonzero(starts >= len(data) - MAX_RECORD_BYTES))
        first_lines, last_lines, torn_lines, n_lines = _pair_quotes(data, quoting, ends, n_waiting)
    stops = _before_line_end(data, starts, ends)
    torn = [(n_lines_before + line + 1, data[starts[line] : stops[line]]) for line in torn_lines]
    block = RecordBlock(data, starts[first_lines], stops[last_lines], first_lines + n_lines_before + 1, torn)
    return block, n_lines, min(int(ends[n_lines - 1]) + 1, len(data)) if n_lines else 0


def _find_line_ends(data: bytes, is_last: bool) -> np.ndarray:
    """Where the last byte of each line end is; the end of the file is one too."""
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes == _LF)
    if b"\r" in data:
        returns = np.flatnonzero(codes[:-1] == _CR)
        ends = np.union1d(ends, returns[codes[returns + 1] != _LF])
        if is_last and codes[-1] == _CR:
            ends = np.append(ends, len(data) - 1)
    if is_last and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    return ends.astype(np.int64)


def _before_line_end(data: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Where the text of each line stops: before its LF, CRLF or CR."""
    if b"\r" not in data:
        return ends
    codes = np.frombuffer(data, np.uint8)
    return ends - ((ends > starts) & (codes[ends - 1] == _CR))


def _pair_quotes(
    data: bytes, quoting: Quoting, ends: np.ndarray, n_waiting: int
) -> tuple[np.ndarray, np.ndarray, list[int], int]:
    """First and last line of each record, the torn lines, and how many lines are settled.

    A quote left open is waited for where its record starts in the last `n_waiting` lines, and torn elsewhere.
    """
    quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == quoting.quote[0])
    misplaced = _find_misplaced(data, quoting, quotes)
    n_quotes = np.searchsorted(quotes, ends)
    closed = [np.flatnonzero(n_quotes % 2 == parity) for parity in (0, 1)]
    firsts, lasts, torn = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
    line = 0
    while line < len(ends):
        n_before = int(n_quotes[line - 1]) if line else 0
        wrong = _line_of_next(misplaced[n_before % 2], n_before, quotes, ends)
        same_parity = closed[n_before % 2]
        record_ends = same_parity[np.searchsorted(same_parity, line) : np.searchsorted(same_parity, wrong)]
        firsts.append(np.concatenate([[line], record_ends[:-1] + 1]) if len(record_ends) else record_ends)
        lasts.append(record_ends)
        line = int(record_ends[-1]) + 1 if len(record_ends) else line
        if line == len(ends) or (wrong == len(ends) and line >= len(ends) - n_waiting):
            break
        torn.append(line)
        line += 1
    return np.concatenate(firsts), np.concatenate(lasts), torn, line


def _find_misplaced(data: bytes, quoting: Quoting, quotes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the quotes in a wrong place if even quotes open and odd ones close, and the other way round.

    A quote that opens right after one that closed is a doubled quote inside a field, so a quote beside a quote is fine.
    """
    codes = np.frombuffer(data, np.uint8)
    allowed = np.frombuffer(quoting.delimiter + quoting.quote + b"\n\r", np.uint8)
    may_open = (quotes == 0) | np.isin(codes[quotes - 1], allowed)
    may_close = (quotes == len(codes) - 1) | np.isin(codes[np.minimum(quotes + 1, len(codes) - 1)], allowed)
    is_even = np.arange(len(quotes)) % 2 == 0
    is_right, is_right_otherwise = np.where(is_even, [may_open, may_close], [may_close, may_open])
    return np.flatnonzero(~is_right), np.flatnonzero(~is_right_otherwise)


def _line_of_next(misplaced: np.ndarray, n_before: int, quotes: np.ndarray, ends: np.ndarray) -> int:
    """The line of the first misplaced quote from quote `n_before` on; the number of lines if there is none."""
    idx = np.searchsorted(misplaced, n_before)
    return int(np.searchsorted(ends, quotes[misplaced[idx]])) if idx < len(misplaced) else len(ends)
