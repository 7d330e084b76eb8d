"""What is known of the tuples that a part of a plan puts out: how fast they come, and how many keys they have.

    declared    RATE and DISTINCT of CREATE STREAM, `rate` and `distinct` of `sash.stream`
    observed    of a table given whole: its rows over its span of time, the keys of `SAMPLE_ROWS` of its rows
    derived     through the operators above; filters are taken to keep all, unless a table was there to observe

Nothing here changes an answer. What nobody knows is None, and what depends on it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from math import prod

import pyarrow as pa
import pyarrow.compute as pc

from sash.cost.join_cost import JoinLoad, total_work
from sash.cost.multiway_cost import MultiwayLoad
from sash.errors import SashError
from sash.operators.changes import read_times
from sash.operators.close import CloseSpec
from sash.operators.expire import ExpireSpec
from sash.operators.ingest import IngestSpec
from sash.operators.join_keys import count_keys, without_null_keys
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.slide import SlideSpec
from sash.operators.union import UnionSpec
from sash.operators.window_join import WindowJoinSpec
from sash.sql.catalog import StreamInfo
from sash.store.keys import encode_keys, is_hashable

ROWS_PER_STEP = 1 << 17
"""Where tables are given whole, so many rows of a stream are worked on at once."""
SAMPLE_ROWS = 1 << 16
"""So many rows of a table are looked at, at most, however long it is: some milliseconds."""
_QUOTED = re.compile(r'"((?:[^"]|"")+)"')

CountValues = Callable[[tuple[str, ...]], float | None]
"""How many different values some columns have together."""


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """Of the tuples that a node puts out."""

    rate: float | None
    """Tuples per second of event time."""
    count: CountValues
    step_s: float = 0.0
    """How many seconds of stream come at once; 0 if it is as few as can be."""


UNKNOWN = FlowStatistics(None, lambda columns: None)


class StreamKnowledge:
    """What is known of one appearance of a stream in FROM; a table is looked at when something is asked for first."""

    def __init__(self, info: StreamInfo, ingest: IngestSpec, frame: pa.Table | None):
        self._info = info
        self._ingest = ingest
        self._frame = frame if frame is not None and frame.num_rows > 1 else None

    @property
    def rate(self) -> float | None:
        """Of the rows that pass the filter."""
        rate = self._info.statistics.rate or self._observed_rate
        if rate is None or self._sample is None:
            return rate
        tuples, n_rows = self._sample
        return rate * tuples.num_rows / n_rows or None

    @property
    def step_s(self) -> float:
        """Tables come in slices of `ROWS_PER_STEP`."""
        rate = self._observed_rate
        return 0.0 if self._frame is None or rate is None else min(self._frame.num_rows, ROWS_PER_STEP) / rate

    @property
    def step_rows(self) -> float | None:
        """How many rows come at once, before any filter; where only a rate is declared, those of a second."""
        if self._frame is not None:
            return min(self._frame.num_rows, ROWS_PER_STEP)
        return self._info.statistics.rate

    def count(self, columns: tuple[str, ...]) -> float | None:
        declared = self._declared()
        if all(column in declared for column in columns):
            return prod(declared[column] for column in columns)
        if self._sample is None or not all(map(self._is_key, columns)):
            return None
        return count_keys(encode_keys(without_null_keys(self._sample[0], columns), columns))

    def _is_key(self, column: str) -> bool:
        schema = self._sample[0].schema if self._sample else pa.schema([])
        return column in schema.names and is_hashable(schema.field(column).type)

    def _declared(self) -> dict[str, float]:
        """The columns with a declared number of values, and those computed from such columns alone."""
        counts = {f"{self._ingest.alias}.{name}": float(n_values) for name, n_values in self._info.statistics.distinct}
        return counts | _count_computed(self._ingest.project, counts)

    @cached_property
    def _observed_rate(self) -> float | None:
        if self._frame is None:
            return None
        time = self._frame.column(self._info.time)
        ends = pc.min_max(time)
        oldest_us, newest_us = read_times(pa.chunked_array([pa.array([ends["min"], ends["max"]], time.type)]))
        span_us = int(newest_us) - int(oldest_us)
        return (self._frame.num_rows - 1) / span_us * 1e6 if span_us else None

    @cached_property
    def _sample(self) -> tuple[pa.Table, int] | None:
        """Tuples from the middle of the table, and how many rows they were before the filter."""
        if self._frame is None:
            return None
        rows = self._frame.slice(max(0, (self._frame.num_rows - SAMPLE_ROWS) // 2), SAMPLE_ROWS)
        try:
            return self._ingest.apply(rows, read_times(rows.column(self._info.time))), rows.num_rows
        except SashError:
            return None  # a value that the query cannot compute with is an error when it runs, not when it is planned


class Statistics:
    """Statistics of the nodes of a plan in the making."""

    def __init__(self, streams: Sequence[StreamKnowledge]):
        self._streams = streams
        """By slot; may grow after this was made."""
        self._known: dict[Node, FlowStatistics] = {}

    def of(self, node: Node) -> FlowStatistics:
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def _find(self, node: Node) -> FlowStatistics:
        if isinstance(node.spec, InputSpec):
            stream = self._streams[node.spec.slot]
            return FlowStatistics(stream.rate, stream.count, stream.step_s)
        return _derive(node.spec, [self.of(child) for child in node.inputs if _is_flow(child)])

    def step_rows(self, node: Node) -> float | None:
        """How many tuples of streams come at once below a node; None if nobody knows."""
        slots = [each.spec.slot for each in node.walk() if isinstance(each.spec, InputSpec)]
        known = [rows for slot in slots if (rows := self._streams[slot].step_rows) is not None]
        return max(known, default=None)

    def step_s(self, inputs: tuple[Node, Node]) -> float:
        """How many seconds of stream a step of a join brings: as much as its slower input takes."""
        return max(self.of(node).step_s for node in inputs)

    def load(
        self, inputs: tuple[Node, Node], keys: Sequence[tuple[str, str]], windows_us: tuple[int | None, int | None]
    ) -> JoinLoad | None:
        """What a join of two nodes has to do; None if something of it is not known."""
        left, right = map(self.of, inputs)
        return _load(left, right, keys, windows_us)

    def multiway_load(
        self, inputs: Sequence[Node], keys: Sequence[Sequence[tuple[str, ...]]], shape: MultiwayLoad
    ) -> MultiwayLoad | None:
        """What a join of many nodes has to do, of a shape; None if something of it is not known."""
        flows = [self.of(node) for node in inputs]
        rates = [flow.rate for flow in flows]
        matches = [_match(flows, key) for key in keys]
        if None in rates or None in matches:
            return None
        return replace(
            shape,
            rates=tuple(rate or 0.0 for rate in rates),
            matches=tuple(match or 0.0 for match in matches),
            step_s=max(flow.step_s for flow in flows),
        )

    def fanouts(
        self, inputs: Sequence[Node], keys: Sequence[Sequence[tuple[str, ...]]], lives_us: Sequence[int | None]
    ) -> tuple[tuple[float | None, ...], ...]:
        """How many tuples of each other input one of an input meets, in a join of many; None where it is not known."""
        flows = [self.of(node) for node in inputs]
        return tuple(
            tuple(
                None if one == other else _fanout((flows[one], flows[other]), [(key[one], key[other]) for key in keys],
                                                  lives_us[other])
                for other in range(len(flows))
            )
            for one in range(len(flows))
        )  # fmt: skip


def _match(flows: Sequence[FlowStatistics], key: Sequence[tuple[str, ...]]) -> float | None:
    """How often two tuples have an equal key: the input with the most of them decides."""
    counts = [flow.count(tuple(dict.fromkeys(names))) for flow, names in zip(flows, key, strict=True) if names]
    known = [count for count in counts if count is not None]
    return 1 / max(1.0, *known) if known else None


def _fanout(
    flows: tuple[FlowStatistics, FlowStatistics],
    keys: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    life_us: int | None,
) -> float | None:
    shared = [pair for own, others in keys if own and others for pair in zip(own, others)]
    n_distinct, rate = _count_join_keys(*flows, shared), flows[1].rate
    return None if n_distinct is None or rate is None or life_us is None else rate * life_us / 1e6 / n_distinct


def _load(
    left: FlowStatistics,
    right: FlowStatistics,
    keys: Sequence[tuple[str, str]],
    windows_us: tuple[int | None, int | None],
) -> JoinLoad | None:
    n_distinct = _count_join_keys(left, right, keys)
    if left.rate is None or right.rate is None or n_distinct is None or None in windows_us:
        return None
    windows_s = (windows_us[0] or 0) / 1e6, (windows_us[1] or 0) / 1e6
    return JoinLoad((left.rate, right.rate), windows_s, n_distinct)


def _is_flow(node: Node) -> bool:
    return isinstance(node.spec, InputSpec) or bool(node.inputs)


def _count_join_keys(left: FlowStatistics, right: FlowStatistics, keys: Sequence[tuple[str, str]]) -> float | None:
    """The side with more different keys decides how seldom two are equal."""
    if not keys:
        return 1.0
    counts = [side.count(tuple(dict.fromkeys(names))) for side, names in zip((left, right), zip(*keys))]
    known = [count for count in counts if count is not None]
    return max(known) if known else None


@singledispatch
def _derive(spec: object, inputs: list[FlowStatistics]) -> FlowStatistics:
    """Of an operator's output. Of groups, DISTINCT, set operations, tests and windows of rows nothing is known."""
    return UNKNOWN


