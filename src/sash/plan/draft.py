"""A plan in the making: the streams and relations that it reads, and steps that any part of it may need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sash.operators.calendar_buckets import CalendarBuckets
from sash.operators.close import CloseSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.evaluator import quote
from sash.operators.expire import ExpireSpec
from sash.operators.ingest import IngestSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.project import IS_ENTERING, ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.sessions import SessionsSpec
from sash.operators.slide import SlideSpec
from sash.operators.time_buckets import TimeBuckets
from sash.plan.distribution import own_partition
from sash.plan.flow import Distribution, Flow, distributed_by
from sash.plan.logical import Scan
from sash.plan.query_plan import SIGNED, Lookup, Slot
from sash.plan.statistics import Statistics, StreamKnowledge
from sash.sql.catalog import Source, StreamInfo, window_time_type
from sash.sql.expressions import to_column, to_duckdb
from sash.sql.window_kinds import (
    WINDOW_COLUMNS,
    CalendarWindow,
    HopWindow,
    RowsWindow,
    SessionWindow,
    SinceWindow,
    TimeWindow,
)
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, NEVER, OP, TS
from sash.store.keys import is_hashable


class Draft:
    """What parts of a plan share while it is built."""

    def __init__(self, schedule: str, is_ordered: bool, frames: Mapping[str, pa.Table]):
        self.schedule = schedule
        self.is_ordered = is_ordered
        """Whether operators rely on tuples in order of time."""
        self.lookups: list[Lookup] = []
        self._scans: list[Scan] = []
        self._partitions: dict[int, tuple[str, ...]] = {}
        self._n_exchanges = 0
        self._frames = frames
        self._known: list[StreamKnowledge] = []
        self.statistics = Statistics(self._known)

    def slots(self) -> tuple[Slot, ...]:
        """The streams that are read, spread as it was asked for."""
        return tuple(
            Slot(
                number,
                scan.source,
                ingest_spec(scan),
                self._partitions.get(number, own_partition(scan)),
                is_free=number not in self._partitions and not scan.is_of_all_rows,
            )
            for number, scan in enumerate(self._scans)
        )

    def stream(self, scan: Scan, with_ids: bool, tells: bool) -> Flow:
        """A stream of FROM: its rows as tuples, in order if the plan relies on it, filtered; with a negative for what
        expires if the schedule wants it and whoever reads them (`tells`).
        """
        number, alias, window = len(self._scans), scan.source.alias, scan.source.window
        self._scans.append(scan)
        assert isinstance(scan.source.info, StreamInfo)
        self._known.append(StreamKnowledge(scan.source.info, ingest_spec(scan), self._frames.get(scan.source.name)))
        id_column = ID_PREFIX + alias
        node = Node(InputSpec(number))
        if isinstance(window, RowsWindow):
            node, with_ids = _count_window(scan, node, id_column), True
        elif isinstance(window, SessionWindow):
            with_ids = with_ids or scan.takes_back
            node = _sessions(scan, node, id_column if with_ids else None)
        elif self.is_ordered:
            if isinstance(window, TimeWindow) and window.slide_us:
                node = Node(SlideSpec(window.slide_us), (node,))
            elif scan.source.is_final:
                node = Node(CloseSpec(), (node,))
            node = Node(ReorderSpec(is_total=False, id_column=id_column if with_ids else None), (node,))
        ids = (id_column,) if with_ids else ()
        columns = (*(f"{alias}.{name}" for name in scan.columns), *(name for name, _ in scan.computed))
        flow = Flow(node, columns, ids, _life_us(scan), False, scan.takes_back, self._free(number, scan, columns))
        if scan.is_of_all_rows and (scan.conjuncts or scan.computed):
            flow = flow.then(_project(scan, (*SIGNED, *ids, *columns[: len(scan.columns)])))
        return self.expire(flow) if self.schedule == "nta" and tells else flow

    def lookup(self, scan: Scan, with_ids: bool) -> tuple[Lookup, tuple[str, ...], tuple[str, ...]]:
        """A relation of FROM, with the columns and the identities of its rows."""
        alias, taken = scan.source.alias, [lookup.label for lookup in self.lookups]
        label = alias if alias not in taken else f"{alias}#{len(taken)}"
        is_numbered = with_ids or not scan.columns
        lookup = Lookup(label, scan.source, ingest_spec(scan), is_numbered)
        self.lookups.append(lookup)
        columns = (*(f"{alias}.{name}" for name in scan.columns), *(name for name, _ in scan.computed))
        return lookup, columns, (ID_PREFIX + alias,) if is_numbered else ()

    def project(self, flow: Flow, items: Sequence[tuple[str, str]], predicate: str | None = None) -> Flow:
        """Columns computed of a flow, by name and SQL; identities stay."""
        plain = {quote(name): name for name in flow.columns}
        names: dict[str, list[str]] = {}
        for name, sql in items:
            if sql in plain:
                names.setdefault(plain[sql], []).append(name)
        spec = ProjectSpec(tuple(items), (*SIGNED, *flow.ids), predicate)
        return flow.then(spec, columns=tuple(name for name, _ in items), distribution=flow.distribution.renamed(names))

    def compute(self, flow: Flow, computed: Iterable[tuple[str, exp.Expr]]) -> Flow:
        """The flow with further columns."""
        items = [(name, to_column(expr)) for name, expr in computed]
        return self.project(flow, [*((name, quote(name)) for name in flow.columns), *items]) if items else flow

    def keep(self, flow: Flow, conjuncts: Sequence[exp.Expr]) -> Flow:
        """The tuples that satisfy all conditions."""
        if not conjuncts:
            return flow
        return self.project(flow, [(name, quote(name)) for name in flow.columns], conjunction(conjuncts))

    def expire(self, flow: Flow) -> Flow:
        """The flow with a negative tuple for everything that expires: W-EXPIRE stands here."""
        if flow.expires_by_negatives or flow.life_us is None:
            return replace(flow, expires_by_negatives=True)
        return flow.then(ExpireSpec(flow.life_us), expires_by_negatives=True)

    def finish(self, flow: Flow) -> Flow:
        """What a flow puts out, for ever: of rows that are final, the first word is the last."""
        spec = ProjectSpec(((EXPIRES, f"CAST({NEVER} AS BIGINT)"),), (OP, TS, *flow.columns), IS_ENTERING)
        return flow.then(spec, ids=(), life_us=None, retracts=False)

    def agree(self, left: Flow, right: Flow) -> tuple[Flow, Flow]:
        """Two inputs of one operator tell expirations in the same way."""
        expiring = [flow for flow in (left, right) if flow.life_us is not None]
        if any(flow.expires_by_negatives for flow in expiring):
            return self.expire(left), self.expire(right)
        return left, right

    def gather(self, flow: Flow, columns: Sequence[str]) -> Flow:
        """The flow such that tuples that agree in the columns are in one group."""
        if flow.distribution.co_locates(columns) and (columns or flow.distribution.classes == ()):
            return replace(flow, distribution=flow.distribution.fixed())
        return self.distribute(flow, columns)

    def distribute(self, flow: Flow, columns: Sequence[str]) -> Flow:
        """The flow such that a tuple is in the group that the hash of the columns says; in the only one without."""
        distribution = flow.distribution
        if distribution.slot is not None and all(name in (distribution.origins or {}) for name in columns):
            self._partitions[distribution.slot] = tuple((distribution.origins or {})[name] for name in columns)
            return replace(flow, distribution=distributed_by(columns))
        if distribution.is_hash_of(columns):
            return flow
        self._n_exchanges += 1
        exchange = ExchangeSpec(self._n_exchanges, tuple(columns))
        return flow.then(exchange, distribution=distributed_by(columns))

    def meet(self, left: Flow, left_keys: Sequence[str], right: Flow, right_keys: Sequence[str]) -> tuple[Flow, Flow]:
        """Two flows such that tuples with equal keys are in one group, and that tell expirations in the same way."""
        left, right = self.agree(left, right)
        classes = left.distribution.classes
        if classes and left.distribution.co_locates(left_keys):
            chosen = [next(idx for idx, name in enumerate(left_keys) if name in each) for each in classes]
            left = replace(left, distribution=left.distribution.fixed())
            return left, self.distribute(right, [right_keys[idx] for idx in chosen])
        return self.distribute(left, left_keys), self.distribute(right, right_keys)

    def settle(self, flow: Flow) -> Flow:
        """A flow whose stream is spread in one way or another, and stays so."""
        return replace(flow, distribution=flow.distribution.fixed())

    def _free(self, number: int, scan: Scan, columns: tuple[str, ...]) -> Distribution:
        window = scan.source.window
        if isinstance(window, RowsWindow | SessionWindow):
            by = own_partition(scan)
            return replace(distributed_by(by), slot=number, origins={name: name for name in by})
        alias, schema = scan.source.alias, scan.source.schema
        unhashable = {f"{alias}.{field.name}" for field in schema if not is_hashable(field.type)}
        unhashable |= {f"{alias}.{name}" for name in scan.source.hidden}
        return Distribution(None, number, {name: name for name in columns if name not in unhashable})


def conjunction(conjuncts: Iterable[exp.Expr]) -> str | None:
    return " AND ".join(f"({to_duckdb(conjunct)})" for conjunct in conjuncts) or None


def ingest_spec(scan: Scan) -> IngestSpec:
    """A window that goes by all rows sees every row: its filter and computed columns come after it, and so do the
    columns that it adds."""
    source = scan.source
    alias, window = source.alias, source.window
    passed = (*SIGNED, *(f"{alias}.{name}" for name in scan.columns))
    if scan.is_of_all_rows:
        added = [f"{alias}.{name}" for name in WINDOW_COLUMNS] if isinstance(window, SessionWindow) else []
        project = ProjectSpec((), tuple(name for name in passed if name not in added))
    else:
        project = _project(scan, passed)
    life_us = window.length_us if isinstance(window, TimeWindow | HopWindow) else None
    life_us = window.longest_us if isinstance(window, CalendarWindow) else life_us
    since_us = window.since_us if isinstance(window, SinceWindow) else BEGINNING
    return IngestSpec(alias, project, life_us, since_us, _buckets(source))


def _buckets(source: Source) -> TimeBuckets | CalendarBuckets | None:
    window, info = source.window, source.info
    if not isinstance(info, StreamInfo):
        return None
    if isinstance(window, CalendarWindow):
        return CalendarBuckets(window.unit, window.count, window.zone, WINDOW_COLUMNS, window_time_type(info))
    if not isinstance(window, HopWindow):
        return None
    return TimeBuckets(window.length_us, window.hop_us, window.offset_us, WINDOW_COLUMNS, window_time_type(info))


def _project(scan: Scan, passed: tuple[str, ...]) -> ProjectSpec:
    computed = tuple((name, to_column(expr)) for name, expr in scan.computed)
    return ProjectSpec(computed, passed, conjunction(scan.conjuncts))


def _count_window(scan: Scan, leaf: Node, id_column: str) -> Node:
    window, info, alias = scan.source.window, scan.source.info, scan.source.alias
    assert isinstance(window, RowsWindow)
    assert isinstance(info, StreamInfo)
    tie = tuple(f"{alias}.{name}" for name in info.tie)
    by = tuple(f"{alias}.{name}" for name in window.partition_by)
    return Node(CountWindowSpec(window.n_rows, by, id_column), (Node(ReorderSpec(is_total=True, tie=tie), (leaf,)),))


def _sessions(scan: Scan, leaf: Node, id_column: str | None) -> Node:
    window, info, alias = scan.source.window, scan.source.info, scan.source.alias
    assert isinstance(window, SessionWindow)
    assert isinstance(info, StreamInfo)
    start, end = (f"{alias}.{name}" if name in scan.columns else None for name in WINDOW_COLUMNS)
    by = tuple(f"{alias}.{name}" for name in window.partition_by)
    type_, is_final = window_time_type(info), window.is_final
    spec = SessionsSpec(window.gap_us, by, start, end, type_, id_column, is_final, scan.ends_above)
    return Node(spec, (Node(ReorderSpec(is_total=False), (leaf,)),))


def _life_us(scan: Scan) -> int | None:
    """The longest life of a tuple; with a slide it may begin late and end late."""
    window = scan.source.window
    if isinstance(window, SessionWindow):
        has_versions = WINDOW_COLUMNS[1] in scan.columns and not scan.ends_above
        return 1 if window.is_final else window.gap_us if has_versions else None
    if isinstance(window, HopWindow):
        return 1 if window.is_final else window.length_us
    if isinstance(window, CalendarWindow):
        return 1 if window.is_final else window.longest_us
    if not isinstance(window, TimeWindow):
        return None
    slide_us = window.slide_us or 1
    return -(-window.length_us // slide_us) * slide_us
