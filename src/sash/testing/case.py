"""A query with its input, and ways to feed the one to the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from textwrap import indent
from typing import Any

import pyarrow as pa

from sash.api import query
from sash.embedded.query import Query
from sash.embedded.run_to_end import run_tables
from sash.frames import Relation, Stream, table_catalog
from sash.oracle.literals import draw, stream_of
from sash.oracle.reference import accept
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.sql import duck
from sash.sql.bind import bind
from sash.sql.bound_query import Block
from sash.sql.catalog import Catalog, RelationInfo, StreamInfo
from sash.sql.parse import parse_query


@dataclass(frozen=True, slots=True)
class Push:
    """Rows `start .. stop - 1` of a stream arrive."""

    stream: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Advance:
    """A stream, or all, is declared complete up to and including a time."""

    time_us: int
    stream: str | None = None


Step = Push | Advance


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A query and its frames; the rows of a stream are in order of arrival. Its repr is Python that makes it again.

    It runs as `sash.sql` and `sash.query` would, but the text is bound and planned only once.
    """

    text: str
    frames: Mapping[str, Stream | Relation]

    @cached_property
    def _contents(self) -> tuple[Catalog, dict[str, pa.Table], dict[str, pa.Table]]:
        return table_catalog(self.frames)

    @property
    def bound(self) -> Block:
        return prepare(self.text, tuple(self._contents[0].items()))[0]

    @property
    def plan(self) -> QueryPlan:
        return prepare(self.text, tuple(self._contents[0].items()))[1]

    @cached_property
    def arrivals(self) -> dict[str, pa.Table]:
        """All rows of the streams that the query reads, in order of arrival."""
        return {name: self._contents[1][name] for name in self.plan.streams}

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The rows that count: of relations all, of streams those that do not come too late."""
        catalog, _, relations = self._contents
        return {**accept(self.arrivals, catalog), **relations}

    def run(self, *hints: str) -> pa.Table:
        """The changes of the whole run, with hints if they are given."""
        plan = plan_query(replace(self.bound, hints=hints)) if hints else self.plan
        return run_tables(plan, self.arrivals, self.tables)[0]

    def start(self) -> Query:
        """The query before its first row."""
        return Query(self.plan, self.tables)

    def replay(self, steps: Iterable[Step], restart_after: Collection[int] = ()) -> tuple[pa.Table, Query]:
        """The changes when the rows come as the steps say, and the finished query.

        After the steps with the given numbers the query is taken down, and one made anew goes on from its snapshot.
        """
        running = self.start()
        changes = []
        for number, step in enumerate(steps):
            changes.append(self.take(running, step))
            if number in restart_after:
                snapshot, running = running.snapshot(), query(self.text, **self.frames)
                running.restore(snapshot)
        changes.append(running.finish())
        return pa.concat_tables(changes), running

    def take(self, running: Query, step: Step) -> pa.Table:
        """Lets one step happen to a running query; returns the changes that are due."""
        if isinstance(step, Advance):
            return running.advance(step.time_us, step.stream)
        return running.push(step.stream, self.arrivals[step.stream].slice(step.start, step.stop - step.start))

    def __repr__(self) -> str:
        frames = "".join(f"    {name!r}: {show_frame(frame)},\n" for name, frame in self.frames.items())
        return f"Case({self.text!r}, {{\n{frames}}})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis would print a dataclass by its fields."""
        printer.text(repr(self))


@lru_cache(maxsize=256)
def prepare(text: str, catalog: tuple[tuple[str, StreamInfo | RelationInfo], ...]) -> tuple[Block, QueryPlan]:
    """A text bound and planned. Kept, because a test runs the same query again and again while it varies or shrinks
    the rows.
    """
    bound = bind(parse_query(text), dict(catalog))
    return bound, plan_query(bound)


def show_frame(frame: Stream | Relation) -> str:
    """The Python that makes a frame again."""
    table = _show_table(frame.frame)
    if isinstance(frame, Relation):
        return f"sash.relation({table})"
    slack = "" if frame.slack_us is None else f', slack="{frame.slack_us} us"'
    tie = f", tie={frame.tie!r}" if frame.tie else ""
    return f"sash.stream({table}, time={frame.time!r}{slack}{tie})"


def _show_table(table: pa.Table) -> str:
    """The `stream_of` that makes the table, with the types that the cells alone would not tell."""
    text = draw(table)
    told = stream_of(text).schema
    with duck.connect() as connection:
        types = connection.from_arrow(table).types
    given = [f', {field.name}="{type}"' for field, type in zip(table.schema, types) if told.field(field.name) != field]
    return f"stream_of('''\n{indent(text, '        ')}\n    '''{''.join(given)})"
