"""Sessions, against a list of all rows that is taken apart at every instant.

Law: at T, a partition's rows with ts <= T, taken apart wherever the next is later by the gap or more, are its sessions,
and the window holds the rows of the one that is not over, with its start and end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators import keyed
from sash.operators.sessions import Sessions, SessionsSpec
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena
from sash.store.vector import Arena, Memory

SCHEMA = pa.schema([*SIGNED_FIELDS, ("A.k", pa.float64()), ("A.n", pa.int64())])
ID, START, END = "_id.A", "A.window_start", "A.window_end"
LAST = 24

Row = tuple[int, float | None]
Version = tuple[int, int, int]
"""The number of a row, and the start and end of its session."""


def tuples(rows: Sequence[Row], first: int = 0) -> pa.Table:
    """Rows of (ts, k) in order of time, numbered in column n."""
    n_rows = len(rows)
    numbers = list(range(first, first + n_rows))
    return pa.table(
        [[ts for ts, _ in rows], [NEVER] * n_rows, [1] * n_rows, [k for _, k in rows], numbers], schema=SCHEMA
    )


def make(gap_us: int = 4, is_partitioned: bool = True, **more: Any) -> Sessions:
    spec = {"start": START, "end": END, "type": pa.int64(), "id_column": ID} | more
    return Sessions(SessionsSpec(gap_us, ("A.k",) if is_partitioned else (), **spec), SCHEMA)


def restart(operator: Sessions, arena: Arena | None = None) -> Sessions:
    fresh = Sessions(operator.spec, SCHEMA)
    fresh.reset(arena or Memory())
    fresh.restore({name: log.entries() for name, log in operator.logs().items()}, operator.registers())
    return fresh


def changes_of(batch: pa.Table, *names: str) -> list[tuple]:
    """As (op, ts, number) and what else is asked for."""
    return list(zip(*(batch[name].to_pylist() for name in (OP, TS, "A.n", *names)), strict=True))


def sessions(rows: list[Row], gap_us: int, is_partitioned: bool, instant: int) -> list[list[int]]:
    """The sessions at an instant, over or not, as numbers of rows, in plain Python."""
    found: dict[float | None, list[list[int]]] = {}
    for number, (ts, k) in enumerate(rows):
        if ts <= instant:
            own = found.setdefault(k if is_partitioned else None, [])
            if not own or ts - rows[own[-1][-1]][0] >= gap_us:
                own.append([])
            own[-1].append(number)
    return [session for own in found.values() for session in own]


def versions(rows: list[Row], gap_us: int, is_partitioned: bool, instant: int) -> set[Version]:
    found = sessions(rows, gap_us, is_partitioned, instant)
    edges = [(session, rows[session[0]][0], rows[session[-1]][0] + gap_us) for session in found]
    return {(number, start, end) for session, start, end in edges if end > instant for number in session}


def held(batches: list[pa.Table], instant: int) -> Counter:
    """What changes amount to at an instant."""
    found: Counter = Counter()
    for op, ts, number, start, end, expires in (
        change for batch in batches for change in changes_of(batch, START, END, EXPIRES)
    ):
        found[number, start, end] += op if ts <= instant < expires else 0
    return +found


def test_a_row_makes_its_session_longer() -> None:
    """
    gap 4     0   1   2   3   4   5   6   7   8
              0       1                   2
    [0, 4)    0=======.
    [0, 6)            01==============|
    [7, 11)                               2====
    """
    batch = make().process([tuples([(0, 1.0), (2, 1.0), (7, 1.0)])], 8)
    assert changes_of(batch, START, END, EXPIRES) == [
        (1, 0, 0, 0, 4, 4),
        (-1, 2, 0, 0, 4, 4),
        (1, 2, 1, 0, 6, 6),
        (1, 2, 0, 0, 6, 6),
        (1, 7, 2, 7, 11, 11),
    ]


def test_a_row_the_gap_later_begins_another() -> None:
    batch = make().process([tuples([(0, 1.0), (3, 1.0), (7, 1.0)])], 7)
    assert [change[2:] for change in changes_of(batch, START) if change[0] > 0] == [(0, 0), (1, 0), (0, 0), (2, 7)]


def test_rows_of_one_instant_come_together() -> None:
    batch = make().process([tuples([(0, 1.0), (2, 1.0), (2, 1.0)])], 2)
    assert Counter((op, ts) for op, ts, _ in changes_of(batch)) == {(1, 0): 1, (-1, 2): 1, (1, 2): 3}


def test_where_nobody_reads_the_end_rows_come_once() -> None:
    operator = make(end=None)
    first = operator.process([tuples([(0, 1.0), (2, 1.0)])], 5)
    assert changes_of(first, START, EXPIRES) == [(1, 0, 0, 0, NEVER), (1, 2, 1, 0, NEVER)]
    second = restart(operator).process([tuples([(9, 1.0)], 2)], 9)
    assert sorted(changes_of(second, START, ID)) == [(-1, 6, 0, 0, 0), (-1, 6, 1, 0, 1), (1, 9, 2, 9, 2)]


def test_what_is_over_comes_once_at_its_end() -> None:
    operator = make(is_final=True, id_column=None)
    assert operator.process([tuples([(0, 1.0), (2, 2.0), (2, 1.0)])], 5).num_rows == 0
    batch = restart(operator).process([tuples([(6, 1.0)], 3)], 9)
    assert sorted(changes_of(batch, START, END, EXPIRES)) == [
        (1, 6, 0, 0, 6, 7),
        (1, 6, 1, 2, 6, 7),
        (1, 6, 2, 0, 6, 7),
    ]
    assert operator.registers()["open"] == 1


def test_versions_have_the_identity_of_their_row() -> None:
    operator = make()
    first = operator.process([tuples([(1, 0.0)])], 1)
    second = restart(operator).process([tuples([(4, 0.0)], first=1)], 4)
    assert first[ID].to_pylist() == [0]
    assert Counter(zip(second[OP].to_pylist(), second[ID].to_pylist(), strict=True)) == {
        (-1, 0): 1,
        (1, 0): 1,
        (1, 1): 1,
    }


def test_nulls_are_one_partition_and_zeros_too() -> None:
    batch = make(end=None).process([tuples([(1, None), (2, 0.0), (3, None), (4, -0.0), (5, 7.0)])], 5)
    assert [start for *_, start in changes_of(batch, START)] == [1, 2, 1, 2, 5]


def test_times_have_the_type_that_is_asked_for() -> None:
    operator = make(type=pa.timestamp("us", "UTC"))
    batch = operator.process([tuples([(1, 0.0)])], 1)
    assert batch.schema == operator.schema
    assert batch[END].cast(pa.int64()).to_pylist() == [5]


def test_nothing_comes_of_nothing() -> None:
    for operator in (make(), make(end=None), make(is_final=True), make(is_partitioned=False)):
        assert operator.process([tuples([])], 5).schema == operator.schema


def test_many_sessions_that_end_at_once_are_paced() -> None:
    """Three rows of sessions end at 5, two at 7."""
    operator = make(end=None)
    operator.process([tuples([(1, 1.0), (1, 2.0), (1, 2.0), (3, 3.0), (3, 3.0)])], 3)
    assert [operator.pace(9, n_max) for n_max in (5, 4, 3, 2, 1)] == [9, 6, 6, 5, 5]
    assert operator.pace(6, 3) == 6
    assert make().pace(9, 0) == 9


ROWS = st.lists(st.tuples(st.integers(0, 16), st.none() | st.sampled_from([0.0, 1.0])), max_size=18).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)
CUTS = st.lists(st.tuples(st.integers(0, LAST), st.booleans()), max_size=5)


def run(operator: Sessions, rows: list[Row], cuts: list[tuple[int, bool]]) -> list[pa.Table]:
    """Batches end between instants, as the clock does; after some, everything starts anew from what is kept."""
    batches, first = [], 0
    for clock, restarts in [*sorted(cuts), (LAST, False)]:
        last = sum(ts <= clock for ts, _ in rows)
        batches.append(operator.process([tuples(rows[first:last], first)], clock))
        first = last
        operator = restart(operator) if restarts else operator
    return batches


@given(rows=ROWS, gap_us=st.integers(1, 6), is_partitioned=st.booleans(), cuts=CUTS)
@example([(0, None), (3, None), (6, None)], 4, True, [(0, True), (3, True)])
def test_the_window_is_what_a_list_would_hold(rows: list[Row], gap_us: int, is_partitioned: bool, cuts) -> None:
    batches = run(make(gap_us, is_partitioned), rows, cuts)
    for instant in range(LAST + 1):
        expected = versions(rows, gap_us, is_partitioned, instant)
        assert held(batches, instant) == Counter(dict.fromkeys(expected, 1))
    times = [ts for batch in batches for _, ts, _ in changes_of(batch)]
    assert times == sorted(times)


@given(rows=ROWS, gap_us=st.integers(1, 6), is_partitioned=st.booleans(), cuts=CUTS)
def test_rows_stay_where_nobody_reads_the_end(rows: list[Row], gap_us: int, is_partitioned: bool, cuts) -> None:
    changes = [
        change
        for batch in run(make(gap_us, is_partitioned, end=None), rows, cuts)
        for change in changes_of(batch, START)
    ]
    for instant in range(LAST + 1):
        found: Counter = Counter()
        for op, ts, number, start in changes:
            found[number, start] += op if ts <= instant else 0
        assert set(found.values()) <= {0, 1}
        assert set(+found) == {version[:2] for version in versions(rows, gap_us, is_partitioned, instant)}


@given(rows=ROWS, gap_us=st.integers(1, 6), is_partitioned=st.booleans(), cuts=CUTS)
def test_each_session_is_told_once(rows: list[Row], gap_us: int, is_partitioned: bool, cuts) -> None:
    operator = make(gap_us, is_partitioned, is_final=True)
    told = [change for batch in run(operator, rows, cuts) for change in changes_of(batch, START, END)]
    over = sessions(rows, gap_us, is_partitioned, LAST)
    edges = [(session, rows[session[0]][0], rows[session[-1]][0] + gap_us) for session in over]
    expected = [(1, end, number, start, end) for session, start, end in edges if end <= LAST for number in session]
    assert sorted(told) == sorted(expected)


def test_state_is_twice_the_open_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What EXPLAIN declares; and partitions that are gone are forgotten."""
    monkeypatch.setattr(keyed, "MIN_DEAD", 4)
    rng, operator, rows = np.random.default_rng(7), make(end=None), list[Row]()
    for clock in range(120):
        new = [(clock, float(clock // 2 + k)) for k in rng.permutation(6)[: clock % 5].tolist()]
        operator.process([tuples(new, len(rows))], clock)
        rows += new
        n_open = len(versions(rows, 4, True, clock))
        assert operator.logs()["open"].n_rows <= 2 * n_open
        assert operator._keys.n_ids <= 40
        operator = restart(operator) if clock % 17 == 0 else operator


def test_files_in_the_place_of_memory_do_not_show(tmp_path: Path) -> None:
    rng, plain, operator, first = np.random.default_rng(3), make(end=None), make(end=None), 0
    operator.reset(SpillArena(MemoryBudget.of(1 << 14, tmp_path)))
    for clock in range(0, 400, 2):
        new = [
            (clock + one % 2, float(one % 7))
            for one in sorted(rng.integers(0, 40, 30).tolist(), key=lambda one: one % 2)
        ]
        batch, first = tuples(new, first), first + len(new)
        assert operator.process([batch], clock + 1).equals(plain.process([batch], clock + 1))
        if clock % 100 == 0:
            operator = restart(operator, SpillArena(MemoryBudget.of(1 << 14, tmp_path)))
