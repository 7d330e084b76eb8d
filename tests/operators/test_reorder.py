"""Tuples held back until the clock has passed them.

Law: at clock T exactly the tuples with ts <= T have been released, in total order, whatever the batches.
"""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.errors import ResourceError, SourceError
from sash.operators.pacing import paces
from sash.operators.reorder import Reorder, ReorderSpec
from sash.store.batch import NEVER, OP, SIGNED_FIELDS, TS, concat
from sash.store.bites import Use
from sash.store.codec import decode_table
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena
from sash.store.spill_pages import PageWriter
from sash.store.vector import Arena, Memory

SCHEMA = pa.schema([*SIGNED_FIELDS, ("A.v", pa.int64()), ("A.seq", pa.int64())])
TOTAL = ReorderSpec(is_total=True)

Row = tuple[int, int | None, int]


def tuples(rows: list[Row]) -> pa.Table:
    """Rows of (ts, v, seq)."""
    ts, v, seq = ([row[idx] for row in rows] for idx in range(3))
    n_rows = len(rows)
    return pa.table([ts, [NEVER] * n_rows, [1] * n_rows, v, seq], schema=SCHEMA)


def rows_of(batch: pa.Table) -> list[Row]:
    return list(zip(batch[TS].to_pylist(), batch["A.v"].to_pylist(), batch["A.seq"].to_pylist(), strict=True))


def restart(operator: Reorder, arena: Arena | None = None) -> Reorder:
    fresh = Reorder(operator.spec, SCHEMA)
    fresh.reset(arena or Memory())
    fresh.restore({name: log.entries() for name, log in operator.logs().items()}, operator.registers())
    return fresh


def test_a_tuple_is_released_when_the_clock_reaches_it() -> None:
    """
    arrives   3   1   2        clock 0     clock 2     clock 3
    released                   -           1 2         3
    """
    operator = Reorder(TOTAL, SCHEMA)
    assert rows_of(operator.process([tuples([(3, 0, 0), (1, 0, 0), (2, 0, 0)])], 0)) == []
    assert rows_of(operator.process([tuples([])], 2)) == [(1, 0, 0), (2, 0, 0)]
    assert rows_of(operator.process([tuples([])], 2)) == []
    assert rows_of(operator.process([tuples([])], 3)) == [(3, 0, 0)]
    assert operator.logs()["held"].n_rows == 0


def test_tuples_of_one_instant_come_by_content_null_first() -> None:
    operator = Reorder(TOTAL, SCHEMA)
    assert rows_of(operator.process([tuples([(1, 7, 0), (1, None, 9), (1, 7, -1), (1, -7, 5)])], 1)) == [
        (1, None, 9),
        (1, -7, 5),
        (1, 7, -1),
        (1, 7, 0),
    ]


def test_declared_tie_breakers_come_before_content() -> None:
    operator = Reorder(ReorderSpec(is_total=True, tie=("A.seq",)), SCHEMA)
    assert rows_of(operator.process([tuples([(1, 1, 3), (1, 2, 1), (1, 3, 2), (0, 9, 9)])], 1)) == [
        (0, 9, 9),
        (1, 2, 1),
        (1, 3, 2),
        (1, 1, 3),
    ]


def test_identities_are_given_once_and_go_on_after_a_restart() -> None:
    spec = ReorderSpec(is_total=False, id_column="_id.A")
    operator = Reorder(spec, SCHEMA)
    first = operator.process([tuples([(1, 0, 0), (2, 0, 0), (5, 0, 0)])], 2)
    assert first.schema == operator.schema
    assert first["_id.A"].to_pylist() == [0, 1]
    assert restart(operator).process([tuples([])], 5)["_id.A"].to_pylist() == [2]


def test_what_is_due_at_once_is_never_held() -> None:
    operator = Reorder(TOTAL, SCHEMA)
    operator.process([tuples([(1, 0, 0), (2, 0, 0)])], 2)
    assert operator.logs()["held"].take_changes() == ({}, [])


