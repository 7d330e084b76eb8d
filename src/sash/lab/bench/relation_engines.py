"""Who joins a stream with a relation in `sash bench relation`, fed step by step: Sash by each method, and DuckDB."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import INL, MESH, PARTITIONED_HASH, PARTITIONED_RANGE
from sash.embedded.query import Query
from sash.frames import Relation, Stream, table_catalog
from sash.lab.bench.process_facts import MovedMeter
from sash.lab.workloads.key_choice import bmodel_keys
from sash.plan.planner import plan_query
from sash.runtime.memory_settings import set_memory
from sash.sql.bind import bind
from sash.sql.parse import parse_query

POSTGRES, BUILTIN, DUCKDB = "postgres", "builtin", "duckdb"
ENGINES = {
    PARTITIONED_HASH: "Sash, PartitionedJoin by hash",
    PARTITIONED_RANGE: "Sash, PartitionedJoin by range",
    MESH: "Sash, MESHJOIN",
    INL: "Sash, INL in a mapped file",
    POSTGRES: "INL by PostgreSQL, = ANY",
    BUILTIN: "Spark's stream–static join",
    DUCKDB: "DuckDB",
}
SASH = (PARTITIONED_HASH, PARTITIONED_RANGE, MESH, INL)
ANSWER = {"n": pa.int64(), "v": pa.int64()}
"""What engines must agree on."""
LEAST_DUCKDB_BYTES = 32 << 20
"""With less it refuses to work."""
ROW_BYTES = 128
"""Of a row of the relation, as in the thesis: two numbers, and a text."""
_TEXT_BYTES = ROW_BYTES - 20
TEXT = "SELECT /*+ {method} */ S.n, R.v, R.p FROM s S [RANGE 1 SECOND] JOIN r R ON S.k = R.k"


@dataclass(frozen=True, slots=True)
class RelationWorkload:
    """A relation of so many rows, each with a key of its own, and a stream whose keys are as unequal as `bias` says."""

    n_rows: int
    bias: float
    """By the b-model: of two halves of the keys, one gets this part of the tuples. 0.5: all alike."""
    step_rows: int
    n_steps: int
    seed: int = 1

    def relation(self) -> pa.Table:
        """In no order of keys, with texts that no engine makes much smaller."""
        rng = np.random.default_rng([self.seed, 1])
        keys, letters = rng.permutation(self.n_rows), rng.integers(97, 123, self.n_rows * _TEXT_BYTES, np.uint8)
        texts = pa.array(letters.view(f"S{_TEXT_BYTES}"), pa.binary()).cast(pa.string())
        return pa.table({"k": keys, "v": keys * 7 % 1_000_003, "p": texts})

    def steps(self) -> list[pa.Table]:
        """The stream, cut."""
        n_tuples = self.n_steps * self.step_rows
        keys = bmodel_keys([self.seed, 2], self.n_rows, n_tuples, self.bias)
        times = pa.array(np.arange(n_tuples) * 1000, pa.timestamp("us"))
        table = pa.table({"k": keys.astype(np.int64), "n": np.arange(n_tuples), "ts": times})
        return [table.slice(first, self.step_rows) for first in range(0, n_tuples, self.step_rows)]


class LookupEngine(Protocol):
    """Is given a step after the other."""

    def push(self, step: pa.Table) -> pa.Table:
        """The pairs of the step's tuples, with at least the columns of `ANSWER`."""
        ...

    def finish(self) -> pa.Table | None:
        """Pairs that are still missing."""
        ...

    def n_read(self) -> int | None:
        """Bytes that were read so far; None if nobody can tell."""
        ...

    def close(self) -> None: ...


class SashLookup:
    """A query of Sash's in this process, which a hint tells how to look up, under a limit on memory."""

    def __init__(self, method: str, workload: RelationWorkload, limit_bytes: int, directory: Path):
        steps = workload.steps()
        frames = {"s": Stream(steps[0].slice(0, 0), time="ts"), "r": Relation(workload.relation())}
        catalog, _, relations = table_catalog(frames)
        plan = plan_query(bind(parse_query(TEXT.format(method=method)), catalog))
        set_memory(limit_bytes, directory)
        try:
            self._query = Query(plan, relations)
        finally:
            set_memory(None, None)
        self._meter = None if method == INL else MovedMeter([os.getpid()])

    def push(self, step: pa.Table) -> pa.Table:
        """But for those of its last tuple, whose time is not over: they come with the next step."""
        return self._query.push("s", step)

    def finish(self) -> pa.Table | None:
        return self._query.finish()

    def n_read(self) -> int | None:
        """What is mapped is read by the system, which does not tell."""
        return None if self._meter is None else self._meter.look().n_read

    def close(self) -> None:
        pass


class DuckDbLookup:
    """DuckDB with one thread and so much memory, or as much as it needs at least; the relation is in its own file."""

    def __init__(self, workload: RelationWorkload, limit_bytes: int, directory: Path):
        memory_limit = f"{max(limit_bytes, LEAST_DUCKDB_BYTES) // 1024}KiB"
        config = {"threads": 1, "memory_limit": memory_limit, "temp_directory": str(directory / "tmp")}
        with duckdb.connect(directory / "r.duckdb") as writer:
            writer.register("given", workload.relation())
            writer.execute("CREATE TABLE r AS SELECT * FROM given")
        self._connection = duckdb.connect(directory / "r.duckdb", config=config)
        self._connection.execute("SET enable_progress_bar = false")
        self._meter = MovedMeter([os.getpid()])

    def push(self, step: pa.Table) -> pa.Table:
        self._connection.register("step", step)
        return self._connection.sql("SELECT s.n, r.v, r.p FROM step s JOIN r ON s.k = r.k").to_arrow_table()

    def finish(self) -> pa.Table | None:
        return None

    def n_read(self) -> int | None:
        return self._meter.look().n_read

    def close(self) -> None:
        self._connection.close()