@_derive.register
def _(
    spec: SlideSpec | CloseSpec | ReorderSpec | ExchangeSpec | ExpireSpec | LookupJoinSpec, inputs: list[FlowStatistics]
) -> FlowStatistics:
    """A row is taken to meet one of a relation."""
    return inputs[0]


@_derive.register
def _(spec: ProjectSpec, inputs: list[FlowStatistics]) -> FlowStatistics:
    below = inputs[0]
    sources = {name: _names_in(sql) for name, sql in spec.columns}

    def count(columns: tuple[str, ...]) -> float | None:
        return below.count(tuple(dict.fromkeys(each for name in columns for each in sources.get(name, (name,)))))

    return FlowStatistics(below.rate, count, below.step_s)


@_derive.register
def _(spec: WindowJoinSpec, inputs: list[FlowStatistics]) -> FlowStatistics:
    left, right = inputs
    load = _load(left, right, spec.keys, spec.windows_us)
    rate = None if load is None else total_work(spec.method, load).outputs

    def count(columns: tuple[str, ...]) -> float | None:
        counts = [left.count((column,)) or right.count((column,)) for column in columns]
        return None if None in counts else prod(count or 1.0 for count in counts)

    return FlowStatistics(rate, count, max(left.step_s, right.step_s))


@_derive.register
def _(spec: MultiwayJoinSpec, inputs: list[FlowStatistics]) -> FlowStatistics:
    """Each tuple of an input meets as many of every other as is expected of it."""
    rates = (
        [_combinations(each.rate, spec.fanouts[number]) for number, each in enumerate(inputs)] if spec.fanouts else []
    )

    def count(columns: tuple[str, ...]) -> float | None:
        counts = [next((n for each in inputs if (n := each.count((column,)))), None) for column in columns]
        return None if None in counts else prod(count or 1.0 for count in counts)

    rate = None if None in rates or not rates else sum(rate or 0.0 for rate in rates) / len(rates)
    return FlowStatistics(rate, count, max(each.step_s for each in inputs))