@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 2), st.integers(0, 2)), max_size=12),
    cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), st.booleans()), max_size=5),
    spec=st.sampled_from([TOTAL, ReorderSpec(is_total=True, tie=("A.seq",)), ReorderSpec(is_total=False)]),
)
@example([(1, 0, 0), (1, None, 0)], [(1, 0, True)], TOTAL)
def test_releases_do_not_depend_on_batches(
    rows: list[Row], cuts: list[tuple[int, int, bool]], spec: ReorderSpec
) -> None:
    """Rows come in parts, each followed by a clock; a row that the clock has passed would be late, so it stays away."""
    operator, clock, first = Reorder(spec, SCHEMA), -1, 0
    released, taken = [], []
    for upto, next_clock, restarts in [*sorted(cuts), (len(rows), 9, False)]:
        part = [row for row in rows[first : max(first, upto)] if row[0] > clock]
        first, clock = max(first, upto), max(clock, next_clock)
        taken += part
        batch = operator.process([tuples(part)], clock)
        released += rows_of(batch)
        assert [row[0] for row in released] == sorted(row[0] for row in taken if row[0] <= clock)
        operator = restart(operator) if restarts else operator
    if spec.is_total:
        whole = Reorder(spec, SCHEMA).process([tuples(taken)], 9)
        assert released == rows_of(whole)
    assert sorted(released, key=repr) == sorted(taken, key=repr)


SPILLED = "spilled"


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spill")


def arena_of(limit: str | int | None, spill: Path) -> Arena:
    """`SPILLED`: whatever is held when more comes is sealed, and a step has room for few rows."""
    if limit is None:
        return Memory()
    return SpillArena(MemoryBudget(1, 300, 1 << 14, spill) if limit == SPILLED else MemoryBudget.of(int(limit), spill))


def reorder_in(arena: Arena, spec: ReorderSpec = TOTAL) -> Reorder:
    operator = Reorder(spec, SCHEMA)
    operator.reset(arena)
    return operator


def decoded(operator: Reorder, clock: int) -> list[dict]:
    """What would survive and is held; what comes out bit by bit may have been in more blocks than what does at once."""
    entries = operator.logs()["held"].entries()
    rows = [
        row for key in sorted(entries, key=lambda key: int(key[1:])) for row in decode_table(entries[key]).to_pylist()
    ]
    return [row for row in rows if row[TS] > clock]


def release(operator: Reorder, batch: pa.Table, clock: int) -> list[pa.Table]:
    """As a pipeline does, bit by bit."""
    found = []
    for until in paces([operator], clock, Use.KEPT):
        found.append(operator.process([batch], until))
        batch = tuples([])
    return found


