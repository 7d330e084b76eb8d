"""Streams to be joined over a window: how many, how many keys, how even, how wide and how fast is up to the caller.

    a(k BIGINT, v BIGINT, ts TIMESTAMPTZ, payload …)        b, c … likewise

`v` numbers the rows of a stream. Times increase strictly: of each period of 1 / rate seconds, every stream has one row,
at a random moment. So no row is late for any engine, and all streams are equally far at every file.

Files have increasing modification times and `FILES_PER_BATCH` files of each stream make a batch, so that engines that
take that many files at a time work through the same batches.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.arrow_columns import decimals_column, times_column
from sash.lab.workloads.key_choice import even_keys, zipf_keys
from sash.lab.workloads.law import check_seed, require
from sash.lab.workloads.workload import WorkloadStream

STREAM_NAMES = "abcdefgh"
FILES_PER_BATCH = 2
"""Of each stream, so that two cores have something to read."""
WIDE_CHARACTERS = 20
MAX_RATE = 1_000_000
"""Times are whole microseconds and increase."""

_BASE = [("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))]
_WIDE = [("s1", pa.string()), ("s2", pa.string()), ("d", pa.decimal128(18, 2))]
_LETTERS = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", np.uint8)


@dataclass(frozen=True, slots=True)
class JoinWorkload:
    """What is generated. `n_tuples` and `batch_rows` count the rows of all streams together."""

    n_tuples: int
    window_us: int
    rate: int = 50_000
    """Rows per second of event time, of each stream."""
    n_keys: int | None = None
    """None: as many keys as a stream has rows in a window. A tuple then joins with one of each other stream on average,
    if keys are even.
    """
    payload: str = "none"
    """`none`, `wide` (two strings of 20 characters and a DECIMAL(18, 2)), or the width of one string."""
    skew: float = 0.0
    """The exponent of a Zipf distribution of keys; 0: all keys are equally likely."""
    batch_rows: int = 500_000
    seed: int = 1
    n_streams: int = 2
    is_outer: bool = False
    """Whether rows of the first of two streams are kept that meet nobody."""

    def __post_init__(self):
        require(2 <= self.n_streams <= len(STREAM_NAMES), "streams", self.n_streams, f"2 to {len(STREAM_NAMES)}")
        require(not self.is_outer or self.n_streams == 2, "streams", self.n_streams, "2 in an outer join")
        n_least = self.n_streams
        require(self.n_tuples >= n_least, "tuples", self.n_tuples, f"at least {n_least}, one per stream")
        require(self.window_us >= 1, "window", self.window_us, "at least one microsecond")
        require(1 <= self.rate <= MAX_RATE, "rate", self.rate, f"1 to {MAX_RATE:,} rows per second")
        require(self.n_keys is None or self.n_keys >= 1, "keys", self.n_keys, "at least 1")
        require(self.skew >= 0, "skew", self.skew, "0 or more")
        check_seed(self.seed)
        n_files = self.n_streams * FILES_PER_BATCH
        require(self.batch_rows >= n_files, "batch", self.batch_rows, f"at least {n_files}, one per file")
        is_width = self.payload.isdecimal() and int(self.payload) >= 1
        require(is_width or self.payload in ("none", "wide"), "payload", self.payload, "none, wide or a width")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the streams."""
        return tuple(STREAM_NAMES[: self.n_streams])

    @property
    def schema(self) -> pa.Schema:
        """Of every stream."""
        if self.payload == "none":
            return pa.schema(_BASE)
        return pa.schema([*_BASE, *(_WIDE if self.payload == "wide" else [("s1", pa.string())])])

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return self.n_keys or max(1, round(self.rate * self.window_us / 1e6))

    @property
    def n_rows(self) -> int:
        """Of each stream."""
        return self.n_tuples // self.n_streams

    @property
    def total_rows(self) -> int:
        """Of all streams together: `n_tuples`, as far as they are as many of each."""
        return self.n_streams * self.n_rows

    @property
    def rows_per_file(self) -> int:
        return self.batch_rows // (self.n_streams * FILES_PER_BATCH)

    @property
    def n_files(self) -> int:
        """Of each stream."""
        return math.ceil(self.n_rows / self.rows_per_file)

    @property
    def batches(self) -> list[int]:
        """How many rows of all streams each batch holds."""
        per_stream = self.rows_per_file * FILES_PER_BATCH
        return [self.n_streams * min(per_stream, self.n_rows - low) for low in range(0, self.n_rows, per_stream)]

    @property
    def start_us(self) -> int:
        return START_US

    @property
    def duration_us(self) -> int:
        return self.n_rows * 1_000_000 // self.rate

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(name, self.schema) for name in self.names)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {}

    @property
    def question(self) -> str:
        numbers = ", ".join(f"{name}.v AS {name}_v" for name in self.names)
        streams, equal = ", ".join(self.names), self.keys_are_equal
        return f"SELECT a.k, {numbers} FROM {streams} WHERE {equal} WINDOW {self.window_us} MICROSECONDS"

    @property
    def keys_are_equal(self) -> str:
        """The condition of the join."""
        return " AND ".join(f"{one}.k = {other}.k" for one, other in pairwise(self.names))

    def generate(self, stream: str) -> Iterator[pa.Table]:
        return generate_stream(self, stream)


