"""Groups and their rows: what the operators share that put out one row for each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.operators.accumulators import Accumulator, AggregateRuns
from sash.operators.accumulators.manner import PLAIN, CallManner
from sash.operators.evaluator import run
from sash.operators.keyed import Keys
from sash.operators.project import ProjectSpec
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, ColumnLike
from sash.store.trace import Events
from sash.store.vector import Arena

T = TypeVar("T", bound=Accumulator)


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: its function, the column it is over (None: of rows), the column that it makes, and its type."""

    function: str
    argument: str | None
    name: str
    type: pa.DataType
    filter: str | None = None
    """A column that is true for the tuples that it is over; None: it is over all."""
    keys: tuple[str, ...] = ()
    """Columns by which values are placed, as `manner` says."""
    manner: CallManner = PLAIN

    @property
    def columns(self) -> tuple[str, ...]:
        """What it reads."""
        return tuple(name for name in (self.argument, self.filter, *self.keys) if name is not None)

    def argument_type(self, input: pa.Schema) -> pa.DataType | None:
        """Of what its accumulator is given: of the values, or of structs of a value and its keys."""
        if self.argument is None:
            return None
        types = [input.field(name).type for name in (self.argument, *self.keys)]
        return pa.struct([pa.field(str(idx), type) for idx, type in enumerate(types)]) if self.keys else types[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Groups by the columns `keys`; a row is in the answer if it satisfies `having`.

    If rows are taken back (`retracts`), a changed row comes with a negative of the one that it replaces; else the
    newest row of a group replaces the older one, and only a group that goes has a negative. `time` is the column that
    FIRST and LAST order by.

    `moving` are aggregates, by name, that belong to what tells the rows of the answer apart: a row in which one has
    changed replaces none, so the older one has a negative.

    `results` (name, SQL) are put out in place of the aggregates of which they are made: a row stays as long as they do.
    """

    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    having: str | None = None
    retracts: bool = True
    time: str | None = None
    id_column: str | None = None
    moving: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()

    @property
    def made(self) -> tuple[str, ...]:
        """What its rows hold beside the keys."""
        return tuple(name for name, _ in self.results) or tuple(call.name for call in self.calls)

    @property
    def columns(self) -> list[str]:
        """What keys and aggregates read, the keys first."""
        read = {name for call in self.calls for name in call.columns}
        if self.time:
            read.add(self.time)
        return [*self.keys, *sorted(read - set(self.keys))]


@dataclass(frozen=True, slots=True)
class Course:
    """Of every run, whether its group is there, and its aggregates: before the run and after it."""

    was_there: np.ndarray
    is_there: np.ndarray
    before: list[pa.Array]
    after: list[pa.Array]


class GroupRows:
    """Follows the aggregates of groups, and tells how the rows of the groups change."""

    def __init__(self, spec: Grouping, input: pa.Schema):
        self._spec = spec
        self.key_schema = pa.schema([input.field(name) for name in spec.keys])
        self.types = [call.argument_type(input) for call in spec.calls]
        calls = [pa.field(call.name, call.type) for call in spec.calls]
        ids = [pa.field(spec.id_column, pa.int64())] if spec.id_column else []
        self._aggregated = pa.schema([*self.key_schema, *calls, *ids, *SIGNED_FIELDS])
        passed = tuple(field.name for field in (*self.key_schema, *ids, *SIGNED_FIELDS))
        self._results = ProjectSpec(spec.results, passed) if spec.results else None
        self.schema = self._results.schema(self._aggregated) if self._results else self._aggregated

    def make_accumulators(self, make: Callable[..., T], arena: Arena) -> list[T]:
        """One for each aggregate, by `make_accumulator` or `make_running_accumulator`."""
        types = zip(self._spec.calls, self.types, strict=True)
        return [make(call.function, type, call.type, arena, call.manner) for call, type in types]

    def start(self, keys: Keys, accumulators: Sequence[Accumulator]) -> pa.Table:
        """The row of the one group of everything, which is there before the first tuple."""
        everything = np.zeros(1, np.int64)
        rows = self._rows(keys, self.read(everything, 1, accumulators), everything, np.full(1, BEGINNING), +1)
        return rows.filter(pa.array(self._satisfy(rows)))

    def read(self, groups: np.ndarray, n_groups: int, accumulators: Sequence[Accumulator]) -> list[pa.Array]:
        """The aggregates of groups as they are."""
        starts = np.zeros(len(groups) + 1, np.int64)
        nothing = AggregateRuns(starts, groups, n_groups, np.empty(0, np.int8), np.empty(0, np.int64))
        arguments = (None if type is None else pa.array([], type) for type in self.types)
        return [each.apply(nothing, values)[1] for each, values in zip(accumulators, arguments, strict=True)]

    def follow(
        self, events: Events, n_groups: int, accumulators: Sequence[Accumulator]
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """The aggregates of each run's group before the run and after it."""
        ts = events.int64(self._spec.time) if self._spec.time else np.zeros(len(events), np.int64)
        runs = AggregateRuns(events.starts, events.run_ids, n_groups, events.signs, ts)
        columns = {name: events.column(name) for name in {name for call in self._spec.calls for name in call.columns}}
        pairs = [
            accumulator.apply(*_given(call, runs, columns))
            for call, accumulator in zip(self._spec.calls, accumulators, strict=True)
        ]
        return [before for before, _ in pairs], [after for _, after in pairs]

    def changes(self, keys: Keys, run_ids: np.ndarray, run_times: np.ndarray, course: Course) -> list[pa.Table]:
        """How rows change: first what is taken back, then what is added. A row that comes out the same stays."""
        changed = course.was_there != course.is_there
        for values in zip(course.before, course.after, strict=True):
            changed |= differ(*values)
        changed = np.flatnonzero(changed)
        ids, times = run_ids[changed], run_times[changed]
        old = self._rows(keys, [values.take(pa.array(changed)) for values in course.before], ids, times, -1)
        new = self._rows(keys, [values.take(pa.array(changed)) for values in course.after], ids, times, +1)
        leaves, enters = course.was_there[changed] & self._satisfy(old), course.is_there[changed] & self._satisfy(new)
        if self._results:
            stays = leaves & enters & ~self._results_differ(old, new)
            leaves, enters = leaves & ~stays, enters & ~stays
        if not self._spec.retracts:
            leaves &= ~enters | self._moves(course)[changed]
        return [old.filter(pa.array(leaves)), new.filter(pa.array(enters))]

    def _results_differ(self, old: pa.Table, new: pa.Table) -> np.ndarray:
        """Of every row, whether what is made of its aggregates is another than before."""
        pairs = ([rows.column(name).combine_chunks() for rows in (old, new)] for name in self._spec.made)
        return np.logical_or.reduce([differ(before, after) for before, after in pairs])

    def _moves(self, course: Course) -> np.ndarray:
        """Of every run, whether the row after it does not replace the one before."""
        moves = np.zeros(len(course.was_there), np.bool_)
        for call, before, after in zip(self._spec.calls, course.before, course.after, strict=True):
            if call.name in self._spec.moving:
                moves |= differ(before, after)
        return moves

    def _rows(self, keys: Keys, values: list[pa.Array], ids: np.ndarray, times: np.ndarray, sign: int) -> pa.Table:
        columns: dict[str, ColumnLike] = dict(keys.take(ids))
        columns |= {call.name: array for call, array in zip(self._spec.calls, values, strict=True)}
        if self._spec.id_column:
            columns[self._spec.id_column] = keys.identities(ids)
        columns |= {TS: times, EXPIRES: np.full(len(ids), NEVER), OP: np.full(len(ids), sign, np.int8)}
        rows = pa.table([columns[name] for name in self._aggregated.names], schema=self._aggregated)
        return self._results.apply(rows) if self._results else rows

    def _satisfy(self, rows: pa.Table) -> np.ndarray:
        """Which rows satisfy HAVING."""
        if self._spec.having is None or not rows.num_rows:
            return np.ones(rows.num_rows, np.bool_)
        answer = run(f"SELECT coalesce({self._spec.having}, FALSE) AS holds FROM batch", batch=rows)
        return answer.column("holds").to_numpy()


def _given(call: Call, runs: AggregateRuns, columns: Mapping[str, pa.Array]) -> tuple[AggregateRuns, pa.Array | None]:
    """The events that an aggregate is over, and their values."""
    values = columns[call.argument] if call.argument else None
    if call.keys:
        fields = [columns[name] for name in (call.argument, *call.keys) if name]
        values = pa.StructArray.from_arrays(fields, [str(idx) for idx in range(len(fields))])
    if call.filter is None:
        return runs, values
    # A condition that is NULL in all rows may be of another type.
    passes = pc.fill_null(columns[call.filter].cast(pa.bool_()), False)
    return runs.only(passes.to_numpy(zero_copy_only=False)), None if values is None else values.filter(passes)


def differ(before: pa.Array, after: pa.Array) -> np.ndarray:
    """Where a value has changed; NULL is a value, and NaN the same as NaN."""
    if pa.types.is_nested(before.type):
        answer = run(
            "SELECT old IS DISTINCT FROM new AS differs FROM batch", batch=pa.table({"old": before, "new": after})
        )
        return answer.column("differs").to_numpy()
    is_other = pc.fill_null(pc.not_equal(before, after), False)
    if pa.types.is_floating(before.type):
        is_other = pc.and_(is_other, pc.invert(pc.and_(_is_nan(before), _is_nan(after))))
    return pc.or_(is_other, pc.xor(before.is_null(), after.is_null())).to_numpy(zero_copy_only=False)


def _is_nan(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.is_nan(values), False)
