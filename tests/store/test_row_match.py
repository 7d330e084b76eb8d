"""Rows that two tables have in common, each as often as both have it, even where hashes collide."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store import row_match
from sash.store.row_match import match_rows

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("t", pa.string())])
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 2),
        st.none() | st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
        st.none() | st.sampled_from(["", "a"]),
    ),
    max_size=12,
)


def table(rows: list[tuple]) -> pa.Table:
    columns = list(zip(*rows)) or [(), (), ()]
    return pa.table([pa.array(list(each), field.type) for each, field in zip(columns, SCHEMA)], schema=SCHEMA)


def check(old: list[tuple], new: list[tuple]) -> None:
    found = match_rows(table(old), table(new))
    common = Counter(map(repr, old)) & Counter(map(repr, new))
    for rows, is_found in zip((old, new), found, strict=True):
        assert Counter(repr(row) for row, is_in in zip(rows, is_found, strict=True) if is_in) == common


@given(ROWS, ROWS)
def test_as_often_as_both_have_it(old, new):
    check(old, new)


@given(ROWS, ROWS)
def test_where_all_hashes_are_one(old, new):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_match, "hash_whole_rows", lambda rows: np.zeros(rows.num_rows, np.uint64))
        check(old, new)
