"""Signed tuples as users see them, and time columns as microseconds."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from sash.operators.changes import read_times, to_changes
from sash.store.batch import EXPIRES, NEVER, OP, TS


def tuples(*rows: tuple[int, int, int, str | None]) -> pa.Table:
    """Rows of (op, ts, expires, v), with columns in the order in which they travel."""
    op, ts, expires, v = ([row[idx] for row in rows] for idx in range(4))
    return pa.table({
        TS: pa.array(ts, pa.int64()),
        EXPIRES: pa.array(expires, pa.int64()),
        OP: pa.array(op, pa.int8()),
        "_id.A": pa.array(range(len(rows)), pa.int64()),
        "v": pa.array(v, pa.string()),
    })  # fmt: skip


def changes_schema(time: pa.DataType) -> pa.Schema:
    return pa.schema([("v", pa.string()), (OP, pa.int8()), (TS, time), (EXPIRES, time)])


def test_changes_are_in_order_of_time_then_sign_then_content() -> None:
    """The identity decides nothing: it tells in which order tuples came."""
    batch = tuples((1, 5, 9, "b"), (1, 3, 9, "z"), (1, 5, 9, None), (-1, 5, 9, "c"), (1, 5, 9, "a"), (1, 5, 8, "a"))
    changes = to_changes(batch, changes_schema(pa.int64()))
    assert changes.schema == changes_schema(pa.int64())
    assert [tuple(row.values()) for row in changes.to_pylist()] == [
        ("z", 1, 3, 9),
        ("c", -1, 5, 9),
        (None, 1, 5, 9),
        ("a", 1, 5, 8),
        ("a", 1, 5, 9),
        ("b", 1, 5, 9),
    ]


def test_what_never_leaves_by_itself_has_no_expiry() -> None:
    changes = to_changes(
        tuples((1, 5, NEVER, "a"), (-1, 6, NEVER, "a"), (1, 7, NEVER - 1, "b")), changes_schema(pa.int64())
    )
    assert changes[EXPIRES].to_pylist() == [None, None, NEVER - 1]


def test_times_come_as_the_streams_tell_them() -> None:
    batch = tuples((1, 1_000_000, NEVER, "a"), (1, 2_000_001, 3_000_000, "b"))
    plain = to_changes(batch, changes_schema(pa.timestamp("us")))
    assert plain[TS].to_pylist() == [datetime(1970, 1, 1, 0, 0, 1), datetime(1970, 1, 1, 0, 0, 2, 1)]
    assert plain[EXPIRES].to_pylist() == [None, datetime(1970, 1, 1, 0, 0, 3)]
    zoned = to_changes(batch, changes_schema(pa.timestamp("us", "UTC")))
    assert zoned[TS][0].as_py() == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_no_changes() -> None:
    changes = to_changes(tuples(), changes_schema(pa.timestamp("us")))
    assert changes.num_rows == 0
    assert changes.schema == changes_schema(pa.timestamp("us"))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, -1], pa.int64()), [1, -1]),
        (pa.array([1, -1], pa.timestamp("us")), [1, -1]),
        (pa.array([1, -1], pa.timestamp("ms", "UTC")), [1_000, -1_000]),
        (pa.array([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("s", "Europe/Paris")), [1_000_000]),
        (pa.array([date(1970, 1, 2)]), [86_400_000_000]),
        (pa.array([], pa.timestamp("us")), []),
    ],
    ids=["integers", "timestamps", "milliseconds", "zone", "dates", "nothing"],
)
def test_time_columns_are_read_as_microseconds(column: pa.Array, expected: list[int]) -> None:
    assert read_times(pa.chunked_array([column.slice(0, 1), column.slice(1)])).tolist() == expected