def _combinations(rate: float | None, fanouts: Sequence[float | None]) -> float | None:
    known = [fanout for fanout in fanouts if fanout is not None]
    return None if rate is None or len(known) < len(fanouts) - 1 else rate * prod(known)


@_derive.register
def _(spec: UnionSpec, inputs: list[FlowStatistics]) -> FlowStatistics:
    rates = [each.rate for each in inputs]

    def count(columns: tuple[str, ...]) -> float | None:
        counts = [each.count(columns) for each in inputs]
        return None if None in counts else max(count or 1.0 for count in counts)

    return FlowStatistics(
        None if None in rates else sum(rate or 0.0 for rate in rates),
        count,
        max(each.step_s for each in inputs),
    )


def _names_in(sql: str) -> tuple[str, ...]:
    """The columns that an expression reads."""
    return tuple(dict.fromkeys(name.replace('""', '"') for name in _QUOTED.findall(sql)))


def _count_computed(project: ProjectSpec, counts: Mapping[str, float]) -> dict[str, float]:
    """An expression has at most as many values as the columns it reads have together."""
    found: dict[str, float] = {}
    for name, sql in project.columns:
        names = _names_in(sql)
        if names and all(each in counts for each in names):
            found[name] = prod(counts[each] for each in names)
    return found
