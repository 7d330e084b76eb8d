"""Parameters: what `$x` stands for, by the type of the value, and never as text."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.sql.parameters import read_values

ROWS = sash.stream(pa.table({"ts": [1, 2, 4], "k": [2, 1, None], "v": ["a", "it's", "b"]}), time="ts")
UTC = datetime.UTC


def answer(text: str, **params: Any) -> list[tuple]:
    changes = sash.sql(text, params=params, s=ROWS).drop_columns(["_op", "_ts", "_expires"])
    return [tuple(row.values()) for row in changes.to_pylist()]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (5, pa.int32()),
        (-(2**31), pa.int32()),
        (2**40, pa.int64()),
        (2**70, pa.decimal128(38, 0)),
        (np.int64(3), pa.int32()),
        (True, pa.bool_()),
        (1.5, pa.float64()),
        (Decimal("-2.50"), pa.decimal128(3, 2)),
        (Decimal("1E+3"), pa.decimal128(4, 0)),
        ("'; DROP TABLE s; --", pa.string()),
        (b"a\x00'", pa.binary()),
        (datetime.date(2026, 1, 31), pa.date32()),
        (datetime.datetime(2026, 1, 31, 1, 2, 3, 4), pa.timestamp("us")),
        (datetime.datetime(2026, 1, 31, tzinfo=UTC), pa.timestamp("us", "UTC")),
        (datetime.time(1, 2), pa.time64("us")),
        ([1, 2], pa.list_(pa.int32())),
    ],
    ids=str,
)
def test_a_value_has_its_type(value: Any, type_: pa.DataType) -> None:
    changes = sash.sql("SELECT $x AS x FROM s WHERE k = 1", params={"X": value}, s=ROWS)
    assert changes.schema.field("x").type == type_
    assert changes.column("x").to_pylist() == [value]


def test_values_stand_wherever_constants_do() -> None:
    assert answer("SELECT k FROM s WHERE v = $v", v="it's") == [(1,)]
    assert answer("SELECT k - $x ^ 2 AS d FROM s WHERE k > $x", x=-1) == [(1.0,), (0.0,)]
    assert answer("SELECT k FROM s WHERE k IS NOT DISTINCT FROM $x", x=None) == [(None,)]
    assert answer("SELECT v FROM s WHERE CAST($x AS VARCHAR) = '1' AND k = $x", x=1) == [("it's",)]
    assert answer("SELECT $x AS x, count(*) AS n FROM s [RANGE $w] GROUP BY $x", x=1, w=us(9)) == [
        *[(1, 1)] * 2,
        *[(1, 2)] * 2,
        (1, 3),
    ]
    assert answer("SELECT quantile_disc(k, $q) AS q FROM s WINDOW $n ROWS", q=0.5, n=1)[-1] == (None,)
    text = "SELECT k FROM s WHERE v IN (SELECT v FROM s [ROWS $n] AS t WHERE v > $v) WINDOW 2 us"
    assert answer(text, n=1, v="b") == [(1,)]
    assert sash.verify("SELECT k + $x AS y FROM s", None, params={"x": 3}, s=ROWS)


def test_lengths_of_windows_may_be_texts() -> None:
    assert answer("SELECT count(*) AS n FROM s [RANGE $w]", w="2 us") == answer(
        "SELECT count(*) AS n FROM s [RANGE 2 us]"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM s ORDER BY k LIMIT $n WINDOW 9 us",
        "SELECT k FROM s QUALIFY row_number() OVER (ORDER BY k DESC) <= $n WINDOW 9 us",
        "SELECT k FROM (SELECT k, row_number() OVER (ORDER BY k) AS place FROM s) WHERE place <= $n WINDOW 9 us",
        "SELECT k FROM s WHERE k IN (SELECT x FROM r ORDER BY x LIMIT $n)",
    ],
)
def test_numbers_of_first_rows_are_parameters_too(text: str) -> None:
    rows = sash.relation(pa.table({"x": [2, 1, 0]}))
    frames = {"s": ROWS, "r": rows} if " r " in text else {"s": ROWS}
    assert sash.verify(text, None, params={"n": 2}, **frames)
    found = sash.sql(text, params={"n": 2}, **frames)
    assert found.equals(sash.sql(text.replace("$n", "2"), **frames))


def us(length: int) -> datetime.timedelta:
    return datetime.timedelta(microseconds=length)


@pytest.mark.parametrize(
    ("text", "params", "reason"),
    [
        ("SELECT $x FROM s", {}, "the parameter `$x` has no value; give it one, as in `params={'x': 5}`"),
        ("SELECT $x FROM s", {"y": 1}, "the parameter `$x` has no value; there is `y`"),
        ("SELECT $x FROM s", {"x": 1, "y": 1}, "the text has no parameter `$y`; did you mean one of `$x`"),
        ("SELECT k FROM s", {"y": 1}, "the text has no parameter `$y`; leave it out"),
        ("SELECT $x FROM s", {"x": object()}, "`$x` is of the type object, of which SQL has no values"),
        ("SELECT $x FROM s", {"x": 2**127}, "`$x` is beyond the integers of SQL, which have 128 bits; give a float"),
        ("SELECT $x FROM s", {"x": "a\ud800"}, "`$x` holds '\\ud800', which is no character; remove it"),
        ("SELECT $x FROM s", [5], "`params` is a list; give a dictionary of values by name, as in `params={'x': 5}`"),
        ("SELECT k FROM s [RANGE $w]", {"w": "soon"}, "`soon` is not a length of time; write a number and a unit"),
        (
            "SELECT k FROM s [ROWS 2] LIMIT $n",
            {"n": 0},
            "`LIMIT` needs a whole number of rows, 1 or more, and not `$n`",
        ),
        ("SELECT $x FROM s", {"x": 1, "X": 2}, "names that differ in case alone"),
        ("SELECT k FROM s [RANGE $w]", {"w": 5}, "the length of a window is `$w`, of the type int; give a value like"),
        ("SELECT k FROM s [ROWS $n]", {"n": 1.5}, "a number of rows is `$n`, of the type float; give a value like `5`"),
        ("SELECT k FROM s [ROWS $n]", {"n": 0}, "a window must hold at least one row"),
        ("SELECT k FROM s WHERE k > $v", {"v": "x"}, "'x' cannot be converted to BIGINT"),
    ],
)
def test_what_is_refused(text: str, params: Any, reason: str) -> None:
    with pytest.raises(sash.SashError) as caught:
        sash.sql(text, params=params, s=ROWS)
    assert reason in str(caught.value)


def test_every_way_in_takes_them() -> None:
    text, params = "SELECT k FROM s WHERE v = $v", {"v": "a"}
    running = sash.query(text, params=params, s=ROWS)
    assert running.push("s", ROWS.frame).num_rows + running.finish().num_rows == 1
    session = sash.Session()
    session.stream("s", ROWS.frame, time="ts")
    session.query("q", text, params=params)
    assert session.run()["q"].num_rows == 1
    assert "where s.v = 'a'" in sash.explain(text, params=params, s=ROWS)


def test_a_command_line_has_values_too() -> None:
    day = datetime.date(2026, 1, 31)
    written = ["x=1", "y=1.50", "z=Rome", "w='1'", "d=DATE '2026-01-31'", "b=true", "n=NULL", "f=1e5", "e=", "$q=a=b"]
    assert read_values(written) == {
        "x": 1, "y": Decimal("1.50"), "z": "Rome", "w": "1", "d": day, "b": True, "n": None, "f": 1e5, "e": "",
        "q": "a=b",
    }  # fmt: skip
    for wrong in ("x", "1=2", "d=DATE 'x'"):
        with pytest.raises(sash.PlanError, match="`--param"):
            read_values([wrong])


def test_a_uuid_is_one() -> None:
    value = uuid.UUID(int=5)
    assert answer("SELECT CAST($u AS VARCHAR) AS u FROM s WHERE k = 1", u=value) == [(str(value),)]
