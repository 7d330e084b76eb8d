"""What may be pushed, and what becomes of rows that cannot be taken: nothing is lost or misread without a word."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash.errors import BindError, SourceError
from sash.store.batch import BEGINNING, NEVER

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.string())])
ROWS = [
    {"ts": datetime(2026, 1, 1, 12, 0, 0), "k": 1, "v": "a"},
    {"ts": datetime(2026, 1, 1, 12, 0, 1), "k": 2, "v": None},
    {"ts": datetime(2026, 1, 1, 12, 0, 2), "k": 3, "v": "c"},
]
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)
TEXT = "SELECT ts, k, v FROM a [RANGE 1 MINUTE]"
COUNTED = pa.schema([("ts", pa.int64()), ("k", pa.int64())])

KINDS: dict[str, Callable[[], Any]] = {
    "arrow": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "pandas": lambda: TABLE.to_pandas(),
    "pandas by time": lambda: TABLE.to_pandas().set_index("ts"),
    "pandas by other columns": lambda: TABLE.to_pandas().assign(number=range(TABLE.num_rows)).set_index("number"),
    "nanoseconds": lambda: TABLE.to_pandas().astype({"ts": "datetime64[ns]"}),
    "polars": lambda: pl.from_arrow(TABLE),
    "lazy polars": lambda: pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
    "dictionaries": lambda: ROWS,
    "texts": lambda: [row | {"ts": f"{row['ts']:%Y-%m-%dT%H:%M:%S}", "k": str(row["k"])} for row in ROWS],
    "a key that one row lacks": lambda: [{key: row[key] for key in row if row[key] is not None} for row in ROWS],
    "times in UTC": lambda: [row | {"ts": row["ts"].replace(tzinfo=UTC)} for row in ROWS],
}


def make_query(schema: pa.Schema = SCHEMA, text: str = TEXT, **declaration: Any) -> sash.Query:
    return sash.query(text, a=sash.stream(schema, time="ts", **declaration))


def answer(query: sash.Query, *batches: Any) -> pa.Table:
    """All changes of a query that is pushed these and then finished."""
    return pa.concat_tables([*(query.push("a", rows) for rows in batches), query.finish()])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_may_be_pushed(kind: str) -> None:
    query = make_query()
    assert answer(query, KINDS[kind]()).select(SCHEMA.names).to_pylist() == ROWS
    session = sash.Session()
    session.stream("a", SCHEMA)
    session.query("q", TEXT)
    changes = pa.concat_tables([session.push("a", KINDS[kind]())["q"], session.finish()["q"]])
    assert changes.select(SCHEMA.names).to_pylist() == ROWS


MISFITS = {
    "row 1 of `a` is a int; give a dictionary for each row": [ROWS[0], 1],
    "a batch of `a` lacks the column `v`; it has ts, k": [{"ts": 0, "k": 1}],
    "column `k` of a batch of `a` is string and was declared int64, which does not fit": [ROWS[0] | {"k": "many"}],
    "`a` cannot be read as a table": pd.DataFrame({"ts": [1, "x"], "k": 1, "v": "a"}),
    "`a` is a builtins.set; pass an Arrow, pandas, Polars or Spark frame, or a list of dictionaries": {1},
    "`a` is one dictionary; give a list with a dictionary for each row, or a table of columns": ROWS[0],
    "row 1 of `a` has the key 1; name columns by texts": [ROWS[0], {1: 2}],
    "`a` has 2 columns called `k`; rename all but one": pd.DataFrame([[1, 2]], columns=["k", "k"]),
    f"column `k` of `a` cannot be read: {2**70} does not fit into 64 bits; declare it DECIMAL(38, 0)": [{"k": 2**70}],
    "column `k` of `a` cannot be read: Could not convert <": [ROWS[0] | {"k": object()}],
    "2026-01-01 00:00:00.000000999 is finer than microseconds, which is all that is kept; round it": [
        ROWS[0] | {"ts": pd.Timestamp("2026-01-01 00:00:00.000000999")}
    ],
    "np.datetime64('600000-01-01') cannot be said in whole microseconds": [{"ts": np.datetime64("600000-01-01")}],
}


@pytest.mark.parametrize("reason", MISFITS)
def test_what_cannot_be_rows_is_told(reason: str) -> None:
    query = make_query()
    with pytest.raises((SourceError, BindError)) as error:
        query.push("a", MISFITS[reason])
    assert reason in str(error.value)
    assert query.n_read == {"a": 0}


CHANGED: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.int64(), [1.5], "Float value 1.5"),
    (pa.int64(), [1, 1.7], "Float value 1.7"),
    (pa.int64(), [Decimal("1.5")], "data loss"),
    (pa.int32(), [2**40], "not in range"),
    (pa.decimal128(5, 2), [1.239], "1.239 would become 1.24"),
    (pa.decimal128(5, 2), [50_000], "does not fit in precision 5"),
    (pa.float32(), [1e300], "would become inf"),
    (pa.bool_(), [5], "a number is neither true nor false"),
    (pa.date32(), [datetime(2026, 1, 1, 12)], "2026-01-01 12:00:00 would become 2026-01-01"),
    (pa.list_(pa.int64()), [[1.5]], "Float value 1.5"),
    (pa.timestamp("us"), [1_767_268_800], "what a number counts is not known"),
    (pa.duration("us"), [5], "what a number counts is not known"),
]


@pytest.mark.parametrize(("type", "values", "reason"), CHANGED, ids=map(str, CHANGED))
def test_a_value_that_would_change_is_refused_in_dictionaries_and_in_frames(
    type: pa.DataType, values: list[Any], reason: str
) -> None:
    query = make_query(pa.schema([("ts", pa.timestamp("us")), ("k", type)]), "SELECT ts FROM a")
    rows = [{"ts": ROWS[0]["ts"], "k": value} for value in values]
    for batch in (rows, pa.Table.from_pylist(rows)):
        with pytest.raises(SourceError, match=f"column `k` of a batch of `a` is .*, which does not fit: .*{reason}"):
            query.push("a", batch)
    assert query.n_read == {"a": 0}


KEPT: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.int64(), [1, 2.0], [1, 2]),
    (pa.int64(), [pd.NaT, pd.NA, np.int32(3)], [None, None, 3]),
    (pa.decimal128(5, 2), [1.23, 5], [Decimal("1.23"), Decimal(5)]),
    (pa.decimal128(38, 0), [2**70, 1], [Decimal(2**70), Decimal(1)]),
    (pa.uint64(), [2**63, 1], [2**63, 1]),
    (pa.float32(), [0.5, float("inf")], [0.5, float("inf")]),
    (pa.string(), [None, None], [None, None]),
    (pa.date32(), [date(2026, 1, 1), np.datetime64("2026-01-02")], [date(2026, 1, 1), date(2026, 1, 2)]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)]], [[("a", 1)]]),
    (pa.struct({"a": pa.int64(), "b": pa.int64()}), [{"b": 1}], [{"a": None, "b": 1}]),
    (pa.list_(pa.int32()), [[1, 2], [], np.array([3])], [[1, 2], [], [3]]),
]


@pytest.mark.parametrize(("type", "values", "kept"), KEPT, ids=map(str, KEPT))
def test_values_in_dictionaries_mean_what_they_say(type: pa.DataType, values: list[Any], kept: list[Any]) -> None:
    query = make_query(pa.schema([("ts", pa.timestamp("us")), ("k", type)]), "SELECT ts, k FROM a")
    second = timedelta(seconds=1)
    rows = [{"ts": ROWS[0]["ts"] + n * second, "k": value} for n, value in enumerate(values)]
    assert answer(query, rows).column("k").to_pylist() == kept


@pytest.mark.parametrize(
    "times",
    [
        [date(2026, 1, 1), datetime(2026, 1, 1, 12)],
        [np.datetime64("2026-01-01"), np.datetime64("2026-01-01T12:00:00.000000000")],
        ["2026-01-01T00:00:00Z", "2026-01-01 14:00:00+02:00"],
        ["2026-01-01", "2026-01-01 12:00"],
    ],
    ids=str,
)
def test_a_date_is_its_midnight_and_a_text_may_have_a_zone(times: list[Any]) -> None:
    rows = [{"ts": ts, "k": 1, "v": ""} for ts in times]
    found = answer(make_query(), rows).column("ts").to_pylist()
    assert found == [datetime(2026, 1, 1), datetime(2026, 1, 1, 12)]


def test_integers_for_a_timestamp_are_refused_with_the_remedy() -> None:
    with pytest.raises(SourceError) as error:
        make_query().push("a", [ROWS[0] | {"ts": 1_767_268_800}])
    assert str(error.value) == (
        "column `ts` of a batch of `a` is int64 and was declared timestamp[us], which does not fit: what a number "
        "counts is not known; convert it before you push it, or declare it an integer, with a unit as in "
        "sash.stream(..., unit='s')"
    )


def test_part_of_a_second_is_no_integer() -> None:
    with pytest.raises(SourceError, match=r"Float value 1767268800\.5"):
        make_query(COUNTED, "SELECT k FROM a", unit="s").push("a", [{"ts": 1_767_268_800.5, "k": 1}])


def test_timestamps_of_any_unit_are_microseconds_where_integers_were_declared() -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime(["2026-01-01"]), "k": [1]})
    changes = answer(make_query(COUNTED, "SELECT ts, k FROM a"), frame)
    assert changes.column("ts").to_pylist() == [1_767_225_600_000_000]


def test_a_row_without_a_time_is_rejected_with_the_reason() -> None:
    query = make_query()
    with pytest.warns(sash.SashWarning, match="a row of stream `a` was rejected: `ts` is NULL, but a row of a stream"):
        changes = answer(query, [ROWS[0], ROWS[1] | {"ts": None}, ROWS[2]], [ROWS[2] | {"ts": None}])
    assert changes.num_rows == 2
    assert (query.n_read, query.n_late, query.n_rejected) == ({"a": 4}, {"a": 0}, {"a": 2})
    assert [table.to_pylist() for table in query.rejected["a"]] == [
        [ROWS[1] | {"ts": None, "_reason": "`ts` is NULL, but a row of a stream needs a time"}],
        [ROWS[2] | {"ts": None, "_reason": "`ts` is NULL, but a row of a stream needs a time"}],
    ]


@pytest.mark.parametrize(("value", "which"), [(BEGINNING, "least"), (NEVER, "greatest")])
def test_the_ends_of_the_integers_are_rejected_and_not_late(value: int, which: str) -> None:
    query = make_query(COUNTED, "SELECT ts, k FROM a [RANGE 1 MINUTE]")
    with pytest.warns(sash.SashWarning, match=f"`ts` is {value}, the {which} of all 64-bit integers, which is no time"):
        changes = answer(query, [{"ts": 5, "k": 1}, {"ts": value, "k": 2}, {"ts": 6, "k": 3}])
    assert (query.n_late, query.n_rejected) == ({"a": 0}, {"a": 1})
    assert changes.column("k").to_pylist() == [1, 3]
    stream = sash.stream(pa.table({"ts": [5, value], "k": [1, 2]}), time="ts")
    with pytest.raises(SourceError, match=f"row 1 of stream `a` has no time: `ts` is {value}, the {which}"):
        sash.sql("SELECT k FROM a [RANGE 1 MINUTE]", a=stream)


@pytest.mark.parametrize("slack", ["1 hour", timedelta(hours=1), 0])
def test_times_just_after_the_least_are_in_time(slack: Any) -> None:
    query = make_query(COUNTED, "SELECT ts, k FROM a [RANGE 1 MINUTE]", slack=slack)
    rows = [{"ts": BEGINNING + k, "k": k} for k in (1, 2, 3)]
    assert answer(query, rows[:2], rows[2:]).column("k").to_pylist() == [1, 2, 3]
    assert query.n_late == {"a": 0}


def test_a_datetime_says_up_to_when_a_stream_is_complete() -> None:
    query = make_query()
    assert query.push("a", ROWS).column("k").to_pylist() == [1, 2]
    assert query.advance(datetime(2026, 1, 1, 12, 0, 1)).num_rows == 0
    assert query.advance("2026-01-01 12:00:02").column("k").to_pylist() == [3]
    for moment in (1.5, "infinity"):
        with pytest.raises(BindError, match="is no instant"):
            query.advance(moment)  # type: ignore[arg-type]


def test_a_number_alone_is_no_slack() -> None:
    with pytest.raises(BindError, match="`slack` is 5, which does not say of which unit"):
        sash.stream(SCHEMA, slack=5)  # type: ignore[arg-type]


class TestUnit:
    @pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
    def test_integers_become_timestamps(self, unit: str, factor: int) -> None:
        rows = [{"ts": int(row["ts"].replace(tzinfo=UTC).timestamp()) * factor, "k": row["k"]} for row in ROWS]
        text = "SELECT ts, k FROM a [RANGE 1 MINUTE]"
        expected = [{key: row[key] for key in ("ts", "k")} for row in ROWS]
        query = make_query(COUNTED, text, unit=unit)
        assert answer(query, rows).select(["ts", "k"]).to_pylist() == expected
        table = pa.Table.from_pylist(rows, COUNTED)
        changes = sash.sql(text, a=sash.stream(table, time="ts", unit=unit))
        assert changes.select(["ts", "k"]).to_pylist() == expected

    def test_what_is_beyond_all_times_is_rejected(self) -> None:
        query = make_query(COUNTED, "SELECT ts, k FROM a [RANGE 1 MINUTE]", unit="s")
        reason = "`ts` is 9000000000000000 seconds, which is beyond all times"
        with pytest.warns(sash.SashWarning, match=reason):
            changes = answer(query, [{"ts": 9 * 10**15, "k": 1}, {"ts": 5, "k": 2}])
        assert query.rejected["a"][0].to_pylist() == [{"ts": 9 * 10**15, "k": 1, "_reason": reason}]
        assert changes.column("k").to_pylist() == [2]

    @pytest.mark.parametrize(("first", "unit"), [(1_767_268_800, "s"), (1_767_268_800_000, "ms"), (10**18, "ns")])
    def test_integers_that_look_like_another_unit_are_told(self, first: int, unit: str) -> None:
        query = make_query(COUNTED, "SELECT ts, k FROM a [RANGE 1 MINUTE]")
        with pytest.warns(sash.SashWarning, match=rf"`a` is {first}, which looks like .*unit='{unit}'"):
            query.push("a", [{"ts": first, "k": 1}])
        query.push("a", [{"ts": first + 1, "k": 1}])

    def test_a_unit_that_does_not_fit_is_told(self) -> None:
        with pytest.raises(BindError, match="`unit` is 'm'; give one of 's', 'ms', 'us', 'ns'"):
            sash.stream(COUNTED, time="ts", unit="m")
        with pytest.raises(BindError, match="`unit` is for integers, and `ts` of stream `a` is timestamp"):
            make_query(unit="s")


class TestTimeColumn:
    TEXTS = pd.DataFrame({"time_hour": ["2013-01-01T05:00:00Z", "2013-01-01T06:00:00Z"], "n": [1, 2]})

    def test_text_is_shown_with_the_remedy(self) -> None:
        with pytest.raises(BindError) as error:
            sash.sql("SELECT n FROM flights WINDOW 1 MINUTE", flights=sash.stream(self.TEXTS, time="time_hour"))
        assert str(error.value) == (
            "column `time_hour` of stream `flights` is string, like '2013-01-01T05:00:00Z'; "
            "cast it to a timestamp first"
        )

    def test_a_frame_that_may_be_meant_as_a_stream_is_explained(self) -> None:
        with pytest.raises(sash.PlanError) as error:
            sash.sql("SELECT n FROM flights WINDOW 1 MINUTE", flights=self.TEXTS)
        assert str(error.value).splitlines()[-1] == (
            "  `flights` has no timestamp column; `time_hour` holds text like '2013-01-01T05:00:00Z': "
            "cast it to a timestamp"
        )

    def test_a_date_is_midnight(self) -> None:
        days = pa.table({"day": pa.array([1, 2], pa.int32()).cast(pa.date32()), "n": [1, 2]})
        changes = sash.sql("SELECT day, n FROM days [RANGE 1 DAY]", days=sash.stream(days, time="day"))
        assert changes.column("_ts").to_pylist() == [datetime(1970, 1, 2), datetime(1970, 1, 3)]

    @pytest.mark.parametrize(
        ("column", "unit", "reason"),
        [
            (pa.array([1, 2**63], pa.uint64()), "s", f"`at` is {2**63} seconds, which is beyond all times"),
            (
                pa.array([1, 2**64 - 1], pa.uint64()),
                "ns",
                f"`at` is {2**64 - 1} nanoseconds, which is beyond all times",
            ),
            (
                pa.array([1, 2**31 - 1], pa.int32()).cast(pa.date32()),
                None,
                f"`at` is {2**31 - 1} days, which is beyond",
            ),
        ],
    )
    def test_what_cannot_be_counted_has_no_time(self, column: pa.Array, unit: str | None, reason: str) -> None:
        rows = pa.table({"at": column, "n": [1, 2]})
        with pytest.raises(SourceError) as error:
            sash.sql("SELECT n FROM s [NOW]", s=sash.stream(rows, time="at", unit=unit))
        assert f"row 1 of stream `s` has no time: {reason}" in str(error.value)

    def test_a_small_integer_needs_a_unit(self) -> None:
        seconds = pa.table({"at": pa.array([1, 2], pa.int32()), "n": [1, 2]})
        with pytest.raises(BindError, match=r"column `at` of stream `s` is int32; say what it counts"):
            sash.sql("SELECT n FROM s [NOW]", s=sash.stream(seconds, time="at"))
        assert sash.sql("SELECT n FROM s [NOW]", s=sash.stream(seconds, time="at", unit="s")).num_rows == 2
