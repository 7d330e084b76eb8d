"""The last n tuples, against a list that is cut after every tuple.

Law: at T the window holds the last n tuples, in total order, with ts <= T; per partition if there are partitions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.count_window import CountWindow, CountWindowSpec
from sash.store.batch import NEVER, OP, SIGNED_FIELDS, TS
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena
from sash.store.vector import Arena, Memory

SCHEMA = pa.schema([*SIGNED_FIELDS, ("A.k", pa.float64()), ("A.n", pa.int64())])
ID = "_id.A"

Row = tuple[int, float | None]
Change = tuple[int, int, int]


def tuples(rows: list[Row], first: int = 0) -> pa.Table:
    """Rows of (ts, k) in total order, numbered in column n."""
    n_rows = len(rows)
    numbers = list(range(first, first + n_rows))
    return pa.table(
        [[ts for ts, _ in rows], [NEVER] * n_rows, [1] * n_rows, [k for _, k in rows], numbers], schema=SCHEMA
    )


def make(n_rows: int, is_partitioned: bool = False) -> CountWindow:
    return CountWindow(CountWindowSpec(n_rows, ("A.k",) if is_partitioned else (), ID), SCHEMA)


def changes_of(batch: pa.Table) -> list[Change]:
    """As (op, ts, number)."""
    return list(zip(batch[OP].to_pylist(), batch[TS].to_pylist(), batch["A.n"].to_pylist(), strict=True))


def restart(operator: CountWindow, arena: Arena | None = None) -> CountWindow:
    fresh = CountWindow(operator.spec, SCHEMA)
    fresh.reset(arena or Memory())
    fresh.restore({name: log.entries() for name, log in operator.logs().items()}, operator.registers())
    return fresh


def windows(rows: list[Row], n_rows: int, is_partitioned: bool) -> dict[int, set[int]]:
    """The numbers of the tuples in the window at every instant, in plain Python."""
    partitions: dict[float | None, list[tuple[int, int]]] = defaultdict(list)
    held: dict[int, set[int]] = {}
    for number, (ts, k) in enumerate(rows):
        own = partitions[k if is_partitioned else None]
        own.append((ts, number))
        del own[:-n_rows]
        held[ts] = {number for members in partitions.values() for _, number in members}
    return held


def test_the_n_th_tuple_after_displaces() -> None:
    """
    ROWS 2:   ts      1    2    3    5
              out    +0   +1   -0   -1
                               +2   +3
    """
    operator = make(2)
    batch = operator.process([tuples([(1, 0), (2, 0), (3, 0), (5, 0)])], 5)
    assert changes_of(batch) == [(1, 1, 0), (1, 2, 1), (-1, 3, 0), (1, 3, 2), (-1, 5, 1), (1, 5, 3)]


def test_a_negative_carries_the_identity_of_its_positive() -> None:
    operator = make(1)
    first = operator.process([tuples([(1, 0)])], 1)
    second = restart(operator).process([tuples([(4, 0)], first=1)], 4)
    assert first[ID].to_pylist() == [0]
    assert list(zip(second[OP].to_pylist(), second[ID].to_pylist(), strict=True)) == [(-1, 0), (1, 1)]


def test_what_is_displaced_at_its_own_instant_never_enters() -> None:
    operator = make(2)
    batch = operator.process([tuples([(1, 0), (4, 0), (4, 0), (4, 0)])], 4)
    assert changes_of(batch) == [(1, 1, 0), (-1, 4, 0), (1, 4, 2), (1, 4, 3)]


def test_nulls_are_one_partition_and_zeros_too() -> None:
    operator = make(1, is_partitioned=True)
    batch = operator.process([tuples([(1, None), (2, 0.0), (3, None), (4, -0.0), (5, 7.0)])], 5)
    assert changes_of(batch) == [(1, 1, 0), (1, 2, 1), (-1, 3, 0), (1, 3, 2), (-1, 4, 1), (1, 4, 3), (1, 5, 4)]


def test_nothing_comes_of_nothing() -> None:
    operator = make(3)
    assert operator.process([tuples([])], 5).schema == operator.schema


ROWS = st.lists(st.tuples(st.integers(0, 6), st.none() | st.sampled_from([0.0, 1.0])), max_size=14).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


@given(
    rows=ROWS,
    n_rows=st.integers(1, 4),
    is_partitioned=st.booleans(),
    cuts=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=4),
)
@example([(0, None), (0, None), (1, None)], 2, True, [(0, True)])
def test_the_window_is_what_a_list_would_hold(rows: list[Row], n_rows: int, is_partitioned: bool, cuts) -> None:
    """Batches end between instants, as the clock does."""
    operator, seen, first = make(n_rows, is_partitioned), [], 0
    for clock, restarts in [*sorted(cuts), (7, False)]:
        last = sum(ts <= clock for ts, _ in rows)
        seen += changes_of(operator.process([tuples(rows[first:last], first)], clock))
        first = last
        operator = restart(operator) if restarts else operator
    assert seen == changes_of(make(n_rows, is_partitioned).process([tuples(rows)], 7))
    assert [ts for _, ts, _ in seen] == sorted(ts for _, ts, _ in seen)
    for instant, expected in windows(rows, n_rows, is_partitioned).items():
        held: Counter[int] = Counter()
        for op, ts, number in seen:
            held[number] += op if ts <= instant else 0
        assert {number for number, count in held.items() if count} == expected
        assert set(held.values()) <= {0, 1}


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spill")


@given(
    ticks=st.lists(st.integers(0, 1), max_size=60),
    n_rows=st.integers(1, 30),
    cuts=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=12),
    limit=st.sampled_from([None, 1 << 14, 1 << 16]),
)
@example([1] * 40, 20, [(5, False), (10, False), (15, True), (22, False), (31, True)], None)
def test_what_is_on_disk_does_not_show(
    spill: Path, ticks: list[int], n_rows: int, cuts: list[tuple[int, bool]], limit: int | None
) -> None:
    """Without a limit here: whatever is in the window is sealed when more comes."""

    def small() -> SpillArena:
        return SpillArena(MemoryBudget(1, 1 << 12, 1 << 14, spill) if limit is None else MemoryBudget.of(limit, spill))

    rows: list[Row] = [(int(ts), None) for ts in np.cumsum(ticks)]
    plain, operator, first = make(n_rows), make(n_rows), 0
    operator.reset(small())
    for upto, restarts in [*sorted(cuts), (len(rows), False)]:
        batch, first = tuples(rows[first : max(first, upto)], first), max(first, upto)
        assert operator.process([batch], first).equals(plain.process([batch], first))
        assert limit is not None or len(operator.logs()["window"].head) <= 1
        operator = restart(operator, small()) if restarts else operator


@pytest.mark.slow
def test_a_window_of_many_rows_is_on_disk(tmp_path: Path) -> None:
    """It is a hundred times what memory has room for; a step looks at as many of its rows as it brings."""
    arena = SpillArena(MemoryBudget.of(1 << 14, tmp_path))
    operator, n_rows, seen = make(20_000), 45_000, list[Change]()
    operator.reset(arena)
    for first in range(0, n_rows, 100):
        seen += changes_of(
            operator.process([tuples([(number, None) for number in range(first, first + 100)], first)], 0)
        )
        assert (arena.n_file_bytes, arena.n_bytes <= arena.budget.state_bytes) == (0, True)
        n_alive = min(first + 100, 20_000)
        assert n_alive <= operator.logs()["window"].n_rows <= n_alive + 2000
        operator = (
            restart(operator, arena := SpillArena(MemoryBudget.of(1 << 14, tmp_path))) if first == 30_000 else operator
        )
    assert [number for op, _, number in seen if op > 0] == list(range(n_rows))
    assert [(ts, number) for op, ts, number in seen if op < 0] == [(n + 20_000, n) for n in range(n_rows - 20_000)]
    assert len(operator.logs()["window"].segments) > 10


def test_state_stays_within_twice_the_window() -> None:
    """What EXPLAIN declares: 2 n rows for each partition, here when all but one of a batch's tuples are displaced."""
    rng, operator, first = np.random.default_rng(7), make(2, is_partitioned=True), 0
    for clock in range(60):
        keys = rng.permutation(8)[: 8 - clock % 8].tolist()
        operator.process([tuples([(clock, float(key)) for key in keys], first)], clock)
        first += len(keys)
        assert operator.logs()["window"].n_rows <= 2 * 2 * 8
