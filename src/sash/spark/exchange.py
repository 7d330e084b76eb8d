"""What travels through Spark: rows packed per partition group, and the messages that speak about them.

The JVM never sees a row, only messages:

    kind       from          says
    rows       packing       tuples of a slot for one group, as an Arrow stream
    arrival    packing       a file (or micro-batch) of a stream has been read: its oldest and newest timestamp, counts
    late       both          rows of a stream that came too late
    rejects    packing       records that could not be read
    complete   the driver    no row up to and including a time is still to come
    changes    a group       changes of the answer
    reread     group 0       a file holds late rows that its reader could not know of: fetch them
    state      a group       how many rows and bytes it holds, and its clock

`origin` orders arrivals within a stream. Files are ordered by modification time and name. The rows of a micro-batch of
a user's frame have no order, so they share one origin and are measured against earlier micro-batches only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.operators.keys import hash_rows
from sash.plan.physical import Plan, Slot
from sash.store.batch import TS, int64_column
from sash.store.block_log import decode_table, encode_table

MESSAGE_SCHEMA = pa.schema(
    [
        ("grp", pa.int32()),
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("slot", pa.int32()),
        ("origin", pa.string()),
        ("n_rows", pa.int64()),
        ("payload", pa.binary()),
    ]
)
MESSAGE_DDL = "grp int, kind string, stream string, slot int, origin string, n_rows long, payload binary"
ROWS_PER_MESSAGE = 1 << 18


class Message(NamedTuple):
    """One row of the exchange."""

    grp: int
    kind: str
    stream: str
    slot: int
    origin: str
    n_rows: int
    payload: bytes

    @property
    def table(self) -> pa.Table:
        return decode_table(self.payload)

    @property
    def facts(self) -> dict[str, Any]:
        return json.loads(self.payload)


def message(
    kind: str, payload: pa.Table | dict[str, Any], grp: int = 0, stream: str = "", slot: int = -1, origin: str = ""
) -> Message:
    """A message about a table or about a few facts."""
    if isinstance(payload, dict):
        return Message(grp, kind, stream, slot, origin, 0, json.dumps(payload).encode())
    return Message(grp, kind, stream, slot, origin, payload.num_rows, encode_table(payload))


def to_record_batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as Spark wants them, one by one, so that no more than one is in memory twice."""
    for each in messages:
        yield pa.RecordBatch.from_pylist([each._asdict()], schema=MESSAGE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs the rows of one stream for all its slots and all groups."""

    plan: Plan
    stream: str
    n_groups: int

    def rows(self, rows: pa.Table, ts: np.ndarray, origin: str) -> Iterator[Message]:
        """The rows as tuples of each slot, split by group."""
        for slot in self.plan.slots:
            if slot.source.name == self.stream:
                tuples = slot.ingest.apply(rows, ts)
                for group, part in split_by_group(tuples, slot, self.n_groups):
                    yield message("rows", part, group, self.stream, slot.number, origin)

    def arrival(self, origin: str, facts: dict[str, Any]) -> Iterator[Message]:
        """Every group hears of every arrival, so that all groups have the same clock."""
        for group in range(self.n_groups):
            yield message("arrival", facts, group, self.stream, origin=origin)


def split_by_group(tuples: pa.Table, slot: Slot, n_groups: int) -> Iterator[tuple[int, pa.Table]]:
    """The tuples of each group that has any, in their order."""
    if not tuples.num_rows:
        return
    if n_groups == 1 or not slot.partition:
        yield 0, tuples
        return
    hashes = hash_rows([tuples.column(name).combine_chunks() for name in slot.partition])
    groups = (hashes % np.uint64(n_groups)).astype(np.int64)
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(n_groups + 1))
    tuples = tuples.take(pa.array(order))
    for group in range(n_groups):
        low, high = int(bounds[group]), int(bounds[group + 1])
        if high > low:
            yield group, tuples.slice(low, high - low).combine_chunks()


def in_time(tuples: pa.Table, threshold: int) -> np.ndarray:
    """Which tuples are not older than the threshold."""
    return int64_column(tuples, TS) >= threshold
