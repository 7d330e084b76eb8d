"""Whether a query's changes amount to its answer: a run over recorded input, next to DuckDB on the rows in the windows.

    sash.verify(text, trades=trades, quotes=quotes)     agrees at 100 of 2,412 instants: …

At each instant that is looked at, DuckDB runs the plain query over the rows that are in their windows then. The oracle
is that of `sash.testing`, and knows nothing of how the query was planned and run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from sash.embedded.row_notes import REJECTED, rejections
from sash.embedded.run_to_end import run_tables
from sash.errors import BindError, PlanError, suggest
from sash.frames import is_spark, table_catalog
from sash.io.files import FileSource, list_files
from sash.io.timed import read_stream_file
from sash.oracle.literals import draw
from sash.oracle.plain_sql import RelationalQuery
from sash.oracle.reference import accept
from sash.oracle.row_keys import value_of
from sash.oracle.snapshot_law import Comparison, Step
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.runtime.callers import short_tracebacks
from sash.runtime.script import Script
from sash.sql.bind import bind
from sash.sql.bound_query import Output
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.parse import parse_query
from sash.sql.parsed import ParsedQuery

N_INSTANTS = 100
_MAX_ROWS = 10
_MAX_DIFFERENCES = 10

Report: TypeAlias = Callable[[str, int, int], None]
"""Called with a query's name, the number of instants that have been compared, and that of all that will be."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An instant at which the changes do not amount to the answer. Times are those of the streams."""

    instant_us: int
    instant: str
    rows: pa.Table
    """Up to ten rows of each kind: `_is` says `missing` or `extra`, `_times` how often, before the query's columns."""


@dataclass(frozen=True)
class Verification:
    """What was compared, and where it differs. True if it does not."""

    n_instants: int
    """At how many instants the answer was compared,"""
    n_interesting: int
    """of how many at which it may change, or right before or after."""
    n_read: int
    """Rows of streams that were read,"""
    n_late: int
    """of which so many came too late."""
    n_changes: int
    n_rows: int
    """Rows of the answer, at all these instants together."""
    n_differing: int
    differences: tuple[Difference, ...]
    """The first instants that differ, at most ten."""
    notes: tuple[str, ...] = ()
    """What else should be known of the rows, in sentences."""

    def __bool__(self) -> bool:
        return not self.n_differing

    @property
    def summary(self) -> str:
        """All of it in a sentence, but for the rows that differ."""
        late = f", {self.n_late:,} of them late" if self.n_late else ""
        facts = f"{self.n_read:,} rows read{late}, {self.n_changes:,} changes, {self.n_rows:,} rows of answers compared"
        if not self.differences:
            return f"agrees at {self.n_instants:,} of {self.n_interesting:,} instants; {facts}"
        differs = f"differs at {self.n_differing:,} of {self.n_instants:,} instants ({self.n_interesting:,} in all)"
        return f"{differs}; {facts}; first at {self.differences[0].instant}:"

    def facts(self) -> dict[str, Any]:
        """All of it for machines."""
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "differences"}
        shown = [
            {"instant_us": one.instant_us, "instant": one.instant, "rows": one.rows.to_pylist()}
            for one in self.differences
        ]
        return {"agrees": bool(self), **told, "differences": shown}

    def __repr__(self) -> str:
        return "\n".join([self.summary, *self.notes, *(draw(one.rows) for one in self.differences[:1])])


@short_tracebacks
def verify(text: str, instants: int | None = N_INSTANTS, /, *, params: Any = None, **frames: Any) -> Verification:
    """Runs a query over Arrow, pandas or Polars frames in this process, and compares its changes with DuckDB's answer.

    At so many instants, spread evenly over those at which the answer may change; None: at all of them.
    """
    for name, frame in frames.items():
        if is_spark(frame):
            raise BindError(f"`{name}` is a Spark frame; verify runs in this process, so pass a recording of it")
    catalog, streams, relations = table_catalog(frames)
    verifier = _Verifier(parse_query(text, params), catalog, streams, relations)
    return verifier.verify(instants, lambda n_done, n_all: None)


