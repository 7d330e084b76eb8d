"""The log of blocks against a plain dict of rows, and its journal against the log itself.

Law: a store that was told of every change (`take_changes`) holds entries that restore to the same log.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sash.store.block import BLOCK_PREFIX, NOTE_PREFIX
from sash.store.block_log import BlockLog
from sash.store.codec import decode_table, encode_table
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena

SCHEMA = pa.schema([("value", pa.int64()), ("name", pa.string())])


def make_table(values: list[int]) -> pa.Table:
    return pa.table(
        {"value": values, "name": [None if value % 5 == 0 else str(value) for value in values]}, schema=SCHEMA
    )


def living_rows(log: BlockLog) -> dict[int, int]:
    """Row number to value, of the rows that are not dead."""
    return {
        block.first + int(offset): log.read(block)["value"][int(offset)].as_py()
        for block in log.blocks
        for offset in np.flatnonzero(~log.is_dead(block))
    }


def values(log: BlockLog) -> list[int]:
    return list(living_rows(log).values())


def apply_changes(store: dict[str, bytes], log: BlockLog) -> None:
    puts, deletes = log.take_changes()
    assert not puts.keys() & set(deletes)
    store.update(puts)
    for key in deletes:
        del store[key]  # a KeyError here would be a delete of what was never put


def restored(entries: Mapping[str, bytes], next_number: int) -> BlockLog:
    log = BlockLog(SCHEMA)
    log.restore(entries, next_number)
    return log


class LogMachine(RuleBasedStateMachine):
    """Does to a log what windows do to it, in any order."""

    @initialize()
    def begin(self) -> None:
        self.log = BlockLog(SCHEMA)
        self.rows: dict[int, int] = {}
        self.store: dict[str, bytes] = {}
        self.n_made = 0

    @rule(n_rows=st.integers(1, 6))
    def append(self, n_rows: int) -> None:
        block = self._append(n_rows, is_kept=True)
        self.rows.update(zip(range(block.first, block.last), self.log.read(block)["value"].to_pylist(), strict=True))

    @rule(n_rows=st.integers(1, 4), dies=st.booleans())
    def append_for_one_step(self, n_rows: int, dies: bool) -> None:
        block = self._append(n_rows, is_kept=False)
        if dies:
            self.log.delete(np.arange(block.first, block.last))
        self.log.drop([block])

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.rows)), min_size=1, max_size=8, unique=True))
        self.log.delete(np.array(gone))
        for row in gone:
            del self.rows[row]

    @precondition(lambda self: self.log.blocks)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        blocks = data.draw(st.lists(st.sampled_from(range(len(self.log.blocks))), unique=True))
        gone = [self.log.blocks[idx] for idx in blocks]
        self.log.drop(gone)
        self.rows = {row: value for row, value in self.rows.items() if not any(b.first <= row < b.last for b in gone)}

    @precondition(lambda self: self.log.blocks)
    @rule()
    def compact(self) -> None:
        first, values = self.log.next_row, [self.rows[row] for row in sorted(self.rows)]
        self.log.compact()
        self.rows = dict(zip(range(first, first + len(values)), values, strict=True))
        assert len(self.log.blocks) == 1
        assert self.log.n_rows == len(values)

    @rule()
    def checkpoint(self) -> None:
        apply_changes(self.store, self.log)
        assert values(restored(self.store, self.log.next_number)) == values(self.log)

    @rule()
    def restart_from_store(self) -> None:
        apply_changes(self.store, self.log)
        self.log = restored(self.store, self.log.next_number)
        assert values(self.log) == list(self.rows.values())
        self.rows = living_rows(self.log)

    @rule()
    def trim(self) -> None:
        self.log.trim()

    @rule()
    def copy_whole(self) -> None:
        copy = restored(self.log.entries(), self.log.next_number)
        assert values(copy) == values(self.log)
        assert copy.take_changes() == ({}, [])

    @invariant()
    def holds_the_rows(self) -> None:
        assert living_rows(self.log) == self.rows
        rows = np.array(sorted(self.rows)[::-1], np.int64)
        assert self.log.rows.take(rows).equals(make_table([self.rows[row] for row in rows.tolist()]).cast(SCHEMA))

    @invariant()
    def counts_and_orders(self) -> None:
        blocks = self.log.blocks
        assert self.log.n_rows == sum(block.n_rows for block in blocks)
        assert all(block.n_alive for block in blocks)
        assert all(a.last <= b.first for a, b in pairwise(blocks))
        assert self.log.base == (blocks[0].first if blocks else self.log.next_row)
        assert all(block.last <= self.log.next_row for block in blocks)

    def _append(self, n_rows: int, is_kept: bool):
        values = list(range(self.n_made, self.n_made + n_rows))
        self.n_made += n_rows
        return self.log.append(make_table(values), is_kept)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(stateful_step_count=25, deadline=None)


def test_a_batch_writes_its_own_rows_only() -> None:
    log = BlockLog(SCHEMA)
    log.append(make_table(list(range(1000))))
    whole, _ = log.take_changes()
    log.append(make_table([1, 2]))
    log.delete(np.array([3, 4]))
    puts, deletes = log.take_changes()
    assert deletes == []
    assert sorted(puts) == [f"{BLOCK_PREFIX}1", f"{NOTE_PREFIX}0.0"]
    assert sum(map(len, puts.values())) < sum(map(len, whole.values())) / 10


def test_what_came_and_went_between_two_checkpoints_is_not_written() -> None:
    log = BlockLog(SCHEMA)
    log.append(make_table([1, 2]))
    log.delete(np.array([0]))
    log.delete(np.array([1]))
    assert log.take_changes() == ({}, [])


def test_a_block_goes_with_its_notes() -> None:
    log = BlockLog(SCHEMA)
    log.append(make_table([1, 2, 3]))
    log.delete(np.array([0]))
    log.take_changes()
    log.delete(np.array([1]))
    log.delete(np.array([2]))
    assert log.take_changes() == ({}, [f"{BLOCK_PREFIX}0", f"{NOTE_PREFIX}0.0"])


def test_rows_may_be_deleted_twice() -> None:
    log = BlockLog(SCHEMA)
    log.append(make_table([1, 2]))
    log.delete(np.array([0, 0]))
    log.delete(np.array([0]))
    assert living_rows(log) == {1: 2}
    assert living_rows(restored(log.take_changes()[0], log.next_number)) == {1: 2}


def test_restore_forgets_what_was_there() -> None:
    other = BlockLog(SCHEMA)
    other.append(make_table([7]))
    log = BlockLog(SCHEMA)
    log.append(make_table([1, 2]))
    log.restore(other.entries(), other.next_number)
    assert living_rows(log) == {0: 7}
    assert log.take_changes() == ({}, [])


@pytest.mark.parametrize("n_blocks", [0, 1, 3])
def test_take_gives_rows_in_the_order_asked_for(n_blocks: int) -> None:
    log = BlockLog(SCHEMA)
    for block in range(n_blocks):
        log.append(make_table([10 * block, 10 * block + 1]))
    rows = np.array([2 * n_blocks - 1, 0, 0] if n_blocks else [], np.int64)
    expected = [10 * (n_blocks - 1) + 1, 0, 0] if n_blocks else []
    assert log.rows.take(rows)["value"].to_pylist() == expected
    assert log.rows.take(rows).schema == SCHEMA


def test_compaction_cuts_as_asked_and_forgets_what_is_left_out() -> None:
    log = BlockLog(SCHEMA)
    log.append(make_table([1, 2, 3, 4]))
    log.delete(np.array([1]))
    log.compact(lambda rows: [rows.slice(0, 1), rows.slice(2, 1)])
    assert living_rows(log) == {4: 1, 5: 4}
    assert [block.first for block in log.blocks] == [4, 5]


def test_sparse_is_more_dead_than_alive() -> None:
    log = BlockLog(SCHEMA)
    log.append(make_table(list(range(100))))
    log.delete(np.arange(50))
    assert not log.is_sparse
    log.delete(np.array([50]))
    assert log.is_sparse
    log.compact()
    assert not log.is_sparse
    assert log.rows.take(np.array([log.base]))["value"].to_pylist() == [51]


@pytest.mark.parametrize(
    "table",
    [
        make_table([]),
        make_table([1, 5]).slice(1),
        pa.table({"nested": [[1, None], None], "text": ["é", ""]}),
        pa.concat_tables([make_table([1]), make_table([2])]),
    ],
    ids=["empty", "sliced", "nested", "chunked"],
)
def test_encoding_keeps_every_value(table: pa.Table) -> None:
    assert decode_table(encode_table(table)).equals(table)


def test_compaction_takes_what_a_step_may_have_at_once(tmp_path: Path) -> None:
    log = BlockLog(SCHEMA, SpillArena(MemoryBudget(1 << 20, 200, 1 << 12, tmp_path)))
    for first in range(0, 100, 10):
        log.append(make_table(list(range(first, first + 10))))
    log.delete(np.flatnonzero(np.arange(100) % 4))
    n_read: list[int] = []

    def cut(rows: pa.Table) -> list[pa.Table]:
        n_read.append(rows.num_rows)
        return [rows]

    log.compact(cut)
    assert max(n_read) < sum(n_read) == 25
    assert values(log) == list(range(0, 100, 4))
    assert values(restored(log.entries(), log.next_number)) == list(range(0, 100, 4))
