"""What is known of a part of a query before it is built: what it reads, what it takes back, when it answers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sash.plan.logical import Body, Select, SetOperation, bodies_of, scans_of
from sash.sql.catalog import StreamInfo
from sash.sql.interval_graph import IntervalGraph
from sash.sql.window_graph import WindowGraph

N_BUILT = 3
"""How often NOT IN looks at its subquery: for an equal row, for a NULL, and for any row at all."""


def is_final(body: Body) -> bool:
    """Whether a query shows what is final alone, when its window is over."""
    return isinstance(body, Select) and any(scan.source.is_final for scan in scans_of(body.input))


def emits_once(body: Body) -> bool:
    """Whether a query shows each row once, when nothing can change it."""
    return isinstance(body, Select) and body.bound.emits_once


def graphs_of(body: Body) -> Iterator[WindowGraph | IntervalGraph]:
    for each in bodies_of(body):
        graph = (each.bound.window_graph or each.bound.interval_graph) if isinstance(each, Select) else None
        if graph is not None:
            yield graph


def streams_read(body: Body) -> Iterator[StreamInfo]:
    """The streams of a query, as often as they are read."""
    if isinstance(body, SetOperation):
        yield from streams_read(body.left)
        yield from streams_read(body.right)
        return
    for scan in scans_of(body.input):
        if scan.body is not None:
            yield from streams_read(scan.body)
        elif isinstance(scan.source.info, StreamInfo):
            yield scan.source.info
    for test in body.tests:
        for _ in range(N_BUILT if test.is_null_aware else 1):
            yield from streams_read(test.body)


def retracts(body: Body) -> bool:
    """Whether a part of a query takes rows back before they expire."""
    if isinstance(body, SetOperation):
        return body.bound.operation != "union" or retracts(body.left) or retracts(body.right)
    if body.is_grouped or body.tests or body.bound.chooses:
        return True
    return any(scan.takes_back or (scan.body is not None and retracts(scan.body)) for scan in scans_of(body.input))


def time_type(infos: list[StreamInfo]) -> pa.DataType:
    """Of `_ts`: integers if all streams tell time in integers, else a timestamp, with zone if any of them has one."""
    types = [info.schema.field(info.time).type for info in infos]
    if all(pa.types.is_integer(type) for type in types):
        return pa.int64()
    is_zoned = any(pa.types.is_timestamp(type) and type.tz is not None for type in types)
    return pa.timestamp("us", tz="UTC" if is_zoned else None)
