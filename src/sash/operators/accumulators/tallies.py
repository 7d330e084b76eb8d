"""The state of an accumulator that is a few numbers for each group, whatever its values."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from sash.store.group_array import GroupArray


class Tallies(ABC):
    """What COUNT, SUM, AVG, STDDEV and the like share: arrays with an item for each group."""

    def compact(self, mapping: np.ndarray) -> None:
        for each in self._arrays():
            each.compact(mapping)

    def dump(self, groups: np.ndarray) -> list[pa.Array]:
        return [each.dump(groups) for each in self._arrays()]

    def load(self, groups: np.ndarray, columns: list[pa.Array]) -> None:
        for each, column in zip(self._arrays(), columns, strict=True):
            each.load(groups, column)

    def _reserve(self, n_groups: int) -> None:
        for each in self._arrays():
            each.reserve(n_groups)

    @abstractmethod
    def _arrays(self) -> tuple[GroupArray, ...]: ...
