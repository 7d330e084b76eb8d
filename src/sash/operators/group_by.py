"""W-GROUP BY and W-Aggregate: at every instant one row per group that is there (Pipelines §4.2, Alg. 4.2).

    Law:  at T the answer has, for each group with a tuple in its window, the aggregates of these tuples that SQL would
          give. Without keys there is one group, which is always there: COUNT 0 over nothing.

    in     +a 5 [1, 4)   +a 7 [2, 5)                  out, SUM    +a 5 at 1, -a 5 +a 12 at 2, -a 12 +a 7 at 4, -a 7 at 5

What happens to a group at one instant happens at once: its row changes once, or not at all if it comes out the same. An
aggregate follows each tuple that enters or leaves, and never looks at the others again. State: the columns that keys
and aggregates read, of the tuples in the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.runs import count_members
from sash.operators.accumulators import Runs, make_accumulator
from sash.operators.evaluator import run
from sash.operators.keyed import Keys, with_identity
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, concat
from sash.store.block_log import BlockLog
from sash.store.trace import Events, Trace
from sash.store.vector import Home, Memory, Vector


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: its function, the column it is over (None: of rows), the column that it makes, and its type."""

    function: str
    argument: str | None
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class GroupBySpec:
    """Groups by the columns `keys`; a row is in the answer if it satisfies `having`.

    If rows are taken back (`retracts`), a changed row comes with a negative of the one that it replaces; else the
    newest row of a group replaces the older one, and only a group that goes has a negative. `time` is the column that
    FIRST and LAST order by.
    """

    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    window_us: int | None
    is_clocked: bool
    having: str | None = None
    retracts: bool = True
    time: str | None = None
    id_column: str | None = None


