"""Top-k: of each partition the first rows in an order, as `LIMIT`, `QUALIFY row_number() …` and `DISTINCT ON` ask for.

    Law:  at T, of the tuples in their windows that agree in `partition_by`, those are in the answer whose number in
          `order` is more than `first`, and at most `last` by `function`: ROW_NUMBER counts rows, RANK those that are
          ordered before all of a row's class, DENSE_RANK such classes.

    in     5 [1, 9)   3 [2, 5)   7 [3, 9)         out, ORDER BY v LIMIT 2    +5 at 1   +3 at 2   +7 at 5
           1 [4, 6)                                                          -5 +1 at 4          +5 at 5, -…

Rows that `order` leaves equal are placed by `columns`, from left to right, upwards with NULL behind all others, and
those that are equal in all of these by when they expire: so the answer follows from what is in the window alone, and
nothing of it has to be kept. State: the tuples in the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.kernels import top_k_runs as kernel
from sash.operators.accumulators.manner import SortKey
from sash.operators.keyed import Keys, with_identity
from sash.operators.ordered_partitions import OrderedPartitions
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, ColumnLike
from sash.store.block_log import BlockLog
from sash.store.group_array import GroupArray
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory

FUNCTIONS = {"row_number": kernel.ROW_NUMBER, "rank": kernel.RANK, "dense_rank": kernel.DENSE_RANK}
CHANGES_PER_CALL = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKSpec:
    """Passes on the `columns` of rows; what it orders by and partitions by need not be among them.

    `id_column`, if given, receives what identifies a row: its content, and when it expires.
    """

    columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    order: tuple[tuple[str, SortKey], ...]
    last: int
    first: int = 0
    function: str = "row_number"
    window_us: int | None
    expires_by_negatives: bool
    id_column: str | None = None

    def __post_init__(self) -> None:
        assert self.function in FUNCTIONS
        assert 0 <= self.first < self.last

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return tuple(dict.fromkeys((*self.columns, *self.partition_by, *(name for name, _ in self.order))))


class TopK:
    """Runs a `TopKSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace", "_keys", "_partitions", "_bounds")

    def __init__(self, spec: TopKSpec, input: pa.Schema):
        self.spec = spec
        fields = [input.field(name) for name in spec.read]
        self._input = pa.schema([*fields, *SIGNED_FIELDS])
        # Where nothing expires by itself, all rows have the same end.
        self._ends = () if spec.window_us is None else (EXPIRES,)
        self._key_schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in self._ends)])
        ids = [pa.field(spec.id_column, pa.int64())] if spec.id_column else []
        self.schema = pa.schema([*(input.field(name) for name in spec.columns), *ids, *SIGNED_FIELDS])
        self._cut = kernel.RankBounds(FUNCTIONS[spec.function], spec.first, spec.last)
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        spec = self.spec
        # The identity of a row says all that tells it from others, in a single number.
        logged, identity = with_identity(self._input, True), with_identity(pa.schema([]), True)
        self._trace = Trace(logged, spec.window_us, spec.expires_by_negatives, arena, identity)
        self._keys = Keys(self._key_schema, True, arena)
        columns = pa.schema([self._input.field(name) for name in spec.partition_by])
        self._partitions = OrderedPartitions(columns, spec.order, (*spec.columns, *self._ends), arena)
        self._bounds = GroupArray(np.int64, arena, (kernel.PARTITION_WIDTH,))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        tuples = batch.select(self._input.names)
        ids = self._keys.encode(tuples)
        self._meet_rows()
        changes = self._follow(self._trace.step(self._keys.identify(tuples, ids), ids, clock))
        self._trace.evict()
        self._forget_rows()
        return changes

    def pace(self, clock: int, n_max: int) -> int:
        return self._trace.pace(clock, n_max)

    def make_room(self) -> None:
        self._trace.make_room()

    def logs(self) -> dict[str, BlockLog]:
        return {"window": self._trace.log}

    def registers(self) -> dict[str, int]:
        return {
            "clock": self._trace.clock,
            "window": self._trace.log.next_number,
            "next_identity": self._keys.next_identity,
        }

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        clock, number = registers["clock"], registers["window"]
        for events in self._trace.restore(entries["window"], number, clock, self._keys.recall):
            self._meet_rows()
            self._follow(events)
        self._keys.next_identity = registers["next_identity"]

    def _meet_rows(self) -> None:
        """Finds out of rows that have a number since the last call where they belong."""
        self._partitions.meet(self._keys)
        self._bounds.reserve(self._partitions.n_partitions)

    def _follow(self, events: Events) -> pa.Table:
        """The changes of what is shown that follow from events."""
        times, rows, signs, owners = events.times, events.ids, events.signs, self._partitions.owners[events.ids]
        if self.spec.partition_by:
            order = np.lexsort((owners, times))
            times, rows, signs, owners = times[order], rows[order], signs[order], owners[order]
        is_new = np.empty(len(times), np.bool_)
        is_new[:1] = True
        is_new[1:] = (times[1:] != times[:-1]) | (owners[1:] != owners[:-1])
        runs = np.cumsum(is_new) - 1
        changes = self._net(kernel.RankEvents(runs, rows, signs))
        return self._rows(times[is_new][changes.run], changes.row, changes.sign)

    def _net(self, events: kernel.RankEvents) -> kernel.RankChanges:
        """What is shown otherwise after each run than before it."""
        rows, found = self._partitions, list[np.ndarray]()
        ranked = kernel.RankedRows(rows.owners, rows.counts, rows.key_lengths, self._bounds.array)
        treaps, first, room = rows.treaps, 0, CHANGES_PER_CALL
        while first < len(events.rows):
            run, row = np.empty((2, room), np.int64)
            out = kernel.RankChanges(run, row, np.empty(room, np.int8))
            following, n_out = kernel.follow(first, events, self._cut, ranked, treaps, out)
            found.append(np.stack([each[:n_out].astype(np.int64) for each in out]))
            room = room if following > first else 2 * room
            first = following
        return _summed(*np.concatenate([np.empty((3, 0), np.int64), *found], axis=1))

    def _rows(self, ts: np.ndarray, rows: np.ndarray, sign: np.ndarray) -> pa.Table:
        columns: dict[str, ColumnLike] = dict(self._keys.take(rows))
        columns = {EXPIRES: np.full(len(rows), NEVER), **columns, TS: ts, OP: sign}
        if self.spec.id_column:
            columns[self.spec.id_column] = self._keys.identities(rows)
        changes = pa.table([columns[name] for name in self.schema.names], schema=self.schema)
        if self.spec.expires_by_negatives:
            return changes
        early = (sign > 0) | (ts < changes.column(EXPIRES).to_numpy())
        return changes if early.all() else changes.filter(pa.array(early))

    def _forget_rows(self) -> None:
        """Numbers rows anew once most have gone, and then partitions as well."""
        is_alive = self._partitions.counts > 0
        bounds = self._bounds.array[:, kernel.BOUND]
        is_alive[bounds[bounds > 0] - 1] = True
        mapping = self._keys.compact(is_alive)
        if mapping is None:
            return
        bounds[:] = np.where(bounds > 0, mapping[bounds - 1] + 1, 0)
        self._trace.renumber(mapping)
        partitions = self._partitions.forget(mapping)
        if partitions is not None:
            self._bounds.compact(partitions)


def _summed(run: np.ndarray, row: np.ndarray, sign: np.ndarray) -> kernel.RankChanges:
    """Changes that take each other back within a run are none."""
    if not len(run):
        return kernel.RankChanges(run, row, sign.astype(np.int8))
    order = np.lexsort((row, run))
    run, row, sign = run[order], row[order], sign[order]
    starts = np.flatnonzero(np.r_[True, (run[1:] != run[:-1]) | (row[1:] != row[:-1])])
    total = np.add.reduceat(sign, starts)
    places = np.repeat(starts, np.abs(total))
    signs = np.repeat(np.sign(total).astype(np.int8), np.abs(total))
    return kernel.RankChanges(run[places], row[places], signs)
