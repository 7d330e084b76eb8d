"""Rows by key in a table that does not change, against two loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.index import join_index
from sash.index.lookup_index import LookupIndex

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
