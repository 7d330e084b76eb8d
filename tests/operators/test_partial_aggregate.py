"""What each instant adds to the sums of a partition group.

in     5 [1, 4)   NULL [1, 4)   2.50 [3, 6)      out    at 1: 2 rows, 1 value, 5    at 3: 1, 1, 2.50    at 4 …
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.operators.partial_aggregate import ROWS, PartialAggregate, PartialAggregateSpec, can_add_up
from sash.store.batch import SIGNED_FIELDS

SPEC = PartialAggregateSpec(("x",), 8, expires_by_negatives=False)
ADDED = [ROWS, "_part.countx", "_part.sumx", "_ts"]


def make(type: pa.DataType, spec: PartialAggregateSpec = SPEC) -> PartialAggregate:
    return PartialAggregate(spec, pa.schema([("x", type), *SIGNED_FIELDS]))


def tuples(rows: list[tuple], type: pa.DataType) -> pa.Table:
    """Tuples (x, enters, expires)."""
    columns = {"x": pa.array([row[0] for row in rows], type)}
    columns |= {"_ts": [row[1] for row in rows], "_expires": [row[2] for row in rows], "_op": [1] * len(rows)}
    return pa.table(columns, schema=pa.schema([("x", type), *SIGNED_FIELDS]))


def added(changes: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in changes.select(ADDED).to_pylist()]


def test_one_row_for_each_instant_at_which_something_comes_or_goes():
    type = pa.decimal128(9, 2)
    operator = make(type)
    arriving = tuples([(Decimal(5), 1, 4), (None, 1, 4), (Decimal("2.5"), 3, 6)], type)
    assert added(operator.process([arriving], 3)) == [(2, 1, Decimal(5), 1), (1, 1, Decimal("2.50"), 3)]
    nothing = arriving.slice(0, 0)
    assert added(operator.process([nothing], 9)) == [(-2, -1, Decimal(-5), 4), (-1, -1, Decimal("-2.50"), 6)]
    assert operator.logs()["window"].n_rows == 0


def test_an_instant_that_adds_nothing_has_no_row():
    """At 4 a 7 goes and another comes."""
    operator = make(pa.int64())
    assert len(added(operator.process([tuples([(7, 1, 4), (7, 4, 8)], pa.int64())], 5))) == 1


def test_sums_are_exact_beyond_64_bits():
    operator = make(pa.int64())
    largest = 2**63 - 1
    rows = [(largest, 1, 5)] * 3 + [(-largest - 1, 2, 5)] * 5
    sums = [row[2] for row in added(operator.process([tuples(rows, pa.int64())], 9))]
    assert sums == [3 * largest, 5 * (-largest - 1), 5 * (largest + 1) - 3 * largest]


def test_restored_it_goes_on():
    before, after = make(pa.int64()), make(pa.int64())
    before.process([tuples([(7, 1, 4), (8, 1, 6)], pa.int64())], 2)
    entries = {name: log.entries() for name, log in before.logs().items()}
    after.restore(entries, before.registers())
    nothing = tuples([], pa.int64())
    assert (
        added(after.process([nothing], 9)) == added(before.process([nothing], 9)) == [(-1, -1, -7, 4), (-1, -1, -8, 6)]
    )


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1) | st.none(), st.integers(0, 9), st.integers(1, 8)), max_size=12
    ),
    st.lists(st.integers(0, 20), max_size=4).map(sorted),
)
def test_the_rows_up_to_an_instant_add_up_to_the_window(lives: list[tuple], clocks: list[int]):
    operator, seen, done = make(pa.int64()), [], -1
    for clock in [*clocks, 20]:
        rows = sorted(((x, ts, ts + life) for x, ts, life in lives if done < ts <= clock), key=lambda row: row[1])
        seen += added(operator.process([tuples(rows, pa.int64())], clock))
        done = max(done, clock)
    for instant in range(21):
        here = [x for x, ts, life in lives if ts <= instant < ts + life]
        total = [sum(row[part] for row in seen if row[3] <= instant) for part in range(3)]
        assert total == [len(here), sum(x is not None for x in here), sum(x or 0 for x in here)]


@pytest.mark.parametrize(
    ("type", "adds_up"),
    [(pa.int32(), True), (pa.decimal128(18, 2), True), (pa.decimal128(19, 2), False), (pa.float64(), False),
     (pa.uint64(), False), (pa.string(), False)],
)  # fmt: skip
def test_only_what_adds_up_without_rounding_is_worked_out_in_parts(type: pa.DataType, adds_up: bool):
    assert can_add_up(type) == adds_up


def test_a_mean_of_parts_is_rounded_once() -> None:
    cents = [10, 11, 11, 7, 10**8 - 1, 3]
    column = pa.array([Decimal(each) / 100 for each in cents], pa.decimal128(9, 2))
    rows = pa.table({"k": [1] * len(cents), "v": column, "ts": range(len(cents))})
    frames: dict[str, Any] = {
        "a": sash.stream(rows, time="ts"),
        "b": sash.stream(pa.table({"k": [1], "ts": [0]}), time="ts"),
    }
    text = "SELECT AVG(a.v) AS mean FROM a, b WHERE a.k = b.k HAVING AVG(a.v) > 0 WINDOW 1 DAY"
    assert "PartialAggregate" in sash.explain(text, **frames)
    means = sash.sql(text, **frames).column("mean").to_pylist()
    assert means == [sum(cents[:n]) / (n * 100) for n in range(1, len(cents) + 1)]


def test_having_asks_of_what_all_parts_add_up_to() -> None:
    """
    v       1 at 0   2 at 1   4 at 2     0 at 9     joined with itself, so that it is spread by the key
    sum     1        3        7          6 at 3     4 at 4     nothing at 5
    """
    rows = sash.stream(pa.table({"ts": [0, 1, 2, 9], "k": [0, 1, 2, 3], "v": [1, 2, 4, 0]}), time="ts")
    text = "SELECT count(*) AS n, sum(A.v) AS total FROM s A, s B WHERE A.k = B.k HAVING sum(A.v) > 3 WINDOW 3 us"
    assert "PartialAggregate" in sash.explain(text, s=rows)
    changes = sash.sql(text, s=rows).select(["_ts", "_op", "n", "total"]).to_pylist()
    shown = [(row["_ts"], row["_op"], row["n"], row["total"]) for row in changes]
    assert shown == [(2, 1, 3, 7), (3, 1, 2, 6), (4, 1, 1, 4), (5, -1, None, None)]


def test_parts_of_some_of_the_rows_add_up() -> None:
    """As without parts: a minimum cannot be put together, so a query with one has none."""
    some = "FILTER (WHERE A.v > 1)"
    outputs = f"count(*) {some} AS n, sum(A.v) {some} AS total, avg(A.v) {some} AS mean, count_if(A.v > 1) AS m"
    rest = "FROM s A, s B WHERE A.k = B.k WINDOW 3 us"
    rows = pa.table({"ts": [0, 1, 2, 9], "k": [0, 1, 2, 3], "v": [1, 2, None, 0]})
    frames: dict[str, Any] = {"s": sash.stream(rows, time="ts")}
    assert "PartialAggregate" in sash.explain(f"SELECT {outputs} {rest}", **frames)
    assert "PartialAggregate" not in sash.explain(f"SELECT {outputs}, min(A.v) AS least {rest}", **frames)
    in_parts, whole = (sash.sql(f"SELECT {outputs}{more} {rest}", **frames) for more in ("", ", min(A.v) AS least"))
    for instant in range(10):
        assert newest(in_parts, instant) == newest(whole, instant)
    assert newest(in_parts, 1) == (1, 2, 2.0, 1)


def newest(changes: pa.Table, instant: int) -> tuple:
    """The row of a global aggregate at an instant."""
    rows = [row for row in changes.to_pylist() if row["_ts"] is None or row["_ts"] <= instant]
    return tuple(rows[-1][name] for name in ("n", "total", "mean", "m"))
