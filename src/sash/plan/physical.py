"""The physical plan: which operators run, on which columns, cut where. Everything in it can be sent to a worker."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import PlanError
from sash.operators.count_window import CountWindowSpec
from sash.operators.expire import ExpireSpec
from sash.operators.ingest import IngestSpec
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.pipeline import ExchangeSpec, InputSpec, Node, Pipeline, RelationSpec, in_order_of_time
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.fragment import Fragment, Input, cut_fragments
from sash.plan.logical import Join, Query, Relational, Scan, scans_of
from sash.plan.partition import LEFT, RIGHT, choose_partitioning
from sash.sql.expressions import to_duckdb
from sash.sql.query import CountWindow, RelationInfo, SinceWindow, Source, StreamInfo, TimeWindow
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, OP, TS

SIGNED = (TS, EXPIRES, OP)
ALGORITHMS = {"whj": "windowed hash join", "wnl": "windowed nested loops"}


@dataclass(frozen=True, slots=True)
class Slot:
    """One appearance of a stream in FROM."""

    number: int
    source: Source
    ingest: IngestSpec
    partition: tuple[str, ...]
    """Columns whose hash says which partition group a tuple belongs to; empty: all belong to one."""

    @property
    def info(self) -> StreamInfo:
        assert isinstance(self.source.info, StreamInfo)
        return self.source.info

    @property
    def schema(self) -> pa.Schema:
        return self.ingest.schema(self.info.schema)


@dataclass(frozen=True, slots=True)
class Lookup:
    """One appearance of a relation in FROM, with what is kept of it."""

    source: Source
    ingest: IngestSpec
    is_numbered: bool
    """Whether its rows carry an identity."""

    def load(self, relation: pa.Table) -> pa.Table:
        """The part of the relation that the query needs."""
        rows = self.ingest.apply(relation, np.zeros(relation.num_rows, np.int64))
        if self.is_numbered:
            rows = rows.append_column(ID_PREFIX + self.source.alias, pa.array(np.arange(rows.num_rows)))
        return rows.drop_columns(list(SIGNED))


@dataclass(frozen=True, slots=True)
class Plan:
    """A query that is ready to run."""

    root: Node
    fragments: tuple[Fragment, ...]
    """The same cut at its exchanges, each after those that feed it; the last one puts out the answer."""
    slots: tuple[Slot, ...]
    lookups: tuple[Lookup, ...]
    outputs: tuple[tuple[str, pa.DataType], ...]
    time_type: pa.DataType
    is_ordered: bool
    """Whether operators rely on tuples in order of time, so that each waits for the clock."""
    emit_changes: bool

    @property
    def fingerprint(self) -> str:
        """Tells plans apart whose state differs: a checkpoint goes on only with the plan that it was made with."""
        slots = [(slot.source.name, slot.ingest, slot.partition, slot.info) for slot in self.slots]
        lookups = [(lookup.source.name, lookup.ingest) for lookup in self.lookups]
        return hashlib.sha256(repr((self.root, self.fragments, slots, lookups, self.outputs)).encode()).hexdigest()

    @property
    def schema(self) -> pa.Schema:
        """Of the changes."""
        system = [(OP, pa.int8()), (TS, self.time_type), (EXPIRES, self.time_type)]
        return pa.schema([*self.outputs, *system])

    def pipeline(self, relations: Mapping[str, pa.Table], in_order: bool = False) -> Pipeline:
        """A fresh pipeline, its output in order of time if asked for; relations by name, as they were declared."""
        root = in_order_of_time(self.root) if in_order else self.root
        return Pipeline(root, {slot.number: slot.schema for slot in self.slots}, self._load(relations))

    def fragment_pipeline(self, number: int, relations: Mapping[str, pa.Table]) -> Pipeline:
        """A fresh pipeline of one fragment; relations by name, as they were declared."""
        return self.fragments[number].pipeline(self._load(relations))

    def reader(self, slot: int) -> tuple[Fragment, Input]:
        """The fragment that reads what comes in at a slot, and how it is spread there."""
        return next((fragment, input) for fragment in self.fragments if (input := fragment.input(slot)))

    def _load(self, relations: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        return {lookup.source.alias: lookup.load(relations[lookup.source.name]) for lookup in self.lookups}

    def columns_read(self, stream: str) -> list[str]:
        """The columns of a stream that the query needs, in their declared order."""
        info = self.streams[stream]
        read = {info.time}
        for slot in self.slots:
            if slot.source.name == stream:
                read |= {name.removeprefix(f"{slot.source.alias}.") for name in slot.ingest.project.passed}
        return [name for name in info.schema.names if name in read]

    @property
    def streams(self) -> dict[str, StreamInfo]:
        """The streams that are read, by name."""
        return {slot.source.name: slot.info for slot in self.slots}


def physical_plan(query: Query) -> Plan:
    """Chooses the operators for a query that the rules have been through."""
    return _Planner(query).plan()


class _Planner:
    """Builds the node tree bottom up."""

    def __init__(self, query: Query):
        self.query = query
        self.algorithm = _hinted_algorithm(query)
        scans = scans_of(query.input)
        self.streams = [scan for scan in scans if scan.source.is_stream]
        self.relations = [scan for scan in scans if not scan.source.is_stream]
        self.is_ordered = any(scan.counts_rows for scan in self.streams)
        self.partitioning = choose_partitioning(query.input)
        self.n_exchanges = 0

    def plan(self) -> Plan:
        query = self.query
        root = self._emit(self._relational(query.input))
        slots = tuple(self._slot(number, scan) for number, scan in enumerate(self.streams))
        lookups = tuple(self._lookup(scan) for scan in self.relations)
        return Plan(
            root=root,
            fragments=self._fragments(root, slots, lookups),
            slots=slots,
            lookups=lookups,
            outputs=tuple((output.name, output.type) for output in query.outputs),
            time_type=_time_type([scan.source.info for scan in self.streams]),
            is_ordered=self.is_ordered,
            emit_changes=query.emit_changes,
        )

    def _slot(self, number: int, scan: Scan) -> Slot:
        return Slot(number, scan.source, self._ingest(scan), self.partitioning.streams[scan.source.alias])

    def _lookup(self, scan: Scan) -> Lookup:
        return Lookup(scan.source, self._ingest(scan), self.is_ordered or not scan.columns)

    def _fragments(self, root: Node, slots: tuple[Slot, ...], lookups: tuple[Lookup, ...]) -> tuple[Fragment, ...]:
        streams = tuple(Input(slot.number, slot.partition, slot.schema) for slot in slots)
        empty = {lookup.source.alias: lookup.load(lookup.source.info.schema.empty_table()) for lookup in lookups}
        return cut_fragments(root, streams, empty)

    def _ingest(self, scan: Scan) -> IngestSpec:
        """A count window sees every row: its filter and computed columns come after it."""
        source = scan.source
        alias, window = source.alias, source.window
        passed = (*SIGNED, *(f"{alias}.{name}" for name in scan.columns))
        project = ProjectSpec((), passed) if scan.counts_rows else _project(scan, passed)
        life_us = window.length_us if isinstance(window, TimeWindow) else None
        since_us = window.since_us if isinstance(window, SinceWindow) else BEGINNING
        return IngestSpec(alias, project, life_us, since_us)

    def _relational(self, node: Relational) -> Node:
        return self._scan(node) if isinstance(node, Scan) else self._join(node)

    def _scan(self, scan: Scan) -> Node:
        leaf = Node(InputSpec(self.streams.index(scan)))
        window = scan.source.window
        alias = scan.source.alias
        if self.is_ordered and not scan.counts_rows:
            leaf = Node(ReorderSpec(is_total=False, id_column=ID_PREFIX + alias), (leaf,))
        if not isinstance(window, CountWindow):
            return leaf
        tie = tuple(f"{alias}.{name}" for name in scan.source.info.tie)  # type: ignore[union-attr]
        leaf = Node(ReorderSpec(is_total=True, tie=tie), (leaf,))
        by = tuple(f"{alias}.{name}" for name in window.partition_by)
        node = Node(CountWindowSpec(window.n_rows, by, ID_PREFIX + alias), (leaf,))
        if not scan.conjuncts and not scan.computed:
            return node
        passed = (*SIGNED, ID_PREFIX + alias, *(f"{alias}.{name}" for name in scan.columns))
        return Node(_project(scan, passed), (node,))

    def _join(self, join: Join) -> Node:
        left = self._relational(join.left)
        if join.computed:
            computed = tuple((name, to_duckdb(expr)) for name, expr in join.computed)
            left = Node(ProjectSpec(computed, tuple(self._columns(join.left))), (left,))
        residual = _conjunction(join.conjuncts)
        if not join.right.source.is_stream:
            return Node(LookupJoinSpec(join.keys, residual), (left, Node(RelationSpec(join.right.source.alias))))
        algorithm = self.algorithm or ("whj" if join.keys else "wnl")
        if algorithm == "whj" and not join.keys:
            raise PlanError(
                f"the hint `whj` needs an equality between `{join.right.source.alias}` and the streams before it; "
                "add one, or leave the hint out",
                self.query.bound.text,
                join.right.source.span,
            )
        lives = life_us(join.left), life_us(join.right)
        inputs = self._exchange(left, join, LEFT), self._exchange(self._scan(join.right), join, RIGHT)
        return Node(WindowJoinSpec(algorithm, join.keys, residual, lives), inputs)

    def _exchange(self, node: Node, join: Join, side: int) -> Node:
        """An input of a join, behind an exchange if the plan is cut there. Slots count on from those of the streams."""
        partition = self.partitioning.exchanges.get((join.right.source.alias, side))
        if partition is None:
            return node
        self.n_exchanges += 1
        return Node(ExchangeSpec(len(self.streams) + self.n_exchanges - 1, partition), (node,))

    def _columns(self, node: Relational) -> list[str]:
        """The columns that a subtree's tuples have."""
        names: list[str] = list(SIGNED)
        for scan in scans_of(node):
            alias = scan.source.alias
            names += [f"{alias}.{name}" for name in scan.columns] + [name for name, _ in scan.computed]
            if self.is_ordered:
                names.append(ID_PREFIX + alias)
        while isinstance(node, Join):
            names += [name for name, _ in node.computed]
            node = node.left
        return names

    def _emit(self, node: Node) -> Node:
        """Where tuples can be taken back, every member of an answer must be told from its equals: identities stay."""
        ids = tuple(ID_PREFIX + scan.source.alias for scan in scans_of(self.query.input) if self.is_ordered)
        columns = tuple((output.name, to_duckdb(output.expr)) for output in self.query.outputs)
        node = Node(ProjectSpec(columns, (*SIGNED, *ids)), (node,))
        if not self.query.emit_changes:
            return node
        return Node(ExpireSpec(life_us(self.query.input)), (node,))


