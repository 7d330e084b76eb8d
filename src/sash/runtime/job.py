"""What is run, whichever engine runs it: queries that run together, where they read and write, and what they count."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.fs

from sash.errors import SourceError, mask_secrets
from sash.io.files import FileSource
from sash.io.ledger import Ledger
from sash.io.output_dir import CHANGES, REJECTS, OutputDir
from sash.io.sink import FileSink
from sash.io.timed import IDENTITY
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.runtime.arrival_tables import ArrivalSource


def new_identity() -> str:
    """Of a run, unlike that of any other."""
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class QueryRun:
    """A query of a job with its sources and its outputs."""

    name: str
    plan: QueryPlan
    streams: Mapping[str, FileSource]
    """Where its streams' files are; nothing where Spark brings the rows."""
    relations: Mapping[str, pa.Table]
    sink: FileSink
    is_strict: bool = False
    filesystem: pyarrow.fs.FileSystem | None = None
    """What files are read and written through; None: each path's own."""
    text: str = ""
    """As the user wrote it."""
    declarations: tuple[str, ...] = ()
    """Of what it reads, as the user wrote them."""
    identity: str = field(default_factory=new_identity)
    """Of this run; it is in the names of the files that the run writes, so that no other run writes the same."""
    is_kept: bool = True
    """Whether what is published stays; if not, it is handed on and removed."""
    arrivals: Mapping[str, ArrivalSource] = field(default_factory=dict[str, ArrivalSource])
    """The tables that it reads as of arrival."""

    @property
    def output(self) -> OutputDir:
        """The directories that it writes to."""
        return OutputDir(self.sink.path, self.sink.format, self.filesystem)

    def open_ledger(self, identity: str | None = None) -> Ledger:
        """What publishes its batches: from now on only this run may. Whether it may has been checked.

        `identity` is that of the output, if it was given one before.
        """
        output = self.output
        output.clear_staging()
        text, plan = mask_secrets(self.text), self.plan
        head = output.new_head(self.name, text, plan.fingerprint, plan.schema, identity)
        return Ledger(output, output.manifest(), head)

    def late_sink(self, stream: str) -> FileSink:
        """Where rows of a stream go that came too late, whole, with the file and line they stand in."""
        return self.output.sink(f"late/{stream}")

    def late_schema(self, stream: str) -> pa.Schema:
        """Of the rows in the late output."""
        return pa.schema([*self.plan.streams[stream].schema, *IDENTITY])

    @property
    def reject_sink(self) -> FileSink:
        """Where records go that could not be read."""
        return self.output.sink(REJECTS)


@dataclass(frozen=True, slots=True)
class Job:
    """Queries that run together: one alone, or those that share a join; with their sources and the outputs of each."""

    name: str
    plan: Plan
    members: tuple[QueryRun, ...]
    checkpoint: str
    """Where Spark keeps what it needs to go on after a restart: a query's own, or that of the join which is shared."""

    @classmethod
    def alone(cls, run: QueryRun) -> Job:
        """Of a query that shares nothing."""
        return cls(run.name, Plan.alone(run.plan, run.name), (run,), run.output.checkpoint)

    @property
    def streams(self) -> Mapping[str, FileSource]:
        return self.members[0].streams

    @property
    def relations(self) -> Mapping[str, pa.Table]:
        return {name: table for each in self.members for name, table in each.relations.items()}

    @property
    def arrivals(self) -> Mapping[str, ArrivalSource]:
        return {name: source for each in self.members for name, source in each.arrivals.items()}

    def without_arrivals(self) -> Job:
        """The same for workers, who ask no table for its version."""
        return replace(self, members=tuple(replace(each, arrivals={}) for each in self.members))

    @property
    def is_strict(self) -> bool:
        return any(each.is_strict for each in self.members)

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem | None:
        return self.members[0].filesystem

    @property
    def identity(self) -> str:
        return self.members[0].identity

    def places_of(self, kind: str, stream: str, query: str) -> list[tuple[QueryRun, str]]:
        """Who writes changes, late rows of a stream, and rejects, and to which place of its output: a query's changes
        go to its own, late rows and rejects are the business of all of them.
        """
        place = {"changes": CHANGES, "late": f"late/{stream}"}.get(kind, REJECTS)
        return [(each, place) for each in self.members if kind != "changes" or each.name == query]


@dataclass(slots=True)
class Tally:
    """What a run has counted so far: records read + held before = accepted + late + rejected + held."""

    n_read: int = 0
    n_late: int = 0
    n_rejected: int = 0
    n_held: int = 0
    """Of those read, how many wait for the next one, as they may be too far ahead."""
    n_held_before: int = 0
    """How many of an earlier run waited when this one began: they count here as well."""
    n_changes: int = 0
    n_batches: int = 0
    n_state_rows: int = 0
    n_state_bytes: int = 0
    clock_us: int | None = None
    partial_until_us: int | None = None
    """Until when answers may lack something, because the query was added late; None if they never did."""
    late_by_stream: dict[str, int] = field(default_factory=dict[str, int])
    n_index_hits: int = 0
    """How often a partition group was found as the batch before had left it."""
    n_index_rebuilds: int = 0
    """How often it was rebuilt from the state store instead."""
    n_evictions: int = 0
    """How often a group went from memory to disk."""
    kernel_ms: float = 0.0
    conversion_ms: float = 0.0
    state_ms: float = 0.0
    notes: list[str] = field(default_factory=list[str])
    """What a user should know of the rows that came."""
    operators: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """By operator: rows in and out and milliseconds so far; rows, blocks and bytes held now."""

    @property
    def n_accepted(self) -> int:
        return self.n_read + self.n_held_before - self.n_late - self.n_rejected - self.n_held

    def add_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Takes note of what all partition groups tell of themselves after a batch."""
        self.n_state_rows = sum(state["n_rows"] for state in states)
        self.n_state_bytes = sum(state["n_bytes"] for state in states)
        self.n_index_hits += sum(state["hits"] for state in states)
        self.n_index_rebuilds += sum(state["rebuilds"] for state in states)
        self.n_evictions += sum(state["evictions"] for state in states)
        self.kernel_ms += sum(state["kernel_ms"] for state in states)
        self.conversion_ms += sum(state["conversion_ms"] for state in states)
        self.state_ms += sum(state["state_ms"] for state in states)
        for name in sorted({name for state in states for name in state["operators"]}):
            told = [state["operators"][name] for state in states if name in state["operators"]]
            held = {key: sum(each[key] for each in told) for key in ("rows", "blocks", "bytes")}
            before = self.operators.get(name, {})
            done = {key: before.get(key, 0) + sum(each[key] for each in told) for key in ("rows_in", "rows_out", "ms")}
            self.operators[name] = done | held

    def add_late(self, stream: str, n_rows: int) -> None:
        self.n_late += n_rows
        if n_rows:
            self.late_by_stream[stream] = self.late_by_stream.get(stream, 0) + n_rows


Report: TypeAlias = Callable[[str, Tally], None]
"""Called with a query's name and its tally after every batch."""


def strict_error(reject: Mapping[str, Any]) -> SourceError:
    """The error that stops a strict run at its first reject."""
    return SourceError(
        f"{reject['file']}, line {reject['line']}: {reject['reason']}; correct the record, "
        "or run without --strict to put such records aside"
    )
