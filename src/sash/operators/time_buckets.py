"""Windows that begin at fixed instants and that a row has as columns: TUMBLE and HOP. No state.

Law:  a row is once in every window with  start <= ts < end,  from ts until before end.

HOP 4 every 2       0   1   2   3   4   5   6
ts 3                            |=======|              [0, 4)
                                |=======|=======|      [2, 6)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Windows of `length_us` that begin every `hop_us`, of which `offset_us` is one, in columns `names` of `type`."""

    length_us: int
    hop_us: int
    offset_us: int
    names: tuple[str, str]
    type: pa.DataType

    def __post_init__(self) -> None:
        assert self.length_us > 0
        assert self.hop_us > 0

    def spread(self, rows: pa.Table, ts: np.ndarray) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """The rows as often as they are in a window, with its start and end; their times, and when each leaves."""
        newest = ts - (ts - self.offset_us) % self.hop_us
        ages = np.arange(-(-self.length_us // self.hop_us)) * self.hop_us
        starts = newest[:, None] - ages[::-1]
        # The oldest may be over, and where windows leave gaps the newest as well.
        places, columns = np.nonzero(starts + self.length_us > ts[:, None])
        starts = starts[places, columns]
        ends = starts + self.length_us
        if len(places) != len(ts) or np.any(places[1:] == places[:-1]):
            rows = rows.take(pa.array(places))
        for name, times in zip(self.names, (starts, ends), strict=True):
            rows = rows.append_column(name, pa.array(times).cast(self.type))
        return rows, ts[places], ends
