"""Relations that are far larger than the memory for them, and streams that look up in them."""

from __future__ import annotations

from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa

ROW_BYTES = 20
"""Of a row of the relation: two numbers, and a text of a few letters, at least."""


def large_relation(n_bytes: int, rng: np.random.Generator) -> pa.Table:
    """So many bytes at least, with keys that several rows have, and some that are NULL."""
    n_rows = n_bytes // ROW_BYTES
    keys = pa.array(rng.integers(0, n_rows // 2, n_rows), mask=rng.random(n_rows) < 0.02)
    texts = pa.array([f"t{number}" for number in range(97)]).take(pa.array(rng.integers(0, 97, n_rows)))
    return pa.table({"k": keys, "v": np.arange(n_rows), "t": texts})


def stream_into(relation: pa.Table, n_rows: int, is_skewed: bool, rng: np.random.Generator) -> pa.Table:
    """Keys of which some are hot, or all alike; some are NULL, and some are not in the relation."""
    n_keys = relation.num_rows // 2
    drawn = rng.zipf(1.3, n_rows) % n_keys if is_skewed else rng.integers(-5, n_keys + 5, n_rows)
    keys = pa.array(drawn.astype(np.int64), mask=rng.random(n_rows) < 0.05)
    return pa.table({"k": keys, "n": np.arange(n_rows), "ts": pa.array(np.arange(n_rows) * 1000, pa.timestamp("us"))})


def joined(stream: pa.Table, relation: pa.Table) -> list[tuple]:
    """What DuckDB makes of them, in order."""
    text = "SELECT s.n, r.v, r.t FROM stream s JOIN relation r ON s.k = r.k ORDER BY ALL"
    return _connected(stream=stream, relation=relation).execute(text).fetchall()


def _connected(**tables: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    return connection


def cut(table: pa.Table, rng: np.random.Generator) -> list[pa.Table]:
    """Somewhere into batches."""
    places = np.sort(rng.integers(0, table.num_rows + 1, rng.integers(1, 4)))
    bounds = [0, *places.tolist(), table.num_rows]
    return [table.slice(low, high - low) for low, high in pairwise(bounds)]
