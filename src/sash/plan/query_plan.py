"""The plan of one query: which operators run, on which columns. Everything in it can be sent to a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.operators.ingest import IngestSpec
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.node import Node, in_order_of_time
from sash.operators.operator_kinds import RelationSpec
from sash.operators.operator_tree import OperatorTree
from sash.operators.relation_parts import RelationParts
from sash.operators.segmented_lookup import SegmentedRelation
from sash.plan.fragment import BranchPlan, Input, cut_branches
from sash.plan.identity import identify
from sash.sql.catalog import RelationInfo, Source, StreamInfo, tables_of
from sash.sql.interval_graph import IntervalGraph
from sash.sql.table_queries import answer_table_query
from sash.sql.window_graph import WindowGraph
from sash.store.batch import EXPIRES, ID_PREFIX, OP, SEEN_ID, TS, content_order
from sash.store.changes_reading import ChangesReading

SIGNED = (TS, EXPIRES, OP)
ALGORITHMS = {
    "hash": "hash join",
    "whj": "windowed hash join",
    "wnl": "windowed nested loops",
    "ewj": "Exact Window Join",
    "rpwj": "Rate-based Progressive Window Join",
    "ahewj": "Adaptive Hash-partitioned Exact Window Join",
}
MULTIWAY_ALGORITHMS = {
    "nlw": "NLW-join",
    "hw": "HW-join",
    "mw": "MW-join",
    "gca": "global conservative approach",
    "lca": "local conservative approach",
    "ripple": "ripple join",
    "xjoin": "XJoin",
    "probe": "probes, stream by stream",
}
LOOKUP_METHODS = {
    "replicated": "a relation in memory",
    "partitioned_hash": "a relation in a file, by hash",
    "partitioned_range": "a relation in a file, by range",
    "mesh": "MESHJOIN",
    "inl": "indexed nested loops",
}
"""How tuples of streams look up in a relation."""
EXPIRY_SCHEDULES = {"tpa": "Time Probing", "nta": "Negative Tuples", "hybrid": "Hybrid"}
SERVING_ORDERS = {
    "lwo": "Largest Window Only",
    "swf": "Smallest Window First",
    "mqt": "Maximum Query Throughput",
}
"""In which order a join that queries share serves them."""
Place: TypeAlias = Callable[[LookupJoinSpec, RelationParts], pa.Table | SegmentedRelation]
"""Decides where a relation is that a join looks up in."""
PART_BYTES = 8 << 20
"""A relation that is larger is looked at in parts of about so much."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One appearance of a stream in FROM."""

    number: int
    source: Source
    ingest: IngestSpec
    partition: tuple[str, ...]
    """Columns whose hash says which partition group a tuple belongs to; empty: all belong to one."""
    is_free: bool = field(default=False, repr=False)
    """Whether no operator relies on how its tuples are spread, so that they may be spread otherwise."""
    spread: tuple[str, ...] | None = field(default=None, repr=False)
    """Columns that are taken instead where it runs. No state depends on it, so the plan stays the same."""

    @property
    def info(self) -> StreamInfo:
        assert isinstance(self.source.info, StreamInfo)
        return self.source.info

    @property
    def schema(self) -> pa.Schema:
        return self.ingest.schema(self.info.schema)

    @property
    def input(self) -> Input:
        return Input(self.number, self.partition if self.spread is None else self.spread, self.schema)


