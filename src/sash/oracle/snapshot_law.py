"""The snapshot law, checked by DuckDB: at every instant the changes amount to the plain query over the windows."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sash.frames import table_catalog
from sash.oracle.answers import SYSTEM, Answer, differences, positive_zeros, walk_answers
from sash.oracle.literals import draw, write_cell
from sash.oracle.plain_sql import INSTANT, RelationalQuery
from sash.oracle.reference import Tables, accept
from sash.oracle.row_keys import row_keys, value_of
from sash.sql.bind import bind
from sash.sql.bound_query import Block, BoundSet, replaced_by, sources_in
from sash.sql.catalog import Catalog, DerivedInfo
from sash.sql.parse import parse_query
from sash.sql.window_kinds import SessionWindow, TableWindow, TimeWindow, Window
from sash.store.batch import EXPIRES, NEVER, TS

_MAX_SHOWN = 10
_ROUNDED = ("avg", "median", "percentile_cont", "quantile_cont", "stddev", "sum", "var")
"""Aggregates whose floats depend on the order of the rows, in the last digits."""


def bind_frames(text: str, frames: Mapping[str, Any]) -> tuple[Block, dict[str, pa.Table]]:
    """A query as `sash.sql` would understand it, and the rows that count: those that do not come too late."""
    catalog, streams, relations = table_catalog(frames)
    return bind(parse_query(text), catalog), {**accept(streams, catalog), **relations}


def interesting_instants(bound: Block, tables: Tables) -> list[int]:
    """When the answer may change, and the instants right before and after."""
    return relational_query(bound, tables).interesting_instants()


def snapshot(bound: Block, tables: Tables, instants: Iterable[int]) -> pa.Table:
    """The answer at one instant after the other: the query's columns after `_instant`.

    Equal rows come as often as they are there, those of one instant in no order.
    """
    schema = pa.schema([(INSTANT, pa.int64()), *((output.name, output.type) for output in bound.outputs)])
    answers = [table for _, table in relational_query(bound, tables).answers(sorted(instants))]
    named = [table.rename_columns(schema.names).sort_by(INSTANT) for table in answers]
    return pa.concat_tables([schema.empty_table(), *named])


def relational_query(bound: Block, tables: Tables) -> RelationalQuery:
    """The query behind a bound one, which must be of a text of its own, not of a script's."""
    catalog: Catalog = {
        source.name: source.info for source in sources_in(bound) if not isinstance(source.info, DerivedInfo)
    }
    return RelationalQuery(parse_query(bound.text).tree, catalog, tables)


def assert_snapshot(text: str, changes: pa.Table, /, **frames: Any) -> None:
    """Fails, saying at which instant and in which rows, unless the changes answer the query over the frames."""
    check_snapshot(*bind_frames(text, frames), changes)


def check_snapshot(bound: Block, tables: Tables, changes: pa.Table) -> None:
    """`assert_snapshot` of a query that is bound already, over the rows that count."""
    comparison = Comparison(bound, relational_query(bound, tables), changes)
    wrong = [step for step in comparison.walk(comparison.instants) if step.is_different]
    if wrong:
        raise AssertionError(_describe_all(bound, wrong, len(comparison.instants)))


@dataclass(frozen=True, slots=True)
class Step:
    """An instant: what the answer is, and in which rows the changes amount to something else."""

    instant: int
    expected: Answer
    missing: Answer
    extra: Answer

    @property
    def is_different(self) -> bool:
        return bool(self.missing or self.extra)


