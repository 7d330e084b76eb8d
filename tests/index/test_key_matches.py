"""How often keys of windows are equal, by samples of the newest tuples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sash.index import key_matches as module
from sash.index.key_matches import key_matches
from sash.store.batch import SIGNED_FIELDS
from sash.store.ordered_window import OrderedWindow

SCHEMA = pa.schema([*SIGNED_FIELDS, ("k", pa.int64()), ("j", pa.int64())])


def window(ks: list[int], js: list[int] | None = None) -> OrderedWindow:
    made = OrderedWindow(SCHEMA, (("k",), ("j",) if js else ()), 1_000)
    n_rows = len(ks)
    ts = np.arange(n_rows)
    made.insert(pa.table([ts, ts + 1_000, np.ones(n_rows, np.int8), ks, js or ks], schema=SCHEMA), -1)
    return made


def test_the_share_of_all_pairs_with_an_equal_key() -> None:
    windows = [window([1, 1, 2, 3]), window([1, 2, 2, 9])]
    assert key_matches(windows, np.array([[True], [True]])) == (4 / 16,)


def test_the_mean_of_the_pairs_of_windows_that_have_the_key() -> None:
    windows = [window([1, 1], [5, 5]), window([1, 2], [5, 5]), window([1, 1])]
    has_key = np.array([[True, True], [True, True], [True, False]])
    assert key_matches(windows, has_key) == pytest.approx(((0.5 + 1 + 0.5) / 3, 1.0))


def test_where_none_is_equal_it_is_as_if_one_pair_had_been() -> None:
    assert key_matches([window([1, 2]), window([3, 4, 5])], np.array([[True], [True]])) == (1 / 6,)


def test_of_empty_windows_nothing_is_known() -> None:
    assert key_matches([window([]), window([3])], np.array([[True], [True]])) == (1.0,)
    assert key_matches([window([1]), window([3])], np.zeros((2, 0), bool)) == ()


def test_the_newest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "N_SAMPLED", 2)
    assert key_matches([window([7, 7, 1, 2]), window([7, 7, 1, 2])], np.array([[True], [True]])) == (0.5,)
