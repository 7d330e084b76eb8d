"""JSON lines: what is a row, what is a reject, and that a line's fate is its own."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.errors import PlanError
from sash.io import FileSource, read_file

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us")), ("value", pa.float64())])
NONE = (None, None, None, None)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("json")


def read(directory, data: bytes, schema=SCHEMA, name="f.json"):
    """Rows as (line, values) and rejects as (line, reason, text)."""
    path = directory / name
    path.write_bytes(data)
    rows, rejects = [], []
    for records in read_file(FileSource(str(directory), "json", schema), str(path)):
        assert records.rows.schema == schema
        values = zip(*(column.to_pylist() for column in records.rows.columns), strict=True)
        rows += zip(records.lines.tolist(), values, strict=True)
        rejects += [(bad["line"], bad["reason"], bad["text"]) for bad in records.rejects.to_pylist()]
    return rows, rejects


def read_line(directory, line: str, schema=SCHEMA):
    """The values of a single line, or why it is rejected."""
    rows, rejects = read(directory, line.encode("utf-8", "surrogateescape"), schema)
    assert len(rows) + len(rejects) == 1
    return rows[0][1] if rows else rejects[0][1]


def test_rows_and_rejects_keep_their_lines(directory):
    data = b"""{"id": 1, "name": "a", "at": "2024-01-01T10:00:00Z", "value": 1.5, "extra": [1, {}]}

{"id": 2,
   {"name": "b"}
{"id": 3.5}
{"value": 4}\r
"""
    rows, rejects = read(directory, data)
    assert rows == [
        (1, (1, "a", datetime(2024, 1, 1, 10), 1.5)),
        (4, (None, "b", None, None)),
        (6, (None, None, None, 4.0)),
    ]
    assert rejects == [
        (3, "not valid JSON: Expecting property name enclosed in double quotes at column 10", '{"id": 2,'),
        (5, "field `id`: '3.5' is not a BIGINT", '{"id": 3.5}'),
    ]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ('{"id": "7", "value": "1e3"}', (7, None, None, 1000.0)),
        ('{"id": 7.0}', (7, None, None, None)),
        ('{"name": 1.50}', (None, "1.50", None, None)),
        ('{"name": true}', (None, "true", None, None)),
        ('{"value": "NaN", "id": null}', (None, None, None, pytest.approx(float("nan"), nan_ok=True))),
        ('{"ID": 7, "Name": "x"}', (7, "x", None, None)),
        ('{"id": 7, "ID": 8, "ID": 9}', (7, None, None, None)),
        ('{"\\u0049d": 7}', (7, None, None, None)),
        ('{"name": "\\u0000\\ud83d\\ude00"}', (None, "\0😀", None, None)),
        ("{}", NONE),
        (' {"id": 7} ', (7, None, None, None)),
    ],
)
def test_line_converts(directory, line, values):
    assert read_line(directory, line) == values


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "not a JSON object"),
        ("7", "not a JSON object"),
        ("{'id': 7}", "not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"id": 7} {"id": 8}', "not valid JSON: Extra data at column 11"),
        ('{"id": 7}{"id": 8}', "not valid JSON: Extra data at column 10"),
        ('{"id": 7,}', None),
        ('{"value": NaN}', "not valid JSON: NaN is no number"),
        ('{"other": -Infinity}', "not valid JSON: -Infinity is no number"),
        ('{"id": 07}', "not valid JSON: Expecting ',' delimiter at column 9"),
        ('{"id": "x"}', "field `id`: 'x' is not a BIGINT"),
        ('{"id": ""}', "field `id`: '' is not a BIGINT"),
        ('{"id": true}', "field `id`: 'true' is not a BIGINT"),
        ('{"id": 9223372036854775808}', "field `id`: '9223372036854775808' is not a BIGINT"),
        ('{"id": 9007199254740993.5}', "field `id`: '9007199254740993.5' is not a BIGINT"),
        ('{"id": {"a": 1}}', "field `id`: '{…}' is not a BIGINT"),
        ('{"name": [1]}', "field `name`: '[…]' is not a VARCHAR"),
        ('{"at": 1704067200}', "field `at`: '1704067200' is not a TIMESTAMP"),
        ('{"at": "2024-01-01 10:00:00.1234567"}', "field `at`: '2024-01-01 10:00:00.1234567' is not a TIMESTAMP"),
        ('{"value": 1e400}', "field `value`: '1e400' is not a DOUBLE"),
        ('{"id": 7, "id": 8}', "field `id` appears 2 times"),
        ('{"Id": 7, "ID": 8}', "field `id` appears 2 times"),
        ('{"name": "\\ud800"}', "field `name`: half of a surrogate pair is not a character"),
        ('{"name": "\udcff"}', "not valid UTF-8"),
        ('{"name": "a\tb"}', "not valid JSON: Invalid control character at at column 12"),
        ("[" * 100_000, "not readable: nested too deeply"),
    ],
)
def test_line_is_rejected(directory, line, reason):
    found = read_line(directory, line)
    assert isinstance(found, str)
    assert reason in (found, None)


def test_decimals_keep_every_digit(directory):
    schema = pa.schema([("x", pa.decimal128(38, 20))])
    text = "123456789012345678.12345678901234567890"
    assert read_line(directory, f'{{"x": {text}}}', schema) == (Decimal(text),)
    assert read_line(directory, '{"x": 1e-21}', schema) == "field `x`: '1e-21' is not a DECIMAL(38, 20)"


def test_gzip(directory):
    assert read(directory, gzip.compress(b'{"id": 7}\n'), name="f.json.gz")[0] == [(1, (7, None, None, None))]


def test_one_bad_line_among_many_rejects_itself_alone(directory):
    lines = [json.dumps({"id": number, "name": str(number)}) for number in range(5000)]
    lines[1234] = '{"id": 12.5}'
    rows, rejects = read(directory, "\n".join(lines).encode())
    assert [line for line, _, _ in rejects] == [1235]
    assert [values[0] for _, values in rows] == [number for number in range(5000) if number != 1234]


def test_types_that_json_cannot_hold_are_refused_when_declared():
    with pytest.raises(PlanError) as error:
        FileSource("d", "json", pa.schema([("x", pa.list_(pa.int64()))]))
    assert str(error.value) == "column `x` is list<item: int64>, which `json` cannot hold; use `parquet`"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1", "1.5", "2024-01-01", "2024-01-01T10:00:00+01:00", "\x00"])
)
NAMES = st.sampled_from(["id", "ID", "name", "at", "value", "Value", "other"])
OBJECTS = st.lists(st.tuples(NAMES, SCALARS | st.lists(SCALARS, max_size=2)), max_size=4).map(
    lambda fields: "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields) + "}"
)
LINES = (
    OBJECTS | st.text('{}[]":,1.eaNé \t', max_size=12) | st.sampled_from(['{"id": 1}{"id": 2}', '{"id":', "1}", " "])
)


@given(st.lists(LINES, max_size=6))
@example(['{"id": 1}{"id": 2}', '{"id":', "1}"])
@example(['{"ID": 1}', '{"id": 2}'])
@example(["{}", '{"id": 1, "ID": 2}'])
def test_the_fate_of_a_line_does_not_depend_on_its_neighbours(directory, lines):
    rows, rejects = read(directory, "\n".join(lines).encode())
    found = dict(rows) | {line: reason for line, reason, _ in rejects}
    alone = {
        number: read_line(directory, line) for number, line in enumerate(lines, start=1) if line and not line.isspace()
    }
    assert repr(sorted(found.items())) == repr(sorted(alone.items()))
