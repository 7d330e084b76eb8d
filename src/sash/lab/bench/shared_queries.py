"""Many queries over one join: windows of different lengths, and a filter each.

    q01   WINDOW 1 s                 a.v % 100 < 33
    q02   WINDOW 1.4 s               b.v % 100 < 61
    …
    q20   WINDOW 10 min              b.v % 100 < 90         the largest window: it keeps what it would keep for all

From one window to the next it is the same factor. What share of a stream a filter lets pass has nothing to do with the
window, except that the query with the largest window has the widest filter: otherwise it alone would keep less than the
others ask for, and there would be nothing to compare the shared state with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.lab.bench.join_texts import output_columns, select_list, sql_type
from sash.lab.workloads.join_streams import JoinWorkload
from sash.lab.workloads.law import require
from sash.runtime.job import QueryRun
from sash.runtime.script import bind_script

PARTS = 100
"""Filters are on the remainder of a row's number by this."""
LEAST_SHARE, WIDEST_SHARE = 5, 90
_STRIDE = 7


@dataclass(frozen=True, slots=True)
class SharedQueries:
    """The queries, and the streams that they are asked of."""

    workload: JoinWorkload
    """Its window is the largest."""
    n_queries: int = 20
    shortest_us: int = 1_000_000

    def __post_init__(self):
        require(self.n_queries >= 2, "queries", self.n_queries, "at least 2")
        longest_us = self.workload.window_us
        require(1 <= self.shortest_us <= longest_us, "shortest", self.shortest_us, f"1 to {longest_us} microseconds")

    @property
    def names(self) -> list[str]:
        """In order of their windows."""
        return [f"q{number + 1:0{len(str(self.n_queries))}}" for number in range(self.n_queries)]

    @property
    def largest(self) -> str:
        """The query with the largest window."""
        return self.names[-1]

    def window_us(self, name: str) -> int:
        factor = self.workload.window_us / self.shortest_us
        return round(self.shortest_us * factor ** (self.names.index(name) / (self.n_queries - 1)))

    def share(self, name: str) -> int:
        """How many percent of a stream's rows the filter lets pass."""
        number, last = self.names.index(name), self.n_queries - 1
        if number == last:
            return WIDEST_SHARE
        return LEAST_SHARE + number * _STRIDE % last * (WIDEST_SHARE - LEAST_SHARE) // last

    def text(self, name: str) -> str:
        """The query in Sash's SQL; filters are on `a` and `b` in turn."""
        filtered = self.workload.names[self.names.index(name) % 2]
        return (
            f"SELECT {select_list(self.workload)} FROM {', '.join(self.workload.names)} "
            f"WHERE {self.workload.keys_are_equal} AND {filtered}.v % {PARTS} < {self.share(name)} "
            f"WINDOW {self.window_us(name)} MICROSECONDS"
        )

    def columns(self) -> Mapping[str, pa.DataType]:
        """Of every answer."""
        return output_columns(self.workload)

    def script(self, files: Path) -> str:
        """Streams and queries, for `sash run`."""
        columns = ", ".join(f"{field.name} {sql_type(field.type)}" for field in self.workload.schema)
        streams = [
            f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts FROM '{_escape(files / name)}' FORMAT parquet;"
            for name in self.workload.names
        ]
        return "\n".join([*streams, *(f"CREATE QUERY {name} AS {self.text(name)};" for name in self.names)])

    def runs(self, files: Path) -> dict[str, QueryRun]:
        """The queries, planned each for itself, over these files."""
        return {run.name: run for run in bind_script(self.script(files.absolute())).runs()}


def _escape(path: Path) -> str:
    return str(path).replace("'", "''")
