"""Blocks of records: the cut is that of a reader that goes byte by byte, wherever the blocks end.

A record may take several lines, when a quoted field does:

    1,"a        <- line 1: a record of two lines
    b",2
    3,"c        <- line 3: torn, as what follows the closing quote on line 4 is no delimiter
    4,"d"       <- line 4: a record
"""

from __future__ import annotations

import re
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.errors import SourceError
from sash.io import lines
from sash.io.lines import Quoting, read_blocks

QUOTING = Quoting(b'"', b",")
LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")
RECORD = re.compile(rb'(?:(?:"(?:[^"]|"")*"|[^",\r\n][^",\r\n]*|)(?:,|(?=\r|\n|\Z)))*?(?=\r|\n|\Z)')


def cut(data: bytes, quoting: Quoting | None = QUOTING):
    """All records and all torn lines as (line, text)."""
    blocks = list(read_blocks(pa.BufferReader(data), "f", quoting))
    records = [(int(line), block.text(idx)) for block in blocks for idx, line in enumerate(block.lines)]
    return records, [torn for block in blocks for torn in block.torn]


def line_at(data: bytes, at: int) -> re.Match[bytes]:
    found = LINE.match(data, at)
    assert found is not None
    return found


def cut_by_hand(data: bytes):
    """What `cut` gives, one record at a time."""
    records, torn, at, line = [], [], 0, 1
    while at < len(data):
        found = RECORD.match(data, at)
        if found is None:
            text = line_at(data, at)[1]
            torn.append((line, text))
        else:
            text = found[0]
            records.append((line, text))
        end = line_at(data, at + len(text))
        line += len(re.findall(rb"\r\n|\n|\r", text)) + 1
        at = end.end()
    return records, torn


def test_records_span_lines_and_torn_ones_do_not():
    assert cut(b'1,"a\nb",2\n3,"c\n4,"d"\n') == (
        [(1, b'1,"a\nb",2'), (4, b'4,"d"')],
        [(3, b'3,"c')],
    )


def test_without_quoting_every_line_is_a_record():
    assert cut(b'"a\r\n\r\n"b\rc', None) == ([(1, b'"a'), (2, b""), (3, b'"b'), (4, b"c")], [])


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_records(data):
    assert cut(data) == ([], [])


def test_the_byte_order_mark_is_no_part_of_the_first_record():
    assert cut(b"\xef\xbb\xbfa,b\n1,2") == ([(1, b"a,b"), (2, b"1,2")], [])


@given(st.text('a,"\n\r', max_size=30).map(str.encode), st.integers(1, 12))
@example(b'"\r\n"\r', 1)
@example(b'a"\n"a"\n', 3)
@example(b'"a""\n",\n"\n', 2)
def test_the_cut_is_the_same_for_every_block_size(data, n_bytes):
    with mock.patch.object(lines, "BLOCK_BYTES", n_bytes):
        assert cut(data) == cut_by_hand(data)


@given(st.text('a,"\n\r', max_size=40).map(str.encode), st.integers(1, 12), st.integers(1, 12))
def test_a_quote_left_open_is_given_up_but_no_line_is_lost(data, n_bytes, n_record_bytes):
    with mock.patch.multiple(lines, BLOCK_BYTES=n_bytes, MAX_RECORD_BYTES=n_record_bytes + n_bytes):
        try:
            records, torn = cut(data)
        except SourceError:
            return
    seen = sorted([(line, text) for line, text in records] + torn)
    assert [line for line, _ in seen] == sorted({line for line, _ in seen})
    n_lines = sum(len(re.findall(rb"\r\n|\n|\r", text)) + 1 for _, text in seen)
    assert n_lines == len(re.findall(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z", data))


def test_a_file_without_line_ends_is_refused():
    with mock.patch.multiple(lines, BLOCK_BYTES=1 << 20, MAX_RECORD_BYTES=1 << 20), pytest.raises(SourceError) as error:
        cut(b"a\n" + b"\x00" * (3 << 20))
    assert str(error.value) == ("file `f`: line 2 is longer than 1 MiB; is this a text file with one record per line?")
