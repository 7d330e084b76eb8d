"""The physical plan: which operators run, on which columns, cut where. Everything in it can be sent to a worker."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sash.operators.ingest import IngestSpec
from sash.operators.pipeline import Node, Pipeline, in_order_of_time
from sash.plan.fragment import Fragment, Input
from sash.sql.bound_query import Source, StreamInfo
from sash.sql.window_graph import WindowGraph
from sash.store.batch import EXPIRES, ID_PREFIX, OP, TS

SIGNED = (TS, EXPIRES, OP)
ALGORITHMS = {"hash": "hash join", "whj": "windowed hash join", "wnl": "windowed nested loops"}
MULTIWAY_ALGORITHMS = {
    "nlw": "NLW-join",
    "hw": "HW-join",
    "mw": "MW-join",
    "gca": "global conservative approach",
    "lca": "local conservative approach",
    "ripple": "ripple join",
    "xjoin": "XJoin",
}
SCHEDULES = {"tpa": "Time Probing", "nta": "Negative Tuples", "hybrid": "Hybrid"}
SHARED_SCHEDULES = {
    "lwo": "Largest Window Only",
    "swf": "Smallest Window First",
    "mqt": "Maximum Query Throughput",
}
"""Of joins that queries share."""


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

    label: str
    """Its alias, made unique within the query."""
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
    schedule: str
    """How operators learn that tuples expire; one of `SCHEDULES`."""
    is_hinted: bool = False
    """Whether the schedule was asked for."""
    sharing: str | None = None
    """The schedule that was asked for if its join is shared; one of `SHARED_SCHEDULES`."""
    graphs: tuple[WindowGraph, ...] = field(default=(), repr=False)
    """The pair windows that the query was written with, for people: what runs has them in its operators."""

    @property
    def fingerprint(self) -> str:
        """Tells plans apart whose state differs: a checkpoint goes on only with the plan that it was made with."""
        slots = [(slot.source.name, slot.ingest, slot.partition, slot.info) for slot in self.slots]
        lookups = [(lookup.source.name, lookup.ingest) for lookup in self.lookups]
        return hashlib.sha256(repr((self.root, self.fragments, slots, lookups, self.outputs)).encode()).hexdigest()

    @property
    def edition(self) -> str:
        """Tells apart plans that run differently, whether their state differs or not."""
        return self.fingerprint

    @property
    def schema(self) -> pa.Schema:
        """Of the changes."""
        system = [(OP, pa.int8()), (TS, self.time_type), (EXPIRES, self.time_type)]
        return pa.schema([*self.outputs, *system])

    def pipeline(self, relations: Mapping[str, pa.Table], in_order: bool = False) -> Pipeline:
        """A fresh pipeline, its output in order of time if asked for; relations by name, as they were declared."""
        root = in_order_of_time(self.root) if in_order else self.root
        return Pipeline(root, {slot.number: slot.schema for slot in self.slots}, self.load(relations))

    def fragment_pipeline(self, number: int, relations: Mapping[str, pa.Table]) -> Pipeline:
        """A fresh pipeline of one fragment; relations by name, as they were declared."""
        return self.fragments[number].pipeline(self.load(relations))

    def reader(self, slot: int) -> tuple[Fragment, Input]:
        """The fragment that reads what comes in at a slot, and how it is spread there."""
        return next((fragment, input) for fragment in self.fragments if (input := fragment.input(slot)))

    def load(self, relations: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """What the plan needs of relations, by label; they are given by name, as they were declared."""
        return {lookup.label: lookup.load(relations[lookup.source.name]) for lookup in self.lookups}

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
        return list(dict.fromkeys(each.source.name for each in (*self.slots, *self.lookups)))
