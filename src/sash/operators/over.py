"""Over: each row with what functions say of the rows of its partition, in an order: numbers, neighbours, aggregates.

    Law:  at T, each tuple in its window is in the answer, with the values that SQL gives to its functions over the
          tuples in their windows that agree in `partition_by`, ordered by `order`.

    in     5 [1, 9)   3 [2, 5)   7 [3, 9)         out, row_number() OVER (ORDER BY v)
                                                  +(5, 1) at 1   +(3, 1) -(5, 1) +(5, 2) at 2   +(7, 3) at 3
                                                  -(5, 2) +(5, 1) -(7, 3) +(7, 2) at 5

Rows that `order` leaves equal are placed by `ties`, upwards with NULL behind all others, and then by when they expire;
rows that are equal in all of this change places with no one. So the answer follows from what is in the window alone,
and what was said of a row is found again from the rows as they were: nothing but these has to be kept.

Cost: where all functions look a fixed number of rows away (LAG, LEAD, frames of ROWS with two bounds), a row that comes
or goes costs as many rows. Else it costs its partition: all of it is gone through once as it was and once as it is, and
what comes out the same stays. State: the tuples in the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.kernels import over_runs as kernel
from sash.operators.accumulators.manner import SortKey
from sash.operators.grouping import differ
from sash.operators.keyed import Keys, with_identity
from sash.operators.ordered_partitions import OrderedPartitions
from sash.operators.row_frames import ListedRows, OverCall, evaluate
from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, ColumnLike, concat
from sash.store.keys import one_chunk
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory

ROWS_PER_CALL = 1 << 16
"""How many rows are listed at once, unless one partition has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSpec:
    """Passes on the `columns` of rows, and behind them one for each function.

    `ties`, some of the columns, place rows that are equal in order. `copy_column`, if given, numbers rows that are
    equal in all columns and expire together. `id_column`, if given, receives what identifies these; with the number it
    identifies a row.
    """

    columns: tuple[str, ...]
    ties: tuple[str, ...]
    partition_by: tuple[str, ...]
    order: tuple[tuple[str, SortKey], ...]
    calls: tuple[OverCall, ...]
    window_us: int | None
    expires_by_negatives: bool
    copy_column: str | None = None
    id_column: str | None = None

    def __post_init__(self) -> None:
        assert self.calls
        assert {*self.ties, *self.partition_by, *(name for name, _ in self.order)} <= set(self.columns)
        assert self.id_column is None or self.copy_column is not None

    @property
    def reach(self) -> int | None:
        """How many places away a row that comes or goes makes a difference; None if anywhere."""
        reaches = [call.reach for call in self.calls]
        return None if None in reaches else max(each for each in reaches if each is not None)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that functions read."""
        names = [name for call in self.calls for name in (call.argument, call.default) if name is not None]
        return tuple(dict.fromkeys([*names, *(name for name, _ in self.order)]))


class Over(Traced):
    """Runs an `OverSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace", "_keys", "_partitions")

    def __init__(self, spec: OverSpec, input: pa.Schema):
        self.spec = spec
        fields = [input.field(name) for name in spec.columns]
        self._input = pa.schema([*fields, *SIGNED_FIELDS])
        # Where nothing expires by itself, all rows have the same end.
        self._ends = () if spec.window_us is None else (EXPIRES,)
        self._key_schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in self._ends)])
        made = [pa.field(call.name, call.type) for call in spec.calls]
        numbers = [pa.field(name, pa.int64()) for name in (spec.copy_column, spec.id_column) if name]
        self.schema = pa.schema([*fields, *made, *numbers, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        spec = self.spec
        # The identity of a row says all that tells it from others, in a single number.
        logged, identity = with_identity(self._input, True), with_identity(pa.schema([]), True)
        self._trace = Trace(logged, spec.window_us, spec.expires_by_negatives, arena, identity)
        self._keys = Keys(self._key_schema, True, arena)
        columns = pa.schema([self._input.field(name) for name in spec.partition_by])
        # What is not among the ties comes last: then equal bytes are equal rows.
        ties = (*spec.ties, *self._ends, *(name for name in spec.columns if name not in spec.ties))
        self._partitions = OrderedPartitions(columns, spec.order, ties, arena)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        tuples = batch.select(self._input.names)
        ids = self._keys.encode(tuples)
        self._partitions.meet(self._keys)
        events = self._trace.step(self._keys.identify(tuples, ids), ids, clock)
        changes = list(self._follow(events))
        self._trace.evict()
        self._forget_rows()
        return concat(changes) if changes else self.schema.empty_table()

    def traces(self) -> dict[str, Trace]:
        return {"window": self._trace}

    def registers(self) -> dict[str, int]:
        return {**super().registers(), "next_identity": self._keys.next_identity}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        clock, number = registers["clock"], registers["window"]
        for events in self._trace.restore(entries["window"], number, clock, self._keys.recall):
            self._partitions.meet(self._keys)
            kernel.place_rows(events.ids, events.signs, self._placed, self._partitions.treaps)
        self._keys.next_identity = registers["next_identity"]

    @property
    def _placed(self) -> kernel.PlacedRows:
        partitions = self._partitions
        return kernel.PlacedRows(partitions.owners, partitions.counts, partitions.key_lengths)

    def _follow(self, events: Events) -> Iterator[pa.Table]:
        """The changes that follow from events, some runs at a time."""
        owners = self._partitions.owners[events.ids]
        order = np.lexsort((owners, events.times))
        times, rows, signs, owners = (each[order] for each in (events.times, events.ids, events.signs, owners))
        is_new = np.ones(len(times), np.bool_)
        is_new[1:] = (times[1:] != times[:-1]) | (owners[1:] != owners[:-1])
        starts = np.flatnonzero(is_new)
        moves = kernel.OverEvents(np.append(starts, len(times)), rows, signs)
        first, n_runs, room = 0, len(starts), ROWS_PER_CALL
        reach = -1 if self.spec.reach is None else self.spec.reach
        while first < n_runs:
            out = _make_room(n_runs - first, room)
            following, n_out = kernel.follow(first, moves, reach, self._placed, self._partitions.treaps, out)
            if following > first:
                yield from self._changes(times[starts[first:following]], _filled(out, following - first, n_out))
            room = room if following > first else 2 * room
            first = following

    def _changes(self, times: np.ndarray, listed: kernel.Listings) -> Iterator[pa.Table]:
        """How rows change from the first to the second listing of each run: what is taken back, then what is added."""
        starts = np.append(listed.bounds[:, kernel.FIRST], len(listed.rows))
        distinct, which = np.unique(listed.rows, return_inverse=True)
        held, where = self._keys.take(distinct), pa.array(which)
        columns = {name: one_chunk(held[name]).take(where) for name in self.spec.read}
        key = self.spec.order[0] if len(self.spec.order) == 1 else None
        rows = ListedRows(starts, listed.bounds[:, kernel.PLACE], listed.begins_class, columns, key)
        values = [evaluate(call, rows) for call in self.spec.calls]
        bounds = listed.bounds[rows.listing]
        shown = (bounds[:, kernel.SHOWN] <= rows.places) & (rows.places < bounds[:, kernel.SHOWN_END])
        for sign, places in _changed(np.flatnonzero(shown), rows.listing, listed, values):
            ts = times[rows.listing[places] // 2]
            taken = [each.take(pa.array(places)) for each in values]
            yield self._rows(ts, listed.rows[places], listed.copies[places], taken, sign)

    def _rows(
        self, ts: np.ndarray, rows: np.ndarray, copies: np.ndarray, values: list[pa.Array], sign: int
    ) -> pa.Table:
        columns: dict[str, ColumnLike] = {EXPIRES: np.full(len(rows), NEVER), **self._keys.take(rows)}
        columns |= {call.name: array for call, array in zip(self.spec.calls, values, strict=True)}
        if self.spec.copy_column:
            columns[self.spec.copy_column] = copies
        if self.spec.id_column:
            columns[self.spec.id_column] = self._keys.identities(rows)
        columns |= {TS: ts, OP: np.full(len(rows), sign, np.int8)}
        changes = pa.table([columns[name] for name in self.schema.names], schema=self.schema)
        if self.spec.expires_by_negatives or sign > 0:
            return changes
        early = ts < changes.column(EXPIRES).to_numpy()
        return changes if early.all() else changes.filter(pa.array(early))

    def _forget_rows(self) -> None:
        """Numbers rows anew once most have gone, and then partitions as well."""
        mapping = self._keys.compact(self._partitions.counts > 0)
        if mapping is not None:
            self._partitions.forget(mapping)
            self._trace.renumber(mapping)


def _make_room(n_runs: int, n_rows: int) -> kernel.Listings:
    bounds, (rows, copies) = np.empty((2 * n_runs, kernel.BOUNDS_WIDTH), np.int64), np.empty((2, n_rows), np.int64)
    return kernel.Listings(bounds, rows, copies, np.empty(n_rows, np.bool_))


def _filled(out: kernel.Listings, n_runs: int, n_rows: int) -> kernel.Listings:
    bounds, rows, copies, begins = out
    return kernel.Listings(bounds[: 2 * n_runs], rows[:n_rows], copies[:n_rows], begins[:n_rows])


def _changed(
    shown: np.ndarray, listing: np.ndarray, listed: kernel.Listings, values: list[pa.Array]
) -> Iterator[tuple[int, np.ndarray]]:
    """The places of what was there and is so no more, and of what was not; each with the sign that it gets."""
    side, run = listing[shown] % 2, listing[shown] // 2
    order = np.lexsort((side, listed.copies[shown], listed.rows[shown], run))
    places, side, run = shown[order], side[order], run[order]
    is_same = (run[1:] == run[:-1]) & (listed.rows[places[1:]] == listed.rows[places[:-1]])
    pairs = np.flatnonzero(is_same & (listed.copies[places[1:]] == listed.copies[places[:-1]]))
    before, after = pa.array(places[pairs]), pa.array(places[pairs + 1])
    stays = np.ones(len(pairs), np.bool_)
    for each in values:
        stays &= ~differ(each.take(before), each.take(after))
    is_changed = np.ones(len(places), np.bool_)
    is_changed[pairs[stays]] = is_changed[pairs[stays] + 1] = False
    yield -1, places[is_changed & (side == 0)]
    yield +1, places[is_changed & (side == 1)]
