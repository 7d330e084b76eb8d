"""DuckDB over segments for `sash bench memory`: a join of streams by a database, as the yardstick for Sash.

    oldest  [ Parquet ][ Parquet ][ Parquet ]  head: Arrow tables  | step      of each stream
             dropped when all its rows have left                     meets all of the other's

A sixteenth of the limit is for the head of a stream. One that has no more room is written as a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from sash.lab.bench.join_texts import are_near
from sash.lab.workloads.join_streams import JoinWorkload


@dataclass(slots=True)
class _StreamParts:
    """The window of a stream: files with the time of their last row, the oldest first, and the head."""

    files: list[tuple[Path, int]] = field(default_factory=list)
    head: list[pa.Table] = field(default_factory=list)
    n_written: int = 0


class SegmentEngine:
    """DuckDB with one thread and so much memory, fed step by step."""

    def __init__(self, workload: JoinWorkload, limit_bytes: int, directory: Path):
        directory.mkdir(parents=True)
        self._workload, self._directory = workload, directory
        self._head_bytes = limit_bytes // 16
        self._parts = {name: _StreamParts() for name in workload.names}
        config = {"threads": 1, "memory_limit": f"{limit_bytes // 1024}KiB", "temp_directory": str(directory / "tmp")}
        self._connection = duckdb.connect(config=config)
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET enable_progress_bar = false")

    def fill(self, step: Mapping[str, pa.Table]) -> None:
        """Takes rows whose pairs nobody asks for."""
        for name, rows in step.items():
            parts = self._parts[name]
            parts.head.append(rows)
            if sum(table.nbytes for table in parts.head) > self._head_bytes:
                self._write_head(name, parts)

    def push(self, step: Mapping[str, pa.Table]) -> pa.Table:
        """The pairs that the rows of a step complete: with each other, and with the other stream's window."""
        self._drop_ended(min(_time_us(rows, 0) for rows in step.values()))
        for name, rows in step.items():
            self._connection.register(f"step_{name}", rows)
            head = self._parts[name].head
            self._connection.register(f"head_{name}", pa.concat_tables(head) if head else rows.schema.empty_table())
        found = [self._connection.sql(statement).to_arrow_table() for statement in self._statements()]
        self.fill(step)
        return pa.concat_tables(found)

    def finish(self) -> pa.Table:
        """Nothing is left: all was found at the end of its step."""
        self._connection.close()
        return pa.table({name: pa.array([], pa.int64()) for name in ("a_v", "b_v")})

    def _statements(self) -> list[str]:
        """Several, as one with all three joins needs the memory of all of them."""
        one, other = self._workload.names
        pairs = [("step_a", "step_b"), ("step_a", self._window(other)), (self._window(one), "step_b")]
        near = are_near(self._workload, "a.ts", "b.ts")
        return [
            f"SELECT a.v AS a_v, b.v AS b_v FROM {left} AS a JOIN {right} AS b ON a.k = b.k AND {near}"
            for left, right in pairs
        ]

    def _window(self, name: str) -> str:
        """What was there before this step."""
        listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path, _ in self._parts[name].files)
        sealed = f" UNION ALL SELECT k, v, ts FROM read_parquet([{listed}])" if listed else ""
        return f"(SELECT k, v, ts FROM head_{name}{sealed})"

    def _write_head(self, name: str, parts: _StreamParts) -> None:
        path, rows = self._directory / f"{name}-{parts.n_written}.parquet", pa.concat_tables(parts.head)
        self._connection.register("rows_to_write", rows)
        target = str(path).replace("'", "''")
        self._connection.execute(f"COPY rows_to_write TO '{target}' (FORMAT parquet, COMPRESSION uncompressed)")
        self._connection.unregister("rows_to_write")
        parts.files.append((path, _time_us(rows, -1)))
        parts.head.clear()
        parts.n_written += 1

    def _drop_ended(self, now_us: int) -> None:
        """Removes what no row that comes from now on can meet."""
        horizon = now_us - self._workload.window_us
        for parts in self._parts.values():
            while parts.files and parts.files[0][1] <= horizon:
                parts.files.pop(0)[0].unlink()
            parts.head = [rows for rows in parts.head if _time_us(rows, -1) > horizon]


def _time_us(rows: pa.Table, place: int) -> int:
    """Of one of these rows, which are in order of time."""
    return rows["ts"].cast(pa.int64())[place].as_py()
