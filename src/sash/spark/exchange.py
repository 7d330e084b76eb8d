"""What travels through Spark: rows packed per partition group, and the messages that speak about them.

The JVM never sees a row, only messages:

    kind       from          to            says
    rows       packing       a group       tuples of a stream's slot, as an Arrow stream
    tuples     a group       a group       tuples that a fragment has put out, for a slot of a later one
    arrival    packing       all           a file (or micro-batch) of a stream was read: oldest, newest time, counts
    complete   the driver    all groups    no row up to and including a time is still to come
    clocks     group 0       all groups    how far the streams are, where the set of queries has changed
    late       both          the output    rows of a stream that came too late
    rejects    packing       the output    records that could not be read
    changes    a group       the output    changes of the answer
    reread     group 0       the output    a file holds late rows that its reader could not know of: fetch them
    state      a group       the output    how many rows and bytes it holds, and its clock

Each is addressed to a fragment (`stage`) and one of its groups (`grp`), or to the output. Fragments run one after the
other in every batch. All that packing sends enters the first; what is meant for a later one passes through those before
it unread. Arrivals and completions are sent to the groups of the first fragment, and group 0 of each passes them on
to all groups of the next: so all groups of all fragments have the same clock in the same batch.

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

from sash.plan.physical import Plan
from sash.store.codec import decode_table, encode_table
from sash.store.keys import hash_rows

OUTPUT = -1
"""Stands for a fragment where a message is meant for what comes after the last one."""
DRIVER = -2
"""Stands for a fragment where a message tells the driver what has become of another one."""
MESSAGE_SCHEMA = pa.schema(
    [
        ("stage", pa.int32()),
        ("grp", pa.int32()),
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("slot", pa.int32()),
        ("origin", pa.string()),
        ("n_rows", pa.int64()),
        ("payload", pa.binary()),
        ("query", pa.string()),
    ]
)
MESSAGE_DDL = (
    "stage int, grp int, kind string, stream string, slot int, origin string, n_rows long, payload binary, query string"
)
ROWS_PER_MESSAGE = 1 << 18


class Message(NamedTuple):
    """One row of the exchange."""

    stage: int
    grp: int
    kind: str
    stream: str
    slot: int
    origin: str
    n_rows: int
    payload: bytes | pa.Table
    """A table is packed when it leaves the process."""
    query: str = ""
    """Whose changes these are."""

    @property
    def table(self) -> pa.Table:
        return decode_table(self.payload) if isinstance(self.payload, bytes) else self.payload

    @property
    def facts(self) -> dict[str, Any]:
        assert isinstance(self.payload, bytes)
        return json.loads(self.payload)

    def packed(self) -> Message:
        """The message as it travels."""
        return self if isinstance(self.payload, bytes) else self._replace(payload=encode_table(self.payload))


def message(
    kind: str,
    payload: pa.Table | dict[str, Any],
    grp: int = 0,
    stream: str = "",
    slot: int = -1,
    origin: str = "",
    stage: int = OUTPUT,
    query: str = "",
) -> Message:
    """A message about a table or about a few facts."""
    if isinstance(payload, dict):
        return Message(stage, grp, kind, stream, slot, origin, 0, json.dumps(payload).encode(), query)
    return Message(stage, grp, kind, stream, slot, origin, payload.num_rows, payload, query)


def to_record_batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as Spark wants them, one by one, so that no more than one is in memory twice."""
    for each in messages:
        yield pa.RecordBatch.from_pylist([each.packed()._asdict()], schema=MESSAGE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs the rows of one stream for all its slots and all groups, of which a partitioned fragment has `n_groups`."""

    plan: Plan
    stream: str
    n_groups: int

    def rows(self, rows: pa.Table, ts: np.ndarray, origin: str) -> Iterator[Message]:
        """The rows as tuples of each slot, split by group."""
        for slot in self.plan.slots:
            if slot.source.name == self.stream:
                fragment, _ = self.plan.reader(slot.number)
                tuples, n_groups = slot.ingest.apply(rows, ts), fragment.spread_at(slot.number, self.n_groups)
                for group, part in split_by_group(tuples, slot.input.partition, n_groups):
                    yield message("rows", part, group, self.stream, slot.number, origin, fragment.number)

    def arrival(self, origin: str, facts: dict[str, Any]) -> Iterator[Message]:
        """Every group hears of every arrival, so that all groups have the same clock."""
        yield from to_all_groups(message("arrival", facts, stream=self.stream, origin=origin), self.plan, self.n_groups)


def to_all_groups(each: Message, plan: Plan, n_groups: int, stage: int = 0) -> Iterator[Message]:
    """The message for every group of a fragment."""
    for group in range(plan.fragments[stage].count_groups(n_groups)):
        yield each._replace(stage=stage, grp=group)


def split_by_group(tuples: pa.Table, partition: tuple[str, ...], n_groups: int) -> Iterator[tuple[int, pa.Table]]:
    """The tuples of each group that has any, in their order."""
    if not tuples.num_rows:
        return
    if n_groups == 1:
        yield 0, tuples
        return
    hashes = hash_rows([tuples.column(name).combine_chunks() for name in partition])
    groups = (hashes % np.uint64(n_groups)).astype(np.int64)
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(n_groups + 1))
    tuples = tuples.take(pa.array(order))
    for group in range(n_groups):
        low, high = int(bounds[group]), int(bounds[group + 1])
        if high > low:
            yield group, tuples.slice(low, high - low).combine_chunks()