@dataclass(frozen=True, slots=True)
class Lookup:
    """One appearance of a relation in FROM, with what is kept of it."""

    label: str
    """Its alias, made unique within the query."""
    source: Source
    ingest: IngestSpec
    is_numbered: bool
    """Whether its rows carry an identity."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that it is made of: itself, or what its rows are the answer of."""
        return tuple(dict.fromkeys(table.name for table in tables_of(self.source)))

    def rows_of(self, relations: Mapping[str, pa.Table]) -> pa.Table:
        """Its rows as they are declared, of relations by name. What is read as of arrival may not be there yet."""
        info = self.source.info
        assert isinstance(info, RelationInfo)
        if self.source.is_arrival and self.source.name not in relations:
            return info.schema.empty_table()
        return relations[self.source.name] if info.query is None else answer_table_query(info, relations)

    def keep(self, relation: pa.Table) -> pa.Table:
        """The part of the relation that the query needs. Identities follow from what rows hold, not from their order:
        whoever goes on after a restart may be given them in another one.
        """
        relation = relation.replace_schema_metadata()  # what is said there of its version is no part of the rows
        for name in self.source.hidden:
            if name not in relation.column_names:  # all batches see all of it
                relation = relation.append_column(name, pa.nulls(relation.num_rows, pa.int64()))
        rows = self._ingest_for(relation).apply(relation, np.zeros(relation.num_rows, np.int64))
        if self.is_numbered and SEEN_ID in relation.column_names:
            names = [ID_PREFIX + self.source.alias if name == self._seen_id else name for name in rows.column_names]
            rows = rows.rename_columns(names)
        elif self.is_numbered:
            rows = rows.take(pa.array(content_order(rows, [])))
            rows = rows.append_column(ID_PREFIX + self.source.alias, pa.array(np.arange(rows.num_rows)))
        return rows.drop_columns(list(SIGNED))

    def parts(self, relation: pa.Table) -> RelationParts:
        """The same, part by part if it is large. Identities are of all rows together."""
        has_numbers = SEEN_ID in relation.column_names
        if (self.is_numbered and not has_numbers) or relation.nbytes <= PART_BYTES:
            return RelationParts.of(self.keep(relation))
        n_rows = max(1, PART_BYTES * relation.num_rows // relation.nbytes)
        firsts = range(0, relation.num_rows, n_rows)
        schema = self.keep(relation.slice(0, 0)).schema
        return RelationParts(
            schema, lambda: (self.keep(relation.slice(first, n_rows)) for first in firsts), n_bytes=relation.nbytes
        )

    def _ingest_for(self, relation: pa.Table) -> IngestSpec:
        """Where rows have numbers already, these are their identities: they stay while other rows come and go."""
        if not self.is_numbered or SEEN_ID not in relation.column_names:
            return self.ingest
        project = self.ingest.project
        return replace(self.ingest, project=replace(project, passed=(*project.passed, self._seen_id)))

    @property
    def _seen_id(self) -> str:
        return f"{self.source.alias}.{SEEN_ID}"


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query that is ready to run, alone or with others."""

    root: Node
    slots: tuple[Slot, ...]
    lookups: tuple[Lookup, ...]
    outputs: tuple[tuple[str, pa.DataType], ...]
    time_type: pa.DataType
    is_ordered: bool
    """Whether operators rely on tuples in order of time, so that each waits for the clock."""
    emit_changes: bool
    expiry_schedule: str
    """How operators learn that tuples expire; one of `EXPIRY_SCHEDULES`."""
    is_expiry_hinted: bool = False
    """Whether that was asked for."""
    serving_order: str | None = None
    """What was asked for if its join is shared; one of `SERVING_ORDERS`."""
    graphs: tuple[WindowGraph | IntervalGraph, ...] = field(default=(), repr=False)
    """The pair windows and intervals that the query was written with, for people: operators have them already."""

    may_grow: bool = False
    """Whether its state may have no bound, as was asked for (WITH UNBOUNDED STATE)."""
    emits_once: bool = False
    """Whether each row comes once, when nothing can change it, and stays (EMIT FINAL)."""
    replaced_by: tuple[str, ...] | None = None
    """The outputs that tell which older row of the answer a row replaces; None: rows are counted."""

    @property
    def fingerprint(self) -> str:
        """Tells plans apart whose state differs: a checkpoint goes on only with the plan that it was made with."""
        streams = [(slot.source.name, slot.ingest, slot.partition, slot.info) for slot in self.slots]
        relations = [(*_asked(lookup), lookup.ingest) for lookup in self.lookups]
        return identify(operators=self.root, streams=streams, relations=relations, outputs=self.outputs)

    @property
    def schema(self) -> pa.Schema:
        """Of the changes; it tells how they are to be read."""
        system = [(OP, pa.int8()), (TS, self.time_type), (EXPIRES, self.time_type)]
        return pa.schema([*self.outputs, *system], ChangesReading(self.replaced_by).metadata)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """How its streams come in."""
        return tuple(slot.input for slot in self.slots)

    def tree(self, relations: Mapping[str, pa.Table], place: Place | None = None) -> OperatorTree:
        """Fresh operators for all of it, their output in order of time; relations by name, as they were declared."""
        schemas = {input.slot: input.schema for input in self.inputs}
        return OperatorTree(in_order_of_time(self.root), schemas, self.load(relations, place))

    def cut(self, query: str, root: Node, inputs: tuple[Input, ...]) -> tuple[BranchPlan, ...]:
        """The branches of its tree, or of one that was made from it, which reads these inputs."""
        empty = {each.label: each.keep(each.source.info.schema.empty_table()) for each in self.lookups}
        return cut_branches(query, root, inputs, empty)

    def load(
        self,
        relations: Mapping[str, pa.Table],
        place: Place | None = None,
        prepared: Mapping[str, SegmentedRelation] | None = None,
    ) -> dict[str, pa.Table | SegmentedRelation]:
        """What the plan needs of relations, by label; they are given by name, as they were declared. Without `place`
        they are in memory, but for those that have been `prepared`, by label.
        """
        found: dict[str, pa.Table | SegmentedRelation] = dict(prepared or {})
        joins = {relation.alias: join for join, relation in self.lookup_joins()}
        for lookup in (each for each in self.lookups if each.label not in found):
            parts = lookup.parts(lookup.rows_of(relations))
            if place is None or (lookup.source.is_arrival and lookup.source.name not in relations):
                found[lookup.label] = parts.whole()
            else:
                found[lookup.label] = place(joins[lookup.label], parts)
        return found

    def load_arrived(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The same of the relations that are read as of arrival, whose rows say which batches see them."""
        arrived = [lookup for lookup in self.lookups if lookup.source.is_arrival]
        return {lookup.label: lookup.keep(tables[lookup.source.name]) for lookup in arrived}

    def lookup_joins(self) -> Iterator[tuple[LookupJoinSpec, RelationSpec]]:
        """The joins that look up in relations, each with the one that it looks up in."""
        for node in self.root.walk():
            if isinstance(node.spec, LookupJoinSpec):
                yield from ((node.spec, each.spec) for each in node.inputs if isinstance(each.spec, RelationSpec))

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

    @property
    def reads(self) -> list[str]:
        """The names of the streams and relations that are read, each once."""
        names = [slot.source.name for slot in self.slots] + [name for each in self.lookups for name in each.tables]
        return list(dict.fromkeys(names))


def _asked(lookup: Lookup) -> tuple[str, ...]:
    """What a relation is: its name, or what its rows are the answer of."""
    info = lookup.source.info
    query = info.query if isinstance(info, RelationInfo) else None
    return (lookup.source.name,) if query is None else (query.sql, *lookup.tables)
