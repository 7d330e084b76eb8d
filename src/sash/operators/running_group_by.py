"""W-GROUP BY and W-Aggregate over a landmark window, which no tuple ever leaves: one row per group, for ever.

    Law:  at T the answer has, for each group with a tuple since the landmark, the aggregates of these tuples that SQL
          would give. Without keys there is one group, which is always there: COUNT 0 over nothing.

    in     +a 5 at 1   +a 7 at 2   +b 1 at 2           out, SUM    +a 5 at 1, -a 5 +a 12 +b 1 at 2

What happens to a group at one instant happens at once: its row changes once, or not at all if it comes out the same.
As no tuple leaves, none is kept. State: for each group its key and what its aggregates have come to, in a log: a step
appends the groups that it touches and deletes what stood there of them before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators.accumulators import make_running_accumulator
from sash.operators.grouping import Course, Grouping, GroupRows
from sash.operators.keyed import IDENTITY, Keys
from sash.operators.operator import Unpaced
from sash.store.batch import BEGINNING, EXPIRES, NEVER, TS, ColumnLike, concat, int64_column, signs
from sash.store.block import Block
from sash.store.block_log import BlockLog
from sash.store.group_array import GroupArray
from sash.store.trace import Events
from sash.store.vector import Arena, Memory

MIN_GONE = 1024
MAX_BLOCKS = 256
MIN_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGroupBySpec(Grouping):
    """Over tuples that neither expire nor are taken back; of its aggregates each has a bounded state."""


class RunningGroupBy(Unpaced):
    """Runs a `RunningGroupBySpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_log", "_keys", "_places", "_accumulators", "_has_started")

    def __init__(self, spec: RunningGroupBySpec, input: pa.Schema):
        self.spec = spec
        self._rows = GroupRows(spec, input)
        self.schema = self._rows.schema
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._keys = Keys(self._rows.key_schema, self.spec.id_column is not None, arena)
        self._accumulators = self._rows.make_accumulators(make_running_accumulator, arena)
        self._log = BlockLog(self._written(np.empty(0, np.int64)).schema, arena)
        self._places = GroupArray(np.int64, arena)
        """The row of each group in the log, from 1 on; 0 if it has none."""
        self._has_started = False

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        assert np.all(signs(batch) > 0), "a tuple is taken back"
        assert np.all(int64_column(batch, EXPIRES) == NEVER), "a tuple expires"
        changes = [*self._start(batch), *self._apply(batch)]
        return concat(changes) if changes else self.schema.empty_table()

    def logs(self) -> dict[str, BlockLog]:
        return {"groups": self._log}

    def registers(self) -> dict[str, int]:
        return {
            "groups": self._log.next_number,
            "next_identity": self._keys.next_identity,
            "has_started": int(self._has_started),
        }

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._log.restore(entries["groups"], registers["groups"])
        for block in self._log.blocks:
            self._read(block)
        self._keys.next_identity = registers["next_identity"]
        self._has_started = bool(registers["has_started"])

    def _start(self, batch: pa.Table) -> list[pa.Table]:
        """The row over nothing, of the one group that is always there; not if something is there from the beginning."""
        if self._has_started or self.spec.keys:
            return []
        self._has_started = True
        is_empty = bool(np.all(int64_column(batch, TS) > BEGINNING))
        return [self._rows.start(self._keys, self._accumulators)] if is_empty else []

    def _apply(self, batch: pa.Table) -> list[pa.Table]:
        """The changes of the answer that follow from these tuples."""
        if not batch.num_rows:
            return []
        n_known = self._keys.n_ids
        events = Events([batch], int64_column(batch, TS), self._keys.encode(batch), signs(batch))
        course = self._accumulate(events, n_known)
        self._write(np.unique(events.run_ids))
        return self._rows.changes(self._keys, events.run_ids, events.run_times, course)

    def _accumulate(self, events: Events, n_known: int) -> Course:
        """A group is there from its first run on."""
        n_runs = len(events.run_ids)
        was_there, is_there = events.run_times > BEGINNING, np.ones(n_runs, np.bool_)
        groups, first_runs = np.unique(events.run_ids, return_index=True)
        was_there[first_runs[groups >= n_known]] = False
        return Course(was_there, is_there, *self._rows.follow(events, self._keys.n_ids, self._accumulators))

    def _write(self, groups: np.ndarray) -> None:
        """Puts the state of groups into the log, in place of what was there of them."""
        self._places.reserve(self._keys.n_ids)
        places = self._places.array[groups]
        self._log.delete(places[places > 0] - 1)
        block = self._log.append(self._written(groups))
        self._places.array[groups] = np.arange(block.first, block.last) + 1
        self._compact()

    def _compact(self) -> None:
        """Gives back the room of rows that are gone, once they are most, and makes few blocks of many."""
        n_groups = self._keys.n_ids
        if self._log.rows.n_rows <= 2 * n_groups + MIN_GONE and len(self._log.blocks) <= MAX_BLOCKS:
            return
        in_log = np.argsort(self._places.array)
        first = self._log.next_row
        self._log.compact(_sliced)
        self._places.array[in_log] = np.arange(first, first + n_groups) + 1

    def _written(self, groups: np.ndarray) -> pa.Table:
        """The rows of groups as they stand in the log."""
        columns: dict[str, ColumnLike] = dict(self._keys.take(groups))
        if self.spec.id_column or not self.spec.keys:
            columns[IDENTITY] = self._keys.identities(groups)
        for number, accumulator in enumerate(self._accumulators):
            columns |= {f"_state.{number}.{idx}": each for idx, each in enumerate(accumulator.dump(groups))}
        return pa.table(columns)

    def _read(self, block: Block) -> None:
        """Becomes what a block of the log says of its groups."""
        alive = np.flatnonzero(~self._log.is_dead(block))
        rows = self._log.rows.take(block.first + alive).combine_chunks()
        groups = self._keys.recall(rows)
        self._places.reserve(self._keys.n_ids)
        self._places.array[groups] = block.first + alive + 1
        for number, accumulator in enumerate(self._accumulators):
            names = [name for name in rows.column_names if name.startswith(f"_state.{number}.")]
            accumulator.load(groups, [rows.column(name).chunk(0) for name in names])


def _sliced(rows: pa.Table) -> Iterator[pa.Table]:
    """Few blocks, none of them huge."""
    n_rows = max(MIN_BLOCK_ROWS, 4 * rows.num_rows // MAX_BLOCKS)
    for start in range(0, rows.num_rows, n_rows):
        yield rows.slice(start, n_rows)
