"""Rows by key in a table that does not change, against two loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.index import join_index, lookup_index
from sash.index.lookup_index import LookupIndex, Spans

KEYS = st.lists(st.sampled_from((7, -1, 0, 2**63 - 1, -(2**63))), max_size=12).map(
    lambda keys: np.array(keys, np.int64)
)


@given(held=KEYS, asked=KEYS, n_per_chunk=st.sampled_from((1, 3, 1 << 18)))
def test_all_rows_of_a_key_are_found_in_order(held: np.ndarray, asked: np.ndarray, n_per_chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_index, "PAIRS_PER_CHUNK", n_per_chunk)
        chunks = list(LookupIndex(held).find(asked))
    pairs = [pair for places, rows in chunks for pair in zip(places.tolist(), rows.tolist(), strict=True)]
    expected = [(place, row) for place, key in enumerate(asked) for row, other in enumerate(held) if key == other]
    assert pairs == expected
    assert all(len(set(places.tolist())) == 1 for places, _ in chunks if len(places) > n_per_chunk)


def test_looking_up_changes_nothing() -> None:
    index = LookupIndex(np.array([7, 4, 7, 9]))
    assert [(places.tolist(), rows.tolist()) for places, rows in index.find(np.array([7, 5]))] == [([0, 0], [0, 2])]
    assert list(index.find(np.array([5]))) == []
    assert [(places.tolist(), rows.tolist()) for places, rows in index.find(np.array([5, 9]))] == [([1], [3])]


BOUNDS = st.sampled_from((-(2**63), -2, 0, 1, 2, 3, 5, 2**63 - 1))
SPANNED = st.lists(st.tuples(st.sampled_from((7, -1, 0)), BOUNDS, BOUNDS), max_size=16)
ASKED = st.lists(st.tuples(st.sampled_from((7, -1, 0)), st.integers(-3, 6)), max_size=8)


@given(held=SPANNED, asked=ASKED, n_per_chunk=st.sampled_from((1, 3, 1 << 18)))
@example(held=[(0, 1, 9), (0, 2, 3), (0, 4, 5)], asked=[(0, 4), (0, 3)], n_per_chunk=1)
def test_rows_with_spans_are_found_at_times_within(held, asked, n_per_chunk) -> None:
    keys, begins, ends = (np.array(column, np.int64) for column in (list(zip(*held)) or [(), (), ()]))
    places, times = (np.array(column, np.int64) for column in (list(zip(*asked)) or [(), ()]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_index, "PAIRS_PER_CHUNK", n_per_chunk)
        chunks = list(LookupIndex(keys, Spans(begins, ends)).find(places, times))
    pairs = [pair for at, rows in chunks for pair in zip(at.tolist(), rows.tolist(), strict=True)]
    assert [place for place, _ in pairs] == sorted(place for place, _ in pairs)
    assert sorted(pairs) == [
        (place, row)
        for place, (key, time) in enumerate(asked)
        for row, (other, begin, end) in enumerate(held)
        if key == other and begin <= time < end
    ]


def test_rows_that_do_not_overlap_are_not_looked_at_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a key with many versions, only the one is touched that is valid."""
    looked_at = []
    stretches = lookup_index._stretches

    def watched(places, firsts, lasts):
        looked_at.extend((lasts - firsts).tolist())
        return stretches(places, firsts, lasts)

    monkeypatch.setattr(lookup_index, "_stretches", watched)
    begins = np.arange(0, 10_000, 10)
    index = LookupIndex(np.zeros(1_000, np.int64), Spans(begins, begins + 10))
    assert [rows.tolist() for _, rows in index.find(np.zeros(3, np.int64), np.array([0, 5_005, 9_999]))] == [
        [0, 500, 999]
    ]
    assert looked_at == [1, 1, 1]
