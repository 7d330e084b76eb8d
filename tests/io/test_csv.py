"""CSV files: what is a row, what is a reject, and that nothing is lost between them."""

from __future__ import annotations

import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.errors import PlanError, SourceError
from sash.io import FileSource, read_file

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


def read(directory, data: bytes, schema=SCHEMA, name="f.csv", **options):
    """Rows as (line, values) and rejects as (line, reason, text)."""
    path = directory / name
    path.write_bytes(data)
    source = FileSource(str(directory), "csv", schema, tuple(options.items()))
    rows, rejects = [], []
    for records in read_file(source, str(path)):
        assert records.rows.schema == schema
        values = zip(*(column.to_pylist() for column in records.rows.columns), strict=True)
        rows += zip(records.lines.tolist(), values, strict=True)
        rejects += [(bad["line"], bad["reason"], bad["text"]) for bad in records.rejects.to_pylist()]
        assert set(records.rejects["file"].to_pylist()) <= {str(path)}
    return rows, rejects


def test_rows_and_rejects_keep_their_lines(directory):
    data = b'''id,name,value
1,"two
lines",1.5
2,b,x

3,"say ""hi""",
4.5,c,oops
5,d
6,e,2,9
7,f"g,1
8,,"1"
'''
    rows, rejects = read(directory, data)
    assert rows == [
        (2, (1, "two\nlines", 1.5)),
        (6, (3, 'say "hi"', None)),
        (11, (8, None, 1.0)),
    ]
    assert rejects == [
        (4, "field `value`: 'x' is not a DOUBLE", "2,b,x"),
        (7, "field `id`: '4.5' is not a BIGINT; field `value`: 'oops' is not a DOUBLE", "4.5,c,oops"),
        (8, "2 fields where 3 are expected", "5,d"),
        (9, "4 fields where 3 are expected", "6,e,2,9"),
        (10, "a quote stands inside a field that is not quoted, or a quoted field is never closed", '7,f"g,1'),
    ]


def test_columns_are_found_by_name_in_any_order_and_case(directory):
    rows, rejects = read(directory, b"extra,VALUE, Id ,name\nx,1,2,n\n")
    assert (rows, rejects) == ([(2, (2, "n", 1.0))], [])


def test_a_name_in_the_header_may_be_quoted_and_span_lines(directory):
    rows, _ = read(directory, b'"a\n""b""",id\n1,2\n', pa.schema([('a\n"b"', pa.int64()), ("id", pa.int64())]))
    assert rows == [(3, (1, 2))]


def test_without_header_columns_stand_in_order(directory):
    assert read(directory, b"1,a,2\n", header="false") == ([(1, (1, "a", 2.0))], [])


def test_options(directory):
    data = b"id\tname\tvalue\n1\t'a\tb'\tNA\n2\tNA\t''\n"
    rows, rejects = read(directory, data, delimiter=r"\t", quote="'", null="NA")
    assert rows == [(2, (1, "a\tb", None))]
    assert rejects == [(3, "field `value`: '' is not a DOUBLE", "2\tNA\t''")]


def test_without_quotes_every_line_is_a_record(directory):
    assert read(directory, b'id,name,value\n1,"a,2\n', quote="") == ([(2, (1, '"a', 2.0))], [])


def test_an_unquoted_empty_field_is_null_and_a_quoted_one_is_empty(directory):
    rows, _ = read(directory, b'id,name,value\n1,,\n2,"",\n')
    assert [values[1] for _, values in rows] == [None, ""]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"id,name,value", b"id,name,value\r\n"])
def test_a_file_without_records(directory, data):
    assert read(directory, data) == ([], [])


def test_line_ends_of_all_kinds(directory):
    rows, rejects = read(directory, b"id,name,value\r\n1,a,1\r\n\r\n2,b,2\r3,c,3")
    assert ([(line, values[0]) for line, values in rows], rejects) == ([(2, 1), (4, 2), (5, 3)], [])


def test_a_truncated_last_line_is_a_record_like_any(directory):
    rows, rejects = read(directory, b"id,name,value\n1,a,1\n2,b")
    assert (len(rows), rejects) == (1, [(3, "2 fields where 3 are expected", "2,b")])


