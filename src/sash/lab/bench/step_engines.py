"""What `sash bench memory` feeds step by step: each engine gives the pairs `a_v`, `b_v` of rows with one key that are
less than a window apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sash.api import query
from sash.lab.bench.exact_engine import ExactEngine
from sash.lab.bench.segment_engine import SegmentEngine
from sash.lab.workloads.join_streams import FILES_PER_BATCH, JoinWorkload, generate_stream
from sash.runtime.memory_settings import set_memory

IN_MEMORY, TIERED, SEGMENTS, BUILTIN = "sash", "tiered", "duckdb", "builtin"
ENGINES = {
    IN_MEMORY: "Sash, in memory",
    TIERED: "Sash, tiered",
    "ewj": "EWJ",
    "rpwj": "RPWJ",
    "ahewj": "AH-EWJ",
    SEGMENTS: "DuckDB over segments",
    BUILTIN: "Spark's join",
}
PAIR_COLUMNS: dict[str, pa.DataType] = {"a_v": pa.int64(), "b_v": pa.int64()}


class StepEngine(Protocol):
    """Takes the rows of all streams, a step at a time."""

    def fill(self, step: Mapping[str, pa.Table]) -> None:
        """Takes rows whose pairs nobody asks for."""
        ...

    def push(self, step: Mapping[str, pa.Table]) -> pa.Table:
        """Takes rows; the pairs that are due."""
        ...

    def finish(self) -> pa.Table:
        """The pairs that are left. Nothing may be pushed afterwards."""
        ...


class SashEngine:
    """A query in this process, under the limit of this process, if there is one."""

    def __init__(self, workload: JoinWorkload):
        text = (
            f"SELECT a.v AS a_v, b.v AS b_v FROM a, b WHERE {workload.keys_are_equal} "
            f"WINDOW {workload.window_us} MICROSECONDS"
        )
        self._query = query(text, **dict.fromkeys(workload.names, workload.schema))

    def fill(self, step: Mapping[str, pa.Table]) -> None:
        self.push(step)

    def push(self, step: Mapping[str, pa.Table]) -> pa.Table:
        return pa.concat_tables([self._query.push(stream, rows) for stream, rows in step.items()])

    def finish(self) -> pa.Table:
        return self._query.finish()


def make_engine(name: str, workload: JoinWorkload, limit_bytes: int, directory: Path) -> StepEngine:
    """An engine with nothing in it; what finds no room in memory goes to `directory`, which is not there yet.

    Sash's limit is that of the process, which is changed.
    """
    if name in (IN_MEMORY, TIERED):
        set_memory(limit_bytes if name == TIERED else None, directory)
        return SashEngine(workload)
    if name == SEGMENTS:
        return SegmentEngine(workload, limit_bytes, directory)
    return ExactEngine(name, workload, limit_bytes, directory)


def generate_steps(workload: JoinWorkload) -> Iterator[dict[str, pa.Table]]:
    """The rows of every stream, a batch of the workload at a time; batches must be whole."""
    streams = [
        map(pa.concat_tables, zip(*[generate_stream(workload, name)] * FILES_PER_BATCH)) for name in workload.names
    ]
    return (dict(zip(workload.names, rows)) for rows in zip(*streams))
