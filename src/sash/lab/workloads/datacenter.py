"""A recording of the data centre of `sensors`, as `examples/datacenter.sql` reads it.

Every sensor reports once in five minutes, at a moment of its own, a little late now and then. A few locations run hot,
and among those some are humid too: these are what the queries look for.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.sensors import KINDS, SCHEMA

PERIOD_US = 300_000_000


def generate_readings(n_locations: int, n_periods: int, mean: float, spread: float, seed: int) -> pa.Table:
    """The readings of one kind of sensor, in order of arrival: a few percent are up to two seconds late."""
    rng = np.random.default_rng(seed)
    n_rows = n_locations * n_periods
    location = np.tile(np.arange(n_locations, dtype=np.int32), n_periods)
    phase = np.tile(rng.integers(0, PERIOD_US, n_locations), n_periods)
    ts = START_US + np.repeat(np.arange(n_periods), n_locations) * PERIOD_US + phase
    level = mean + spread * rng.standard_normal(n_locations)
    value = np.round(np.tile(level, n_periods) + 0.3 * spread * rng.standard_normal(n_rows), 2)
    delay = np.where(rng.random(n_rows) < 0.03, rng.integers(0, 2_000_000, n_rows), 0)
    order = np.argsort(ts + delay, kind="stable")
    columns = [location[order], value[order], pa.array(ts[order]).cast(pa.timestamp("us"))]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


def write_stream(readings: pa.Table, directory: Path, n_files: int) -> None:
    """Cuts readings into files, in order of arrival, each with a later modification time than the one before."""
    directory.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, readings.num_rows, n_files + 1).astype(int)
    for number, (low, high) in enumerate(pairwise(bounds)):
        staged, path = directory / f".{number:04d}.parquet", directory / f"{number:04d}.parquet"
        pq.write_table(readings.slice(low, high - low), staged)
        os.utime(staged, (START_US / 1e6 + number, START_US / 1e6 + number))
        staged.rename(path)


def write_datacenter(directory: Path, n_locations: int = 3000, n_periods: int = 18, n_files: int = 24) -> None:
    """Both streams, an hour and a half of them."""
    for seed, (name, (mean, spread)) in enumerate(KINDS.items(), 1):
        write_stream(generate_readings(n_locations, n_periods, mean, spread, seed), directory / name, n_files)


if __name__ == "__main__":
    write_datacenter(Path(sys.argv[1]))