def life_us(node: Relational) -> int | None:
    """The longest life of a subtree's tuples; None if time does not bound it."""
    lives = [scan.source.window.length_us for scan in scans_of(node) if isinstance(scan.source.window, TimeWindow)]
    return min(lives, default=None)


def _project(scan: Scan, passed: tuple[str, ...]) -> ProjectSpec:
    computed = tuple((name, to_duckdb(expr)) for name, expr in scan.computed)
    return ProjectSpec(computed, passed, _conjunction(scan.conjuncts))


def _conjunction(conjuncts) -> str | None:
    return " AND ".join(f"({to_duckdb(conjunct)})" for conjunct in conjuncts) or None


def _hinted_algorithm(query: Query) -> str | None:
    known = [hint for hint in query.bound.hints if hint in ALGORITHMS]
    for hint in query.bound.hints:
        if hint not in ALGORITHMS:
            choices = ", ".join(f"`{name}` ({meaning})" for name, meaning in ALGORITHMS.items())
            raise PlanError(
                f"the hint `{hint}` is not known; there is {choices}", query.bound.text, query.bound.spans["hint"]
            )
    return known[-1] if known else None


def _time_type(infos: list[StreamInfo | RelationInfo]) -> pa.DataType:
    """Of `_ts`: integers if all streams tell time in integers, else a timestamp, with zone if any of them has one."""
    types = [info.schema.field(info.time).type for info in infos if isinstance(info, StreamInfo)]
    if all(pa.types.is_integer(type) for type in types):
        return pa.int64()
    is_zoned = any(pa.types.is_timestamp(type) and type.tz is not None for type in types)
    return pa.timestamp("us", tz="UTC" if is_zoned else None)
