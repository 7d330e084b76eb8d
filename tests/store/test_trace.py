"""What happens to the tuples of a trace, and how often."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import EXPIRES, OP, TS
from sash.store.trace import MIN_STRUCK_OUT, Trace

SCHEMA = pa.schema([("k", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8())])


def tuples_of(keys: np.ndarray, ts: int, expires: np.ndarray, op: int) -> pa.Table:
    n_rows = len(keys)
    return pa.table([keys, np.full(n_rows, ts), expires, np.full(n_rows, op, np.int8)], schema=SCHEMA)


def keys_of(tuples: pa.Table) -> np.ndarray:
    return tuples.column("k").to_numpy()


def test_what_expired_before_others_are_struck_out_does_not_expire_again():
    """Half of the tuples are taken back, just after the first tenth of them has expired."""
    n_rows = 4 * MIN_STRUCK_OUT
    keys = np.arange(n_rows)
    expires = 100 + 100 * keys // n_rows
    trace = Trace(SCHEMA, 200, is_clocked=True)
    happened = [trace.step(tuples_of(keys, 1, expires, 1), keys, 1), trace.step(SCHEMA.empty_table(), keys[:0], 110)]
    back = keys[n_rows // 2 :]
    happened.append(trace.step(tuples_of(back, 111, expires[back], -1), back, 111))
    n_before = trace.log.n_rows
    trace.evict(111, keys_of)
    assert trace.log.n_rows < n_before - len(back)
    happened.append(trace.step(SCHEMA.empty_table(), keys[:0], 300))
    totals = np.zeros(n_rows, np.int64)
    for events in happened:
        np.add.at(totals, events.ids, events.signs)
    assert not totals.any()
