"""Tuples that are heard of when their window is over.

Law: a tuple that would be there from ts until E is there at E alone.
"""

from __future__ import annotations

import pyarrow as pa

from sash.operators.close import Close, CloseSpec
from sash.store.batch import SIGNED_FIELDS
from support.steps import Lived, changes_of, signed

COLUMNS = pa.schema([("n", pa.int64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])


def test_tuples_of_one_window_come_together_at_its_end() -> None:
    """
    [0, 5) and [5, 10)   0   1   2   3   4   5   6   7   8   9   10
    ts 1 and 4               |-----------|---|                         become  [5, 6)
    ts 5                                     |-------------------|     becomes [10, 11)
    """
    lives = [Lived((1,), 1, 5), Lived((2,), 4, 5), Lived((3,), 5, 10)]
    batch = signed([change for lived in lives for change in lived.changes(is_told=False)], COLUMNS)
    closed = changes_of(Close(CloseSpec(), SCHEMA).process([batch], 0))
    assert closed == [(1, 5, 6, (1,)), (1, 5, 6, (2,)), (1, 10, 11, (3,))]


def test_nothing_in_nothing_out() -> None:
    assert Close(CloseSpec(), SCHEMA).process([SCHEMA.empty_table()], 7) == SCHEMA.empty_table()
