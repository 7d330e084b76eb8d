"""The data centre of Shared §2.1: temperature and humidity sensors at many locations.

    temperature(location, value, ts)    humidity(location, value, ts)

A location has levels of its own, around which its readings vary. A few locations run hot, and some of them are humid
too: these are what queries look for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.lab.workloads.arrow_columns import times_column
from sash.lab.workloads.workload import Synthetic, WorkloadStream, cut_rows

SCHEMA = pa.schema([("location", pa.int32()), ("value", pa.float64()), ("ts", pa.timestamp("us"))])
KINDS = {"temperature": (24.0, 4.0), "humidity": (45.0, 10.0)}
"""By stream, mean and spread of the levels."""
_WITHIN = 0.3
"""The spread of one location's readings, as a share of that of the levels."""


@dataclass(frozen=True, slots=True)
class Sensors(Synthetic):
    """Keys are locations: with skew, some locations report more often than others."""

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(name, SCHEMA) for name in KINDS)

    @property
    def question(self) -> str:
        """Q1 of Shared §2.1."""
        return """SELECT COUNT(DISTINCT A.location) AS locations
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value > 28 AND B.value > 55
  WINDOW 1 MINUTE"""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        rng = self.rng(list(KINDS).index(stream))
        mean, spread = KINDS[stream]
        levels = mean + spread * rng.standard_normal(self.n_keys)
        times = self.draw_times(rng)
        for rows in cut_rows(len(times)):
            ts = times[rows]
            location = self.draw_keys(rng, len(ts))
            value = levels[location] + _WITHIN * spread * rng.standard_normal(len(ts))
            columns = [pa.array(location.astype(np.int32)), pa.array(np.round(value, 2)), times_column(ts)]
            yield pa.Table.from_arrays(columns, schema=SCHEMA)