def verify_script(
    script: Script, names: Sequence[str], instants: int | None, report: Report
) -> dict[str, Verification]:
    """The same for queries of a script, over the files that are there now."""
    for name in names:
        if name not in script.plans:
            raise BindError(f"the script has no query `{name}`; {suggest(name, script.plans)}")
    relations = script.relations()
    found = {}
    for name in names:
        infos = script.plans[name].streams
        streams = {stream: _read_stream(script.streams[stream], info) for stream, info in infos.items()}
        verifier = _Verifier(script.selects[name], script.catalog, streams, relations)
        found[name] = verifier.verify(instants, partial(report, name))
    return found


@dataclass(frozen=True)
class _Verifier:
    """A query with its input; the rows of streams are in order of arrival."""

    select: ParsedQuery
    catalog: Catalog
    streams: dict[str, pa.Table]
    relations: dict[str, pa.Table]

    def verify(self, n_instants: int | None, report: Callable[[int, int], None]) -> Verification:
        if n_instants is not None and n_instants < 1:
            raise PlanError(f"the number of instants must be positive, not {n_instants}; give one, or ask for all")
        plan = plan_query(bind(self.select, self.catalog))
        changes, finished = run_tables(plan, self.streams, self.relations)
        comparison = self._compare(plan, changes)
        instants = _sample(comparison.instants, n_instants)
        n_rows, n_differing, shown = 0, 0, []
        for n_done, step in enumerate(_asked(comparison.walk(instants)), 1):
            n_rows += step.expected.total()
            n_differing += step.is_different
            if step.is_different and len(shown) < _MAX_DIFFERENCES:
                shown.append(_difference(step, comparison.bound.outputs, plan.time_type))
            report(n_done, len(instants))
        n_read, n_late = sum(finished.n_read.values()), sum(finished.n_late.values())
        looked_at = (len(instants), len(comparison.instants))
        notes = (*finished.notes.take(but=REJECTED), *rejections(finished.rejected))
        return Verification(*looked_at, n_read, n_late, changes.num_rows, n_rows, n_differing, tuple(shown), notes)

    def _compare(self, plan: QueryPlan, changes: pa.Table) -> Comparison:
        tables = {**accept({name: self.streams[name] for name in plan.streams}, self.catalog), **self.relations}
        query = RelationalQuery(self.select.tree, self.catalog, tables)
        return Comparison(bind(self.select, self.catalog), query, changes)


def _asked(steps: Iterator[Step]) -> Iterator[Step]:
    """The steps; what DuckDB has to say against the query is an error of ours, as not all that runs here runs there."""
    try:
        yield from steps
    except duckdb.Error as error:
        reason = str(error).split("\n")[0]
        raise PlanError(f"DuckDB cannot answer this query for comparison: {reason}; write it otherwise") from None


def _sample(instants: list[int], n_instants: int | None) -> list[int]:
    """Some of the instants, the first and the last among them, evenly spread."""
    if n_instants is None or n_instants >= len(instants):
        return instants
    places = np.linspace(0, len(instants) - 1, n_instants).round().astype(int)
    return [instants[place] for place in places]


def _read_stream(source: FileSource, info: StreamInfo) -> pa.Table:
    """All rows of a stream, in order of arrival; what cannot be read is left out, as in a run."""
    tables = [info.schema.empty_table()]
    for file in list_files(source):
        tables += [records.rows for records in read_stream_file(source, file.path, info.time, unit=info.unit)]
    return pa.concat_tables(tables)


def _difference(step: Step, outputs: Sequence[Output], time_type: pa.DataType) -> Difference:
    sides = {"missing": step.missing, "extra": step.extra}
    rows = [(what, n, *map(value_of, row)) for what in sides for row, n in sorted(sides[what].items())[:_MAX_ROWS]]
    names = ["_is", "_times", *(output.name for output in outputs)]
    types = [pa.string(), pa.int64(), *(output.type for output in outputs)]
    columns = [pa.array([row[idx] for row in rows], type) for idx, type in enumerate(types)]
    instant = pa.scalar(step.instant, pa.int64()).cast(time_type).as_py()
    return Difference(step.instant, str(instant), pa.table(columns, names))
