"""What queries ask of a join that they share, and which of its tuples they ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.operators import join_keys as join_keys
from sash.operators.evaluator import select
from sash.operators.operator_names import TapName
from sash.operators.window_join import WindowJoinSpec
from sash.store.labelled_window import BITS, count_words

LWO = "lwo"
"""Largest Window Only: all pairs, then to whom they belong. Other orders serve small windows first."""


@dataclass(frozen=True, slots=True)
class Tap:
    """What one join of a query asks of the shared one."""

    name: TapName
    windows_us: tuple[int, int]
    conditions: tuple[int | None, int | None]
    """Of the join's conditions on each side the one that it demands, if it demands one."""
    columns: tuple[tuple[str, str], ...]
    """Names in the shared join, and in the query."""
    keys: tuple[tuple[str, str], ...]
    """As the query names them."""
    residual: str | None
    """A condition on pairs, as the query writes it."""

    @property
    def reach_us(self) -> int:
        return max(self.windows_us)


@dataclass(frozen=True, slots=True)
class TappedJoinSpec:
    """`join` has the largest windows; `conditions` are SQL over the columns of each side, `taps` the largest first."""

    join: WindowJoinSpec
    conditions: tuple[tuple[str, ...], tuple[str, ...]]
    taps: tuple[Tap, ...]
    serving_order: str = LWO

    def __post_init__(self) -> None:
        assert all(one.reach_us >= other.reach_us for one, other in zip(self.taps, self.taps[1:]))
        assert self.join.choice is None
        assert not self.join.has_identities

    @property
    def classes_us(self) -> list[int]:
        """The different windows, from the smallest on."""
        return sorted({tap.reach_us for tap in self.taps})


def label_tuples(tuples: pa.Table, conditions: tuple[str, ...], demanded: tuple[int | None, ...]) -> np.ndarray:
    """The labels of tuples: bit i of a row says whether it satisfies what tap i demands; NULL does not."""
    labels = np.zeros((tuples.num_rows, count_words(len(demanded))), np.uint64)
    items = [(str(number), f"COALESCE({each}, FALSE)") for number, each in enumerate(conditions)]
    answers = select(tuples, items).columns if items and tuples.num_rows else []
    satisfied = [column.to_numpy(zero_copy_only=False).astype(np.uint64) for column in answers]
    for tap, condition in enumerate(demanded):
        bits = np.uint64(1) if condition is None or not tuples.num_rows else satisfied[condition]
        labels[:, tap // BITS] |= bits << np.uint64(tap % BITS)
    return labels