def whole_batch(batch_rows: int, n_streams: int = 2) -> int:
    """How many rows a full batch really has: all its files are equally long."""
    n_files = n_streams * FILES_PER_BATCH
    return batch_rows // n_files * n_files


def generate_stream(workload: JoinWorkload, stream: str) -> Iterator[pa.Table]:
    """The rows of a stream, a file at a time. The same workload always gives the same rows."""
    rng = np.random.default_rng([workload.seed, workload.names.index(stream)])
    for low in range(0, workload.n_rows, workload.rows_per_file):
        number = np.arange(low, min(low + workload.rows_per_file, workload.n_rows), dtype=np.int64)
        columns = [
            _draw_keys(rng, workload, len(number)),
            pa.array(number),
            _draw_times(rng, number, workload.rate),
            *(_draw_payload(rng, field.type, workload, len(number)) for field in list(workload.schema)[len(_BASE) :]),
        ]
        yield pa.Table.from_arrays(columns, schema=workload.schema)


def write_workload(workload: JoinWorkload, directory: Path, note: Callable[[int], None] = lambda n_rows: None) -> None:
    """Writes the files of all streams below `directory`; notes how many rows have been written so far."""
    n_written = 0
    for stream in workload.names:
        (directory / stream).mkdir(parents=True)
        for number, rows in enumerate(generate_stream(workload, stream)):
            path = directory / stream / f"{number:06d}.parquet"
            pq.write_table(rows, path)
            os.utime(path, (START_US / 1e6 + number, START_US / 1e6 + number))
            n_written += rows.num_rows
            note(n_written)


def _draw_keys(rng: np.random.Generator, workload: JoinWorkload, n_rows: int) -> pa.Array:
    if not workload.skew:
        return pa.array(even_keys(rng, workload.keys, n_rows))
    return pa.array(zipf_keys(rng, workload.keys, n_rows, workload.skew))


def _draw_times(rng: np.random.Generator, number: np.ndarray, rate: int) -> pa.Array:
    """A moment in each row's own period; in integers, as sums of floats would run out of step."""
    low, high = number * 1_000_000 // rate, (number + 1) * 1_000_000 // rate
    return times_column(START_US + rng.integers(low, high), "UTC")


def _draw_payload(rng: np.random.Generator, dtype: pa.DataType, workload: JoinWorkload, n_rows: int) -> pa.Array:
    if pa.types.is_decimal(dtype):
        return decimals_column(rng.integers(0, 10_000_000, n_rows), dtype)
    return _draw_texts(rng, WIDE_CHARACTERS if workload.payload == "wide" else int(workload.payload), n_rows)


def _draw_texts(rng: np.random.Generator, n_characters: int, n_rows: int) -> pa.Array:
    letters = _LETTERS[rng.integers(0, len(_LETTERS), n_rows * n_characters, dtype=np.uint8)]
    ends = np.arange(n_rows + 1, dtype=np.int32) * np.int32(n_characters)
    return pa.StringArray.from_buffers(n_rows, pa.py_buffer(ends), pa.py_buffer(letters))
