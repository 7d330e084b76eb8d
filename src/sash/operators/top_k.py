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
from sash.kernels.rank_classes import DENSE_RANK, RANK, ROW_NUMBER, RankBounds
from sash.operators.accumulators.manner import SortKey
from sash.operators.keyed import Keys, with_identity
from sash.operators.shown_rows import ShownRows
from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, ColumnLike
from sash.store.key_index import KeyIndex
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory

FUNCTIONS = {"row_number": ROW_NUMBER, "rank": RANK, "dense_rank": DENSE_RANK}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKSpec:
    """Passes on the `columns` of rows; what it orders by and partitions by need not be among them.

    `id_column`, if given, receives what identifies a row: its content, and when it expires. No two rows that are there
    at an instant agree in all columns of `unique_by`, if there are any; see `operators/group_top_k.py`.
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
    unique_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.function in FUNCTIONS
        assert 0 <= self.first < self.last
        assert set(self.unique_by) <= set(self.read)

    @property
    def bounds(self) -> RankBounds:
        """Which rows are shown, for the kernels."""
        return RankBounds(FUNCTIONS[self.function], self.first, self.last)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return tuple(dict.fromkeys((*self.columns, *self.partition_by, *(name for name, _ in self.order))))


class TopK(Traced):
    """Runs a `TopKSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace", "_keys", "_partition_keys", "_shown")

    def __init__(self, spec: TopKSpec, input: pa.Schema):
        self.spec = spec
        fields = [input.field(name) for name in spec.read]
        self._input = pa.schema([*fields, *SIGNED_FIELDS])
        # Where nothing expires by itself, all rows have the same end.
        self._ends = () if spec.window_us is None else (EXPIRES,)
        self._key_schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in self._ends)])
        ids = [pa.field(spec.id_column, pa.int64())] if spec.id_column else []
        self.schema = pa.schema([*(input.field(name) for name in spec.columns), *ids, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        spec = self.spec
        # The identity of a row says all that tells it from others, in a single number.
        logged, identity = with_identity(self._input, True), with_identity(pa.schema([]), True)
        self._trace = Trace(logged, spec.window_us, spec.expires_by_negatives, arena, identity)
        self._keys = Keys(self._key_schema, True, arena)
        self._partition_keys = KeyIndex(pa.schema([self._input.field(name) for name in spec.partition_by]), arena)
        self._shown = ShownRows(spec.bounds, spec.order, (*spec.columns, *self._ends), arena)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        tuples = batch.select(self._input.names)
        ids = self._keys.encode(tuples)
        self._meet_rows()
        changes = self._follow(self._trace.step(self._keys.identify(tuples, ids), ids, clock))
        self._trace.evict()
        self._forget_rows()
        return changes

    def traces(self) -> dict[str, Trace]:
        return {"window": self._trace}

    def registers(self) -> dict[str, int]:
        return {**super().registers(), "next_identity": self._keys.next_identity}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        clock, number = registers["clock"], registers["window"]
        for events in self._trace.restore(entries["window"], number, clock, self._keys.recall):
            self._meet_rows()
            self._follow(events)
        self._keys.next_identity = registers["next_identity"]

    def _meet_rows(self) -> None:
        """Finds out of rows that have a number since the last call where they belong."""
        n_known, n_rows = self._shown.n_rows, self._keys.n_ids
        if n_known == n_rows:
            return
        rows = pa.table(self._keys.take(np.arange(n_known, n_rows)))
        owners, n_partitions = np.zeros(n_rows - n_known, np.int64), 1
        if self.spec.partition_by:
            owners = self._partition_keys.encode(rows.select(self.spec.partition_by))
            n_partitions = self._partition_keys.n_ids
        self._shown.append(rows, owners, n_partitions)

    def _follow(self, events: Events) -> pa.Table:
        """The changes of what is shown that follow from events."""
        times, rows, signs, owners = events.times, events.ids, events.signs, self._shown.owners[events.ids]
        if self.spec.partition_by:
            order = np.lexsort((owners, times))
            times, rows, signs, owners = times[order], rows[order], signs[order], owners[order]
        is_new = np.empty(len(times), np.bool_)
        is_new[:1] = True
        is_new[1:] = (times[1:] != times[:-1]) | (owners[1:] != owners[:-1])
        runs = np.cumsum(is_new) - 1
        changes = self._shown.follow(kernel.RankEvents(runs, rows, signs))
        return self._rows(times[is_new][changes.run], changes.row, changes.sign)

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
        is_alive = self._shown.are_needed()
        mapping = self._keys.compact(is_alive)
        if mapping is None:
            return
        self._shown.compact(is_alive, mapping)
        self._trace.renumber(mapping)
        if self.spec.partition_by:
            self._forget_partitions()

    def _forget_partitions(self) -> None:
        is_alive = np.zeros(self._partition_keys.n_ids, np.bool_)
        is_alive[self._shown.owners] = True
        self._shown.compact_partitions(self._partition_keys.compact(is_alive))
