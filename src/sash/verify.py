"""Whether a query's changes amount to its answer: a run over recorded input, next to DuckDB on the rows in the windows.

    sash.verify(text, trades=trades, quotes=quotes)     agrees at 100 of 2,412 instants: …

At each instant that is looked at, DuckDB runs the plain query over the rows that are in their windows then. The oracle
is that of `sash.testing`, and knows nothing of how the query was planned and run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sash.embedded.run import run_tables
from sash.errors import BindError, PlanError, suggest
from sash.frames import is_spark, table_catalog
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.script import Script
from sash.sources.files import FileSource, list_files
from sash.sources.timed import read_stream_file
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.sql.parsed import ParsedQuery
from sash.sql.query import Block, Catalog
from sash.testing.answers import Answer
from sash.testing.literals import draw
from sash.testing.oracle import Comparison
from sash.testing.reference import accept, value_of
from sash.testing.relational import RelationalQuery

N_INSTANTS = 100
_MAX_ROWS = 20
_MAX_DIFFERENCES = 10

Report: TypeAlias = Callable[[int, int], None]
"""Called with the number of instants that have been compared, and that of all to come."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An instant at which the changes do not amount to the answer. Times are those of the streams."""

    instant_us: int
    instant: str
    rows: pa.Table
    """Up to 20 rows: `_is` says `missing` or `extra`, `_times` how often, before the query's columns."""


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

    def __bool__(self) -> bool:
        return not self.n_differing

    def __repr__(self) -> str:
        what = f"{self.n_instants:,} of {self.n_interesting:,} instants"
        if self.n_differing:
            first = self.differences[0]
            return f"differs at {self.n_differing:,} of {what}, first at {first.instant}:\n{draw(first.rows)}"
        late = f", {self.n_late:,} of them late" if self.n_late else ""
        changes = f"{self.n_read:,} rows read{late}, {self.n_changes:,} changes"
        return f"agrees at {what}: {changes}, {self.n_rows:,} rows of the answer compared"


def verify(text: str, instants: int | None = N_INSTANTS, /, **frames: Any) -> Verification:
    """Runs a query over Arrow, pandas or Polars frames in this process, and compares its changes with DuckDB's answer.

    At so many instants, spread evenly over those at which the answer may change; None: at all of them.
    """
    for name, frame in frames.items():
        if is_spark(frame):
            raise BindError(f"`{name}` is a Spark frame; verify runs in this process, so pass a recording of it")
    catalog, streams, relations = table_catalog(frames)
    return _Verifier(parse_query(text), catalog, streams, relations).verify(instants)


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
        times = {stream: info.time for stream, info in script.plans[name].streams.items()}
        streams = {stream: _read_stream(script.streams[stream], time) for stream, time in times.items()}
        verifier = _Verifier(script.selects[name], script.catalog, streams, relations)
        found[name] = verifier.verify(instants, report)
    return found


@dataclass(frozen=True)
class _Verifier:
    """A query with its input; the rows of streams are in order of arrival."""

    select: ParsedQuery
    catalog: Catalog
    streams: dict[str, pa.Table]
    relations: dict[str, pa.Table]

    def verify(self, n_instants: int | None, report: Report = lambda n_done, n_all: None) -> Verification:
        if n_instants is not None and n_instants < 1:
            raise PlanError(f"the number of instants must be positive, not {n_instants}; give one, or ask for all")
        bound = bind(self.select, self.catalog)
        plan = plan_query(bound)
        changes, finished = run_tables(plan, self.streams, self.relations)
        tables = {**accept({name: self.streams[name] for name in plan.streams}, self.catalog), **self.relations}
        comparison = Comparison(bound, RelationalQuery(self.select.tree, self.catalog, tables), changes)
        instants = _sample(comparison.instants, n_instants)
        n_rows, differing, shown = 0, 0, []
        for n_done, step in enumerate(comparison.walk(instants), 1):
            n_rows += step.expected.total()
            differing += step.is_different
            if step.is_different and len(shown) < _MAX_DIFFERENCES:
                shown.append(_difference(plan, bound, step.instant, step.missing, step.extra))
            report(n_done, len(instants))
        return Verification(
            n_instants=len(instants),
            n_interesting=len(comparison.instants),
            n_read=sum(finished.n_read.values()),
            n_late=sum(finished.n_late.values()),
            n_changes=changes.num_rows,
            n_rows=n_rows,
            n_differing=differing,
            differences=tuple(shown),
        )


def _sample(instants: list[int], n_instants: int | None) -> list[int]:
    """Some of the instants, the first and the last among them, evenly spread."""
    if n_instants is None or n_instants >= len(instants):
        return instants
    places = np.linspace(0, len(instants) - 1, n_instants).round().astype(int)
    return [instants[place] for place in places]


def _read_stream(source: FileSource, time: str) -> pa.Table:
    """All rows of a stream, in order of arrival; what cannot be read is left out, as in a run."""
    tables = [source.schema.empty_table()]
    for file in list_files(source):
        tables += [records.rows for records in read_stream_file(source, file.path, time)]
    return pa.concat_tables(tables)


def _difference(plan: Plan, bound: Block, instant_us: int, missing: Answer, extra: Answer) -> Difference:
    rows = [("missing", n, row) for row, n in sorted(missing.items())]
    rows += [("extra", n, row) for row, n in sorted(extra.items())]
    rows = rows[:_MAX_ROWS]
    values = [[value_of(row[idx]) for _, _, row in rows] for idx in range(len(bound.outputs))]
    columns = [pa.array(column, output.type) for column, output in zip(values, bound.outputs)]
    heads = [pa.array([what for what, _, _ in rows], pa.string()), pa.array([n for _, n, _ in rows], pa.int64())]
    table = pa.table([*heads, *columns], ["_is", "_times", *(output.name for output in bound.outputs)])
    return Difference(instant_us, str(pa.scalar(instant_us, pa.int64()).cast(plan.time_type).as_py()), table)
