"""Tables as bytes: an Arrow stream, less the columns that follow from another one.

    _ts         _expires           A.ts                 _op
    t           t + 30 seconds     t, as a timestamp    1        a window's tuples

Of these only `_ts` is written; the schema's metadata says how the others follow from it. So nearly half of what is
shuffled and checkpointed for a narrow stream is never written.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.store.batch import TS

FOLLOWS = b"sash.follows"

Rule: TypeAlias = tuple[str | None, int]
"""The column that another one follows from, and by how much it is ahead of it; without a column, the one value."""


def encode_table(table: pa.Table) -> bytes:
    """A table as bytes."""
    rules = _find_rules(table)
    metadata = {
        "schema": table.schema.serialize().to_pybytes().hex(),
        "n_rows": table.num_rows,
        "rules": rules,
    }
    kept = table.drop_columns(list(rules))
    if rules:
        kept = kept.replace_schema_metadata({FOLLOWS: json.dumps(metadata).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, kept.schema) as writer:
        writer.write_table(kept)
    return sink.getvalue().to_pybytes()


def decode_table(data: bytes) -> pa.Table:
    """The table that `encode_table` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        kept = reader.read_all()
    known = (kept.schema.metadata or {}).get(FOLLOWS)
    if known is None:
        return kept
    metadata = json.loads(known)
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(metadata["schema"])))
    columns = [
        _derive(field.type, metadata["rules"][field.name], kept, metadata["n_rows"])
        if field.name in metadata["rules"]
        else kept.column(field.name)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _find_rules(table: pa.Table) -> dict[str, Rule]:
    if TS not in table.column_names or not table.num_rows:
        return {}
    ts = _integers(table.column(TS))
    if ts is None:
        return {}  # changes from before the first tuple have no time
    rules: dict[str, Rule] = {}
    for name in table.column_names:
        values = _integers(table.column(name)) if name != TS else None
        if values is None:
            continue
        if np.all(values == values[0]):
            rules[name] = None, int(values[0])
        elif values.dtype == np.int64:
            with np.errstate(over="ignore"):
                ahead = values - ts
            if np.all(ahead == ahead[0]):
                rules[name] = TS, int(ahead[0])
    return rules


def _integers(column: pa.ChunkedArray) -> np.ndarray | None:
    """The values as integers, if they are integers or times in 64 bits, none is NULL, and they lie in one chunk."""
    is_time = pa.types.is_timestamp(column.type)
    is_whole = pa.types.is_int64(column.type) or pa.types.is_int8(column.type)
    if column.null_count or column.num_chunks != 1 or not (is_time or is_whole):
        return None
    array = column.chunk(0)
    return (array.view(pa.int64()) if is_time else array).to_numpy()


def _derive(type: pa.DataType, rule: Rule, kept: pa.Table, n_rows: int) -> pa.ChunkedArray:
    source, ahead = rule
    if source is None:
        width = np.int8 if pa.types.is_int8(type) else np.int64
        return pa.chunked_array([pa.array(np.full(n_rows, ahead, width)).view(type)])
    with np.errstate(over="ignore"):
        values = kept.column(source).to_numpy() + np.int64(ahead)
    return pa.chunked_array([pa.array(values).view(type)])