def test_bytes_that_are_not_utf8_reject_their_row_alone(directory):
    rows, rejects = read(directory, b"id,name,value\n1,\xe9t\xe9,1\n2,\xc3\xa9,2\n")
    assert rows == [(3, (2, "é", 2.0))]
    assert rejects == [(2, "not valid UTF-8", "1,\\xe9t\\xe9,1")]


def test_in_a_file_of_one_column_an_empty_line_is_null(directory):
    rows, _ = read(directory, b"id\n\n1\n", pa.schema([("id", pa.int64())]))
    assert rows == [(2, (None,)), (3, (1,))]


def test_gzip(directory):
    rows, _ = read(directory, gzip.compress(b"id,name,value\n1,a,1\n"), name="f.csv.gz")
    assert rows == [(2, (1, "a", 1.0))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"id,nam,value\n", "file `{}` has no column `name`; did you mean `nam`?"),
        (b"id,id,name,value\n", "file `{}` has column `id` 2 times (`id`, `id`); keep one of them"),
        (
            b"1,a,2.5\n2,b,2.5\n",
            "file `{}` starts with `1,a,2.5`, which names no declared column; "
            "if that is data, declare the source with OPTIONS (header 'false')",
        ),
        (
            b'id,"name\n1,a\n',
            "file `{}`: the header (line 1) cannot be read: "
            "a quote stands inside a field that is not quoted, or a quoted field is never closed",
        ),
        (
            b"id,\xff,value\n",
            "file `{}`: the header cannot be read: 'utf-8' codec can't decode byte 0xff in position 3: "
            "invalid start byte; save the file as UTF-8",
        ),
    ],
)
def test_a_file_with_a_wrong_header_is_an_error(directory, data, message):
    with pytest.raises(SourceError) as error:
        read(directory, data)
    assert str(error.value) == message.format(directory / "f.csv")


def test_a_broken_gzip_file_is_an_error(directory):
    with pytest.raises(
        SourceError,
        match=r"file `.*f\.csv\.gz` cannot be read as `csv`: .*; repair it where it is, or put a file without rows",
    ):
        read(directory, gzip.compress(b"id,name,value\n1,a,1\n")[:-9], name="f.csv.gz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimeter": ";"}, "format `csv` has no option `delimeter`; did you mean `delimiter`?"),
        ({"header": "maybe"}, "option `header` is 'maybe' but must be 'true' or 'false'"),
        ({"delimiter": "||"}, "option `delimiter` is '||' but must be a single ASCII character"),
        ({"quote": ","}, "options `delimiter` and `quote` are both ','; choose different characters"),
    ],
)
def test_wrong_options_are_refused_when_declared(options, message):
    with pytest.raises(PlanError) as error:
        FileSource("d", "csv", SCHEMA, tuple(options.items()))
    assert str(error.value) == message


FIELDS = st.text(st.sampled_from('ab1. ,"\n\ré'), max_size=6)


@given(st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_fields_are_those_of_pythons_csv_reader(directory, records, line_end):
    """Python writes any fields; those of the right number are rows with the same fields, the others rejects."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "b", "c"], *records])
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    rows, rejects = read(directory, text.getvalue().encode(), schema)
    assert [list(values) for _, values in rows] == [record for record in records if len(record) == 3]
    assert [reason for _, reason, _ in rejects] == [
        f"{len(record)} fields where 3 are expected" for record in records if len(record) != 3
    ]


@given(st.binary(max_size=60) | st.text('12.,"\n\r', max_size=60).map(str.encode))
@example(b"\r\r\x00")
def test_whatever_the_bytes_every_line_is_a_row_or_a_reject(directory, data):
    rows, rejects = read(directory, b"id,name,value\n" + data)
    texts = {line: text for line, _, text in rejects}
    numbers = [line for line, _ in rows] + list(texts)
    assert len(set(numbers)) == len(numbers)
    if b'"' not in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        assert sorted(numbers) == [idx + 2 for idx, line in enumerate(lines) if line]
