"""Tables as bytes: what is left out comes back as it was, and nothing else changes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store.batch import EXPIRES, NEVER, OP, TS
from sash.store.codec import decode_table, encode_table

SCHEMA = pa.schema(
    [
        ("a.k", pa.int64()),
        ("a.ts", pa.timestamp("us", "UTC")),
        ("a.flag", pa.int8()),
        (TS, pa.int64()),
        (EXPIRES, pa.int64()),
        (OP, pa.int8()),
        ("a.name", pa.string()),
    ]
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.tuples(
        st.none() | WHOLE,
        st.integers(0, 2**40),
        st.none() | st.integers(0, 1),
        WHOLE,
        WHOLE,
        st.just(1),
        st.none() | st.text(max_size=3),
    ),
    max_size=6,
)


def table(rows: list[tuple]) -> pa.Table:
    return pa.table([[row[idx] for row in rows] for idx in range(len(SCHEMA))], schema=SCHEMA)


@given(ROWS, st.integers(0, 3))
def test_a_table_comes_back_as_it_was(rows: list[tuple], start: int) -> None:
    whole = table(rows).slice(start)
    assert decode_table(encode_table(whole)).equals(whole, check_metadata=True)


@given(st.lists(st.integers(0, 2**40), min_size=1), st.sampled_from([0, 1, 30_000_000]))
def test_so_does_a_tuple_whose_columns_follow_from_its_time(times: list[int], life: int) -> None:
    whole = table([(1, ts, 0, ts, ts + life, 1, "x") for ts in times])
    assert decode_table(encode_table(whole)).equals(whole)


def test_differences_may_overflow() -> None:
    whole = table([(1, 0, 0, -(2**63), NEVER, 1, "x"), (1, 0, 0, -(2**63) + 1, NEVER - 3, 1, "x")])
    assert decode_table(encode_table(whole)).equals(whole)


def test_what_follows_is_not_written() -> None:
    def size(expires: list[int]) -> int:
        times = range(1000)
        rows = [(hash(ts), ts, 1, ts, end, 1, "x") for ts, end in zip(times, expires, strict=True)]
        return len(encode_table(table(rows)))

    regular = size([ts + 5 for ts in range(1000)])
    assert regular < size([ts * ts for ts in range(1000)]) - 7_000


@pytest.mark.parametrize("other", [pa.table({"x": [1, 1]}), pa.table({TS: pa.array([], pa.int64())}), pa.table({})])
def test_any_table_will_do(other: pa.Table) -> None:
    assert decode_table(encode_table(other)).equals(other)
