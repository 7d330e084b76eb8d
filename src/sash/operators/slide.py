"""SLIDE: a window that moves only at multiples of its slide. No state.

    Law:  at T the window holds what it would hold without a slide at the last multiple of the slide not after T.

    RANGE 3 SLIDE 2      ts 1: without [1, 4), with [2, 4)       ts 2: [2, 5), with [2, 6)

So a tuple enters at the first multiple not before its time, and leaves at the first not before its expiry. One that is
over before the next multiple never enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.operators.operator import Stateless
from sash.store.batch import EXPIRES, NEVER, TS, int64_column, with_columns


@dataclass(frozen=True, slots=True)
class SlideSpec:
    """`slide_us` is the distance between the instants at which the window moves."""

    slide_us: int

    def __post_init__(self) -> None:
        assert self.slide_us > 0


class Slide(Stateless):
    """Runs a `SlideSpec`."""

    def __init__(self, spec: SlideSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        ts, expires = (self._next_move(int64_column(batch, name)) for name in (TS, EXPIRES))
        moved = with_columns(batch, **{TS: ts, EXPIRES: expires})
        return moved if np.all(ts < expires) else moved.filter(pa.array(ts < expires))

    def _next_move(self, times: np.ndarray) -> np.ndarray:
        """The first multiple of the slide that is not before each time."""
        slide_us = self.spec.slide_us
        is_far = times >= NEVER - slide_us
        return np.where(is_far, NEVER, -(-np.where(is_far, 0, times) // slide_us) * slide_us)