@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 2), st.integers(0, 2)), max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.booleans()), max_size=8),
    spec=st.sampled_from([TOTAL, ReorderSpec(True, ("A.seq",), "_id.A"), ReorderSpec(is_total=False)]),
    limit=st.sampled_from([SPILLED, 1 << 14, 1 << 16]),
)
@example([(n // 3, None, 0) for n in range(7)], [(6, 0, False)], TOTAL, SPILLED).via("more blocks if bit by bit")
@example([(1, 0, 0), (1, None, 0), (1, 7, 1), (1, 3, 0)], [(1, 0, False), (2, 0, True), (3, 0, False)], TOTAL, SPILLED)
def test_what_is_on_disk_does_not_show(
    spill: Path, rows: list[Row], cuts: list[tuple[int, int, bool]], spec: ReorderSpec, limit: str | int
) -> None:
    """Also of instants whose tuples are in several files and in memory; and the frontier is as far as ever."""
    operator, plain, clock, first = reorder_in(arena_of(limit, spill), spec), Reorder(spec, SCHEMA), -1, 0
    for upto, next_clock, restarts in [*sorted(cuts), (len(rows), 9, False)]:
        part = tuples([row for row in rows[first : max(first, upto)] if row[0] > clock])
        first, clock = max(first, upto), max(clock, next_clock)
        assert concat(release(operator, part, clock)).equals(plain.process([part], clock))
        assert operator.frontier(NEVER) == plain.frontier(NEVER)
        assert {**operator.registers(), "held": 0} == {**plain.registers(), "held": 0}
        if limit == SPILLED:
            assert len(operator.logs()["held"].head) <= 1
        if restarts:
            assert decoded(operator, clock) == decoded(plain, clock)
            operator = restart(operator, arena_of(limit, spill))
    assert operator.logs()["held"].n_rows == 0


def wide(first: int, n_rows: int) -> pa.Table:
    """Three rows of each instant."""
    return tuples([(number // 3, number % 7, number) for number in range(first, first + n_rows)])


@pytest.mark.slow
def test_a_stream_far_ahead_is_on_disk_and_comes_out_bit_by_bit(tmp_path: Path) -> None:
    """What is held is a hundred times what memory has room for."""
    arena = arena_of(1 << 14, tmp_path)
    assert isinstance(arena, SpillArena)
    operator, n_rows = reorder_in(arena), 40_000
    for first in range(0, n_rows, 100):
        assert not release(operator, wide(first, 100), -1)[0].num_rows
        assert arena.n_bytes <= arena.budget.state_bytes
        assert arena.n_file_bytes == 0
    assert operator.frontier(NEVER) == 0
    held = operator.logs()["held"]
    assert held.n_rows == n_rows
    assert held.n_head_rows < n_rows / 100
    assert len(list(tmp_path.iterdir())) >= len(held.segments) > 10
    released = release(operator, tuples([]), n_rows)
    assert max(table.nbytes for table in released) <= arena.budget.step_bytes
    assert concat(released).equals(Reorder(TOTAL, SCHEMA).process([wide(0, n_rows)], n_rows))
    assert list(tmp_path.iterdir()) == []


def test_files_go_when_the_clock_has_passed_them(tmp_path: Path) -> None:
    operator, n_rows = reorder_in(arena_of(1 << 14, tmp_path)), 6000
    for first in range(0, n_rows, 100):
        release(operator, wide(first, 100), -1)
    before = len(list(tmp_path.iterdir()))
    release(operator, tuples([]), n_rows // 6)
    assert before // 3 < len(list(tmp_path.iterdir())) < 2 * before // 3 + 1


def test_nothing_is_written_while_what_is_held_fits(tmp_path: Path) -> None:
    operator = reorder_in(arena_of(1 << 20, tmp_path / "not there"))
    release(operator, wide(0, 600), -1)
    assert concat(release(operator, tuples([]), 600)).num_rows == 600
    assert not (tmp_path / "not there").exists()


@pytest.mark.slow
def test_it_is_sealed_as_it_is_restored(tmp_path: Path) -> None:
    """A restart has no more memory than the run before."""
    operator, n_rows = reorder_in(arena_of(1 << 14, tmp_path)), 4000
    for first in range(0, n_rows, 100):
        release(operator, wide(first, 100), 20)
    arena = arena_of(1 << 14, tmp_path / "again")
    assert isinstance(arena, SpillArena)
    fresh = restart(operator, arena)
    assert (arena.n_file_bytes, len(fresh.logs()["held"].segments) > 4) == (0, True)
    assert fresh.frontier(NEVER) == operator.frontier(NEVER) == 21
    assert concat(release(fresh, tuples([]), n_rows)).equals(concat(release(operator, tuples([]), n_rows)))


def test_if_the_disk_is_full_all_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    arena = arena_of(1 << 14, tmp_path)
    assert arena.budget is not None
    operator = reorder_in(arena)
    with monkeypatch.context() as full:
        full.setattr(PageWriter, "_flush", refuse)
        full.setattr(os, "posix_fallocate", refuse)
        for first in range(0, 900, 100):
            release(operator, wide(first, 100), -1)
        assert isinstance(arena.budget.refused, ResourceError)
    assert not operator.logs()["held"].segments
    operator.make_room()
    assert operator.logs()["held"].segments
    assert concat(release(operator, tuples([]), 900)).num_rows == 900


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    operator = reorder_in(arena_of(1 << 14, tmp_path))
    for first in range(0, 2000, 100):
        release(operator, wide(first, 100), -1)
    for path in tmp_path.iterdir():
        path.write_bytes(bytes(np.frombuffer(path.read_bytes(), np.uint8) ^ 4))
    with pytest.raises(SourceError, match="sash-spill-"):
        release(operator, tuples([]), 2000)


def test_signs_travel_along() -> None:
    batch = tuples([(2, 0, 0), (1, 0, 0)]).set_column(2, OP, pa.array([-1, 1], pa.int8()))
    assert Reorder(TOTAL, SCHEMA).process([batch], 5)[OP].to_pylist() == [1, -1]


def test_zeros_of_either_sign_are_equal_and_nan_is_greatest() -> None:
    """What decides between equal zeros is the rest of the row; between rows that are equal altogether, the sign."""
    schema = pa.schema([*SIGNED_FIELDS, ("A.x", pa.float64()), ("A.seq", pa.int64())])
    rows = [(-1.0, 9), (-0.0, 1), (0.0, 1), (0.0, 2), (-0.0, 3), (math.inf, 0), (math.nan, 0), (-math.nan, 1)]
    for order in (rows, rows[::-1]):
        n_rows = len(rows)
        columns = [[1] * n_rows, [NEVER] * n_rows, [1] * n_rows, [x for x, _ in order], [seq for _, seq in order]]
        released = Reorder(TOTAL, schema).process([pa.table(columns, schema=schema)], 1)
        seen = zip(released["A.x"].to_pylist(), released["A.seq"].to_pylist(), strict=True)
        assert [(repr(abs(x) if x != x else x), seq) for x, seq in seen] == [
            (repr(abs(x) if x != x else x), seq) for x, seq in rows
        ]