class GroupBy:
    """Runs a `GroupBySpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace", "_keys", "_sizes", "_n_groups", "_accumulators", "_has_started")

    def __init__(self, spec: GroupBySpec, input: pa.Schema):
        self.spec = spec
        arguments = {call.argument for call in spec.calls if call.argument} | ({spec.time} if spec.time else set())
        kept = [*spec.keys, *sorted(arguments - set(spec.keys))]
        self._input = pa.schema([input.field(name) for name in kept] + list(SIGNED_FIELDS))
        self._key_schema = pa.schema([input.field(name) for name in spec.keys])
        calls = [pa.field(call.name, call.type) for call in spec.calls]
        ids = [pa.field(spec.id_column, pa.int64())] if spec.id_column else []
        self.schema = pa.schema([*self._key_schema, *calls, *ids, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, home: Home) -> None:
        has_identity = self.spec.id_column is not None
        logged = with_identity(self._input, has_identity)
        self._trace = Trace(logged, self.spec.window_us, self.spec.is_clocked, home)
        self._keys = Keys(self._key_schema, has_identity, home)
        self._sizes = Vector(np.int64, home)
        self._n_groups = 0
        self._accumulators = [
            make_accumulator(call.function, self._type_of(call), call.type, home) for call in self.spec.calls
        ]
        self._has_started = False

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        tuples = batch.select(self._input.names)
        ids = self._keys.encode(tuples)
        events = self._trace.step(self._keys.identify(tuples, ids), ids, clock)
        changes = [*self._start(), *self._apply(events)]
        self._trace.evict(clock, self._keys.recall)
        return concat(changes) if changes else self.schema.empty_table()

    def pace(self, clock: int, n_max: int) -> int:
        return self._trace.pace(clock, n_max)

    def logs(self) -> dict[str, BlockLog]:
        return {"window": self._trace.log}

    def registers(self) -> dict[str, int]:
        return {
            "window": self._trace.log.next_number,
            "clock": self._trace.clock,
            "next_identity": self._keys.next_identity,
            "has_started": int(self._has_started),
        }

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        window, clock = registers["window"], registers["clock"]
        for events in self._trace.restore(entries["window"], window, clock, self._keys.recall):
            self._accumulate(events)
        self._keys.next_identity = registers["next_identity"]
        self._has_started = bool(registers["has_started"])

    def _type_of(self, call: Call) -> pa.DataType | None:
        return self._input.field(call.argument).type if call.argument else None

    def _start(self) -> list[pa.Table]:
        """The one group of everything is there before the first tuple."""
        if self._has_started or self.spec.keys:
            return []
        self._has_started = True
        runs = Runs(np.zeros(2, np.int64), np.zeros(1, np.int64), 1, np.empty(0, np.int8), np.empty(0, np.int64))
        after = [
            accumulator.apply(runs, None if call.argument is None else pa.array([], self._type_of(call)))[1]
            for call, accumulator in zip(self.spec.calls, self._accumulators, strict=True)
        ]
        rows = self._rows(after, np.zeros(1, np.int64), np.full(1, BEGINNING), +1)
        return [rows.filter(pa.array(self._satisfy(rows)))]

    def _apply(self, events: Events) -> list[pa.Table]:
        """The changes of the answer that follow from events: first what they take back, then what they add."""
        if not len(events):
            return []
        was, becomes, before, after = self._accumulate(events)
        changed = was != becomes
        for values in zip(before, after, strict=True):
            changed |= _differ(*values)
        changed = np.flatnonzero(changed)
        ids, times = events.run_ids[changed], events.run_times[changed]
        old = self._rows([values.take(pa.array(changed)) for values in before], ids, times, -1)
        new = self._rows([values.take(pa.array(changed)) for values in after], ids, times, +1)
        leaves, enters = was[changed] & self._satisfy(old), becomes[changed] & self._satisfy(new)
        if not self.spec.retracts:
            leaves &= ~enters
        self._forget_groups()
        return [old.filter(pa.array(leaves)), new.filter(pa.array(enters))]

    def _accumulate(self, events: Events) -> tuple[np.ndarray, np.ndarray, list[pa.Array], list[pa.Array]]:
        """For every run, whether its group was there before and is there after it, and the aggregates of both."""
        ts = events.int64(self.spec.time) if self.spec.time else np.zeros(len(events), np.int64)
        runs = Runs(events.starts, events.run_ids, self._keys.n_ids, events.signs, ts)
        columns = {name: events.column(name) for name in {call.argument for call in self.spec.calls} if name}
        was, becomes = self._count(events)
        pairs = [
            accumulator.apply(runs, columns.get(call.argument))
            for call, accumulator in zip(self.spec.calls, self._accumulators, strict=True)
        ]
        return was, becomes, [before for before, _ in pairs], [after for _, after in pairs]

    def _count(self, events: Events) -> tuple[np.ndarray, np.ndarray]:
        """Whether each run's group was there before and is there after it."""
        n_runs = len(events.run_ids)
        if not self.spec.keys:
            return np.ones(n_runs, np.bool_), np.ones(n_runs, np.bool_)
        self._sizes.reserve(self._keys.n_ids)
        self._sizes.array[self._n_groups : self._keys.n_ids] = 0
        self._n_groups = self._keys.n_ids
        before, after = np.empty(n_runs, np.int64), np.empty(n_runs, np.int64)
        count_members(events.starts, events.run_ids, events.signs, self._sizes.array, before, after)
        return before > 0, after > 0

    def _rows(self, values: list[pa.Array], ids: np.ndarray, times: np.ndarray, sign: int) -> pa.Table:
        columns: dict[str, object] = dict(self._keys.take(ids))
        columns |= {call.name: array for call, array in zip(self.spec.calls, values, strict=True)}
        if self.spec.id_column:
            columns[self.spec.id_column] = self._keys.identities(ids)
        columns |= {TS: times, EXPIRES: np.full(len(ids), NEVER), OP: np.full(len(ids), sign, np.int8)}
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _satisfy(self, rows: pa.Table) -> np.ndarray:
        """Which rows satisfy HAVING."""
        if self.spec.having is None or not rows.num_rows:
            return np.ones(rows.num_rows, np.bool_)
        answer = run(f"SELECT coalesce({self.spec.having}, FALSE) AS holds FROM batch", batch=rows)
        return answer.column("holds").to_numpy()

    def _forget_groups(self) -> None:
        """Numbers groups anew once most have gone."""
        alive = self._sizes.array[: self._n_groups] > 0
        mapping = self._keys.compact(alive)
        if mapping is None:
            return
        self._sizes.write(0, self._sizes.array[: self._n_groups][alive])
        self._n_groups = self._keys.n_ids
        self._trace.renumber(mapping)
        for accumulator in self._accumulators:
            accumulator.compact(mapping)


def _differ(before: pa.Array, after: pa.Array) -> np.ndarray:
    """Where a value has changed; NULL is a value, and NaN the same as NaN."""
    is_other = pc.fill_null(pc.not_equal(before, after), False)
    if pa.types.is_floating(before.type):
        is_other = pc.and_(is_other, pc.invert(pc.and_(_is_nan(before), _is_nan(after))))
    return pc.or_(is_other, pc.xor(before.is_null(), after.is_null())).to_numpy(zero_copy_only=False)


def _is_nan(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.is_nan(values), False)
