"""What is known of a part of a query before it is built: what it reads, what it takes back, when it answers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sash.plan.logical import Body, Select, SetOperation, bodies_of, scans_of
from sash.sql.catalog import StreamInfo
from sash.sql.interval_graph import IntervalGraph
from sash.sql.window_graph import WindowGraph


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
