"""EMIT ON WINDOW CLOSE: tuples are heard of when their window is over, and not before. No state.

    Law:  a tuple that would be there from ts until E  is there  at E alone.

    window [0, 5)      0   1   2   3   4   5   6
    without                    |===========|
    with                                   |

So all tuples of a window come at once, at its end, and what is made of them is final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sash.operators.operator import Stateless
from sash.store.batch import EXPIRES, TS, int64_column, with_columns


@dataclass(frozen=True, slots=True)
class CloseSpec:
    """Every tuple of the input expires, at the end of its window."""


class Close(Stateless):
    """Runs a `CloseSpec`."""

    def __init__(self, spec: CloseSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        ends = int64_column(batch, EXPIRES)
        return with_columns(batch, **{TS: ends, EXPIRES: ends + 1})
