"""Groups in the middle of an instant: some of its tuples have been counted, and more come.

    part      +a 5   +b 1        part     +a 7        the rest   -b 1
    noted     a: not there, b: not there              a +12, and nothing of b

What happens to a group at one instant happens at once, however the tuples are cut into parts. So what a group was
before its first tuple of the instant is noted, and compared with what it is after its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa


class GroupsBefore(NamedTuple):
    """Of some groups: whether each was there, and its aggregates."""

    ids: np.ndarray
    was_there: np.ndarray
    values: list[pa.Array]


class OpenGroups:
    """The groups that an instant has touched so far, as they were before it."""

    def __init__(self) -> None:
        self._noted: list[GroupsBefore] = []
        self._ids = np.empty(0, np.int64)
        """All that are noted, ascending."""

    @property
    def is_open(self) -> bool:
        """Whether there are any."""
        return bool(self._noted)

    def note(self, ids: np.ndarray, was_there: np.ndarray, values: Sequence[pa.Array]) -> None:
        """What groups were before a part of the instant; of those that are noted already it is of no interest."""
        fresh = np.flatnonzero(~np.isin(ids, self._ids))
        if len(fresh) or not self._noted:
            taken = [each.take(pa.array(fresh)) for each in values]
            self._noted.append(GroupsBefore(ids[fresh], was_there[fresh], taken))
            self._ids = np.union1d(self._ids, ids[fresh])

    def close(self) -> GroupsBefore:
        """All groups that were touched, by number, as they were before the instant. None is noted any more."""
        noted, self._noted, self._ids = self._noted, [], np.empty(0, np.int64)
        ids, was_there = (np.concatenate(each) for each in zip(*((each.ids, each.was_there) for each in noted)))
        order = np.argsort(ids)
        columns = zip(*(each.values for each in noted))
        values = [pa.concat_arrays(list(column)).take(pa.array(order)) for column in columns]
        return GroupsBefore(ids[order], was_there[order], values)
