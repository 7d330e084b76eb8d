"""What Spark and Flink call otherwise than DuckDB: names in backticks, DATE_FORMAT, SPLIT_INDEX."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

import sash
from sash.errors import ParseError

TIME = datetime(2026, 3, 7, 15, 4, 9, 123456)
ROWS = pa.table({"ts": [TIME], "url": ["https://a.b/c//d"], "a b": [7], "n": [2]})


def value_of(expression: str) -> object:
    return sash.sql(f"SELECT {expression} AS v FROM s", s=sash.stream(ROWS, "ts"))["v"].to_pylist()[0]


def test_backticks_quote_names():
    assert value_of("`a b` + `s`.`n`") == 9
    assert value_of("'`a b`'") == "`a b`"


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("yyyy-MM-dd", "2026-03-07"),
        ("HH:mm", "15:04"),
        ("d.M.yy H:m:s", "7.3.26 15:4:9"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2026-03-07 15:04:09.123"),
        ("SSSSSS", "123456"),
        ("EEEE, MMMM d", "Saturday, March 7"),
        ("EEE MMM", "Sat Mar"),
        ("hh a, DDD", "03 PM, 066"),
        ("'o''clock' h", "o'clock 3"),
        ("yyyy''", "2026'"),
        ("100% HH", "100% 15"),
    ],
)
def test_patterns_of_times_are_those_of_java(pattern, shown):
    assert value_of(f"DATE_FORMAT(ts, '{pattern.replace(chr(39), chr(39) * 2)}')") == shown


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("SPLIT_INDEX(url, '/', 2)", "a.b"),
        ("SPLIT_INDEX(url, '/', n + 1)", "c"),
        ("split_index(url, '/', 4)", ""),
        ("SPLIT_INDEX(url, '/', 6)", None),
        ("SPLIT_INDEX(url, '/', -2)", None),
        ("SPLIT_INDEX(NULL, '/', 0)", None),
    ],
)
def test_parts_are_numbered_from_zero(call, part):
    assert value_of(call) == part


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("DATE_FORMAT(ts, url)", "`DATE_FORMAT` takes a time and a pattern in quotes"),
        ("DATE_FORMAT(ts, 'QQ')", "`QQ` is no pattern that can run here; write `strftime(ts, '%Y-%m-%d')`"),
        ("DATE_FORMAT(ts, 'HH ''o')", "`HH 'o` is no pattern that can run here"),
        ("SPLIT_INDEX(url, '/')", "`SPLIT_INDEX` takes a text"),
    ],
)
def test_what_has_no_words_in_duckdb_is_refused(call, reason):
    with pytest.raises(ParseError) as raised:
        value_of(call)
    assert str(raised.value).startswith(reason)
    assert call in str(raised.value)
