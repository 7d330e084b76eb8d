"""Top-k over groups: the first of rows of which each has a key of its own, as those of GROUP BY.

    Law:  that of `operators/top_k.py`, without partitions; of the rows that are there, no two have the same key.

    in    +a 5 at 1   +b 3 at 2   -a 5 +a 2 at 4          out, ORDER BY v LIMIT 1    +a 5 at 1   -a 5 +b 3 at 2
                                                                                     -b 3 +a 2 at 4

A row is taken back by its key alone. Most rows of many groups are far from the first, and change all the time: those
behind a *fence*, a number that the first column of the order is compared with, lie in no order, and of what happens to
them in a step only the last counts. Of those in front, all that happens is followed. There are always at least as many
of these as are shown; before a step in which there would not be, the fence moves back.

    shown │ in front, in order │ behind, in no order
          last               fence

State: the rows that are there, in a log: a step appends the rows of the groups that it touches, and deletes what stood
there of them before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from sash.kernels import group_rank_runs as kernel
from sash.operators.front_rows import FrontRows
from sash.operators.keyed import MIN_DEAD, Keys, with_identity
from sash.operators.operator import Unpaced
from sash.operators.row_order import GREATEST, LEAST
from sash.operators.top_k import TopK, TopKSpec
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, ColumnLike, int64_column, signs
from sash.store.block import Block
from sash.store.block_log import BlockLog
from sash.store.group_array import GroupArray
from sash.store.key_index import one_zero_one_nan
from sash.store.keys import one_chunk
from sash.store.vector import Arena, Memory

LEAST_IN_FRONT, FRONT_SHARE, N_TIMES_SHOWN = 64, 256, 4
"""So many rows are in front of a fence that was moved, at least, and one of so many, and so many times those shown."""
MAX_BLOCKS = 256
MIN_BLOCK_ROWS = 1 << 16


def serves(spec: TopKSpec) -> bool:
    """Whether rows can be told apart by keys, and the first ones without looking at all others."""
    return bool(spec.unique_by) and not spec.partition_by and spec.function != "dense_rank" and spec.window_us is None


def make_top_k(spec: TopKSpec, input: pa.Schema) -> TopK | GroupTopK:
    """What runs a top-k."""
    return GroupTopK(spec, input) if serves(spec) else TopK(spec, input)


class _Step(NamedTuple):
    """What comes in a step, in order of arrival: rows, their groups, and when they come and go, in this order."""

    rows: pa.Table
    groups: np.ndarray
    times: np.ndarray
    signs: np.ndarray
    words: np.ndarray
    order: np.ndarray


class GroupTopK(Unpaced):
    """Runs a `TopKSpec` that `serves`."""

    STATE: ClassVar[tuple[str, ...]] = ("_log", "_keys", "_states", "_front", "_fence", "_n_there", "_n_looked_through")

    def __init__(self, spec: TopKSpec, input: pa.Schema):
        assert serves(spec)
        self.spec = spec
        self._content = pa.schema([input.field(name) for name in spec.read])
        ids = [pa.field(spec.id_column, pa.int64())] if spec.id_column else []
        self.schema = pa.schema([*(input.field(name) for name in spec.columns), *ids, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        has_identity = self.spec.id_column is not None
        self._keys = Keys(pa.schema([self._content.field(name) for name in self.spec.unique_by]), has_identity, arena)
        self._log = BlockLog(with_identity(self._content, has_identity), arena)
        self._states = GroupArray(np.int64, arena, (kernel.STATE_WIDTH,))
        self._front = FrontRows(self.spec, self._content, arena)
        self._fence = GREATEST
        """Nothing is behind it."""
        self._n_there = 0
        """Rows that are there."""
        self._n_looked_through = 0
        """So many rows were in front when none of them could go behind the fence."""

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        if not batch.num_rows:
            return self.schema.empty_table()
        step = self._read(batch)
        while self._least_in_front(step) < self.spec.last and self._fence != GREATEST:
            self._move_back(self.spec.last - self._least_in_front(step))
        changes, touched = self._follow(step)
        self._write(step, touched)
        self._move_forth()
        self._forget()
        return changes

    def logs(self) -> dict[str, BlockLog]:
        return {"window": self._log}

    def registers(self) -> dict[str, int]:
        return {"window": self._log.next_number, "next_identity": self._keys.next_identity}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._log.restore(entries["window"], registers["window"])
        for block in self._log.blocks:
            self._recall(block)
        self._keys.next_identity = registers["next_identity"]
        self._fence = LEAST
        self._move_back(self.spec.last)

    def _read(self, batch: pa.Table) -> _Step:
        columns = [_plain(batch.column(field.name), field) for field in self._content]
        rows = pa.table(columns, schema=self._content)
        times, ops = int64_column(batch, TS), signs(batch)
        groups = self._keys.encode(rows)
        self._states.reserve(self._keys.n_ids)
        return _Step(rows, groups, times, ops, self._front.leading.words(rows), _order_of(times, ops))

    def _least_in_front(self, step: _Step) -> int:
        """How many rows are in front of the fence when there are the fewest, if it stays."""
        happens = np.where(step.words <= self._fence, step.signs, 0)[step.order]
        return self._front.n_alive + int(np.cumsum(happens, dtype=np.int64).min(initial=0))

    def _follow(self, step: _Step) -> tuple[pa.Table, np.ndarray]:
        """The changes of what is shown, and the groups that are touched."""
        n_rows, n_known = len(step.groups), self._front.n_entries
        events = kernel.GroupEvents(step.order, step.times, step.groups, step.signs, step.words <= self._fence)
        happens = kernel.FrontEvents(*np.empty((3, n_rows), np.int64))
        new, touched = kernel.NewEntries(*np.empty((3, n_rows), np.int64)), np.empty(n_rows, np.int64)
        states = self._states.array
        n_happens, n_new, n_touched = kernel.sort_out(events, states, n_known, happens, new, touched)
        self._front.append(step.rows.take(pa.array(new.rows[:n_new])).combine_chunks(), new.groups[:n_new])
        united = np.empty(n_new, np.int64)
        kernel.unite(n_known, new, self._front.shown.order.words, states, united)
        at, entries = happens.rows[:n_happens], happens.entries[:n_happens]
        is_new = entries >= n_known
        entries[is_new] = united[entries[is_new] - n_known]
        return self._changes(step.times[at], entries, step.signs[at]), touched[:n_touched]

    def _changes(self, times: np.ndarray, entries: np.ndarray, ops: np.ndarray) -> pa.Table:
        is_new = np.ones(len(times), np.bool_)
        is_new[1:] = times[1:] != times[:-1]
        shown = self._front.follow(np.cumsum(is_new) - 1, entries, ops)
        rows = self._front.take(shown.row)
        columns: dict[str, ColumnLike] = dict(zip(rows.column_names, rows.columns, strict=True))
        columns |= {TS: times[is_new][shown.run], OP: shown.sign, EXPIRES: np.full(len(shown.row), NEVER)}
        if self.spec.id_column:
            columns[self.spec.id_column] = self._keys.identities(self._front.groups[shown.row])
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _write(self, step: _Step, touched: np.ndarray) -> None:
        """Puts the rows of groups into the log, in place of what was there of them."""
        out = kernel.LogChanges(*np.empty((3, len(touched)), np.int64))
        n_gone, n_rows = kernel.place(touched, step.signs, self._log.next_row, self._states.array, out)
        self._log.delete(out.gone[:n_gone])
        self._n_there += n_rows - n_gone
        if n_rows:
            rows = step.rows.take(pa.array(out.rows[:n_rows]))
            self._log.append(self._keys.identify(rows, out.groups[:n_rows]))

    def _move_back(self, n_missing: int) -> None:
        """Moves the fence such that so many rows more, and some to spare, are in front of it; none of them is shown."""
        states = self._states.array
        behind = np.flatnonzero((states[:, kernel.PLACE] > 0) & (states[:, kernel.ENTRY] == 0))
        places, leading = states[behind, kernel.PLACE] - 1, self._front.leading
        words, n_wanted = leading.words(self._log.take(places, [leading.name])), n_missing + self._n_wanted
        self._fence = GREATEST if len(behind) <= n_wanted else int(np.partition(words, n_wanted - 1)[n_wanted - 1])
        chosen, n_known = np.flatnonzero(words <= self._fence), self._front.n_entries
        self._front.append(self._log.take(places[chosen], self._content.names).combine_chunks(), behind[chosen])
        entries = n_known + np.arange(len(chosen))
        states[behind[chosen], kernel.ENTRY] = entries + 1
        self._front.follow(np.zeros(len(chosen), np.int64), entries, np.ones(len(chosen), np.int8))
        self._n_looked_through = 0

    def _move_forth(self) -> None:
        """Once twice as many rows are in front of the fence as should be, lets some go behind it; none is shown."""
        n_front, n_wanted = self._front.n_alive, self._n_wanted
        self._n_looked_through = min(self._n_looked_through, n_front)
        if n_front <= 2 * max(n_wanted, self._n_looked_through):
            return
        self._fence, entries = self._front.beyond(n_wanted)
        self._states.array[self._front.groups[entries], kernel.ENTRY] = 0
        self._front.follow(np.zeros(len(entries), np.int64), entries, np.full(len(entries), -1, np.int8))
        self._n_looked_through = self._front.n_alive

    @property
    def _n_wanted(self) -> int:
        """How many rows should be in front of the fence."""
        return max(N_TIMES_SHOWN * self.spec.last, LEAST_IN_FRONT, self._n_there // FRONT_SHARE)

    def _forget(self) -> None:
        """Numbers entries and groups anew once most have gone, and rewrites the log once most of it has."""
        states = self._states.array
        if self._front.compact():
            entries = np.flatnonzero(self._front.shown.are_there())
            states[self._front.groups[entries], kernel.ENTRY] = entries + 1
        if self._keys.n_ids > 2 * self._n_there + MIN_DEAD:
            mapping = self._keys.compact(states[:, kernel.PLACE] > 0)
            assert mapping is not None
            self._states.compact(mapping)
            groups = self._front.groups
            groups[:] = mapping[groups]
        self._compact_log()

    def _compact_log(self) -> None:
        if self._log.rows.n_rows <= 2 * self._n_there + MIN_DEAD and len(self._log.blocks) <= MAX_BLOCKS:
            return
        places, first = self._states.array[:, kernel.PLACE], self._log.next_row
        there, groups = np.flatnonzero(places), np.full(self._log.rows.n_rows, -1)
        groups[places[there] - 1 - self._log.rows.base] = there
        self._log.compact(_sliced)
        places[groups[groups >= 0]] = np.arange(first, first + len(there)) + 1

    def _recall(self, block: Block) -> None:
        """Becomes what a block of the log says of its groups; all rows are behind the fence."""
        alive = block.first + np.flatnonzero(~self._log.is_dead(block))
        groups = self._keys.recall(self._log.take(alive))
        self._states.reserve(self._keys.n_ids)
        self._states.array[groups, kernel.PLACE] = alive + 1
        self._n_there += len(alive)


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """A column as one array of its declared type, with one zero and one NaN."""
    array = one_chunk(column)
    array = array if array.type == field.type else array.cast(field.type)
    return one_zero_one_nan(array) if pa.types.is_floating(field.type) else array


def _order_of(times: np.ndarray, ops: np.ndarray) -> np.ndarray:
    """The order of what happens: by time, and what goes before what comes."""
    order = np.argsort(times, kind="stable")
    ordered, happens = times[order], ops[order]
    is_wrong = (ordered[1:] == ordered[:-1]) & (happens[1:] < happens[:-1])
    return np.lexsort((ops, times)) if is_wrong.any() else order


def _sliced(rows: pa.Table) -> Iterator[pa.Table]:
    """Few blocks, none of them huge."""
    n_rows = max(MIN_BLOCK_ROWS, 4 * rows.num_rows // MAX_BLOCKS)
    for start in range(0, rows.num_rows, n_rows):
        yield rows.slice(start, n_rows)