@dataclass(frozen=True)
class Comparison:
    """The changes of a run next to what DuckDB says."""

    bound: Block
    query: RelationalQuery
    changes: pa.Table

    @cached_property
    def instants(self) -> list[int]:
        """All instants at which it is worth while to look.

        Only the changes of a join tell what will come after the end of the run.
        """
        instants = self.query.interesting_instants()
        end = NEVER if is_join(self.bound) else self.query.last_instant()
        return [instant for instant in instants if instant <= end]

    def walk(self, instants: Sequence[int]) -> Iterator[Step]:
        """One instant after the other, in ascending order. If changes may be read in two ways, both must be right."""
        is_rounded = _is_rounded(self.query.tree)
        readings = zip_longest(*self._readings(instants))
        for (instant, expected), seen in zip(self._expected(instants), readings):
            found = [differences(expected, reading[1], is_rounded) for reading in seen if reading]
            yield Step(instant, expected, *next((pair for pair in found if any(pair)), found[0]))

    def _readings(self, instants: Sequence[int]) -> Iterator[Iterator[tuple[int, Answer]]]:
        changes = self.changes if is_join(self.bound) else positive_zeros(self.changes)
        yield walk_answers(changes, instants, replaced_by=replaced_by(self.bound))
        if self.bound.emit_changes:
            end = self.query.last_instant()
            yield walk_answers(changes, [one for one in instants if one <= end], emit_changes=True)

    def _expected(self, instants: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        for asked, answers in self.query.answers(instants):
            counted: dict[int, Answer] = {instant: Counter() for instant in asked}
            for instant, row in zip(answers.column(INSTANT).to_pylist(), row_keys(self._as_shown(answers))):
                counted[instant][row] += 1
            yield from counted.items()

    def _as_shown(self, answers: pa.Table) -> pa.Table:
        """The answers' rows with the types of the changes."""
        fields = self.changes.drop_columns(list(SYSTEM)).schema
        columns = [column.cast(field.type) for column, field in zip(answers.columns[1:], fields, strict=True)]
        table = pa.table(columns, schema=fields)
        return table if is_join(self.bound) else positive_zeros(table)


def is_join(bound: Block) -> bool:
    """Whether rows of the answer are combinations of rows of streams, each known with its end when it enters."""
    if isinstance(bound, BoundSet) or bound.groups is not None or bound.is_distinct or bound.memberships:
        return False
    return not any(isinstance(source.info, DerivedInfo) or _is_sliding(source.window) for source in bound.sources)


def _is_sliding(window: Window | None) -> bool:
    """Whether rows enter after their time."""
    if isinstance(window, TableWindow):
        return window.is_final or isinstance(window, SessionWindow)
    return isinstance(window, TimeWindow) and window.slide_us is not None


def _is_rounded(tree: exp.Expr) -> bool:
    calls = [call.name if isinstance(call, exp.Anonymous) else call.sql_name() for call in tree.find_all(exp.Func)]
    return any(call.lower().startswith(_ROUNDED) for call in calls)


def assert_changes(seen: pa.Table, expected: pa.Table) -> None:
    """Fails, with the lines that differ, unless both hold the same rows in the same order; NaN is the same as NaN."""
    seen, expected = _in_microseconds(seen), _in_microseconds(expected)
    assert seen.schema == expected.schema, f"columns differ: {seen.schema} is not {expected.schema}"
    if row_keys(seen) != row_keys(expected):
        lines = difflib.ndiff(draw(expected).splitlines(), draw(seen).splitlines())
        raise AssertionError("the changes differ (- expected, + seen):\n" + "\n".join(lines))


def _in_microseconds(changes: pa.Table) -> pa.Table:
    for name in (TS, EXPIRES):
        times = changes.column(name).cast(pa.int64())
        changes = changes.set_column(changes.schema.get_field_index(name), name, times)
    return changes


def _describe_all(bound: Block, wrong: Sequence[Step], n_instants: int) -> str:
    lines = [f"the changes do not amount to the query's answer at {len(wrong)} of {n_instants} instants", bound.text]
    lines.append(f"at instant {wrong[0].instant}:")
    lines += _describe(bound, "missing", wrong[0].missing)
    lines += _describe(bound, "too many", wrong[0].extra)
    return "\n".join(lines)


def _describe(bound: Block, what: str, rows: Answer) -> list[str]:
    names = [output.name for output in bound.outputs]
    lines = []
    for row, n in sorted(rows.items())[:_MAX_SHOWN]:
        cells = ", ".join(f"{name} = {write_cell(value_of(key))}" for name, key in zip(names, row))
        lines.append(f"  {what} {n} × {cells}")
    return lines + ([f"  {what} {len(rows) - _MAX_SHOWN} rows more"] if len(rows) > _MAX_SHOWN else [])
