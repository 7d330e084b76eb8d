"""The window join, pair by pair: which algorithm looks at what, and what the state keeps.

Law: a and b join iff key(a) = key(b), residual(a, b), and their lives overlap: max(ts) < min(end).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.cost.join_cost import JoinMethod
from sash.index import head_room
from sash.kernels.segment_join import SegmentPairs
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.store import bites, window
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS
from sash.store.memory_budget import MemoryBudget
from sash.store.segment import WindowSegment
from sash.store.segment_probe import probe
from sash.store.spill_arena import SpillArena
from support.steps import Lived, alive_at, amount_at, changes_of, due, restarted, signed

WINDOW_US = 6
LEFT, RIGHT = (
    pa.schema([*SIGNED_FIELDS, (f"{alias}.k", pa.int64()), (f"{alias}.n", pa.int64())]) for alias in ("A", "B")
)
JOINS = {
    "hash": WindowJoinSpec((("A.k", "B.k"),), None, (WINDOW_US, WINDOW_US)),
    "whj": WindowJoinSpec((("A.k", "B.k"),), None, (WINDOW_US, WINDOW_US), method=JoinMethod("whj", 100)),
    "wnl": WindowJoinSpec((("A.k", "B.k"),), None, (WINDOW_US, WINDOW_US), method=JoinMethod("wnl")),
    "wnl without keys": WindowJoinSpec((), '"A.k" = "B.k"', (WINDOW_US, WINDOW_US), method=JoinMethod("wnl")),
}

Row = tuple[int, int]
"""Time and key."""


def tuples(rows: dict[int, Row], schema: pa.Schema) -> pa.Table:
    """Rows by their number."""
    ts, keys = [row[0] for row in rows.values()], [row[1] for row in rows.values()]
    return pa.table([ts, [t + WINDOW_US for t in ts], [1] * len(rows), keys, list(rows)], schema=schema)


def pairs_of(batch: pa.Table) -> list[tuple[int, ...]]:
    """As (number of a, number of b, sign, ts, expires)."""
    columns = (batch[name].to_pylist() for name in ("A.n", "B.n", OP, TS, EXPIRES))
    return sorted(zip(*columns, strict=True))


ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=12)


@pytest.mark.parametrize("join", JOINS)
@given(left=ROWS, right=ROWS, clocks=st.lists(st.integers(-1, 21), max_size=5))
def test_every_algorithm_finds_the_pairs_of_two_loops(join: str, left: list[Row], right: list[Row], clocks) -> None:
    """A tuple comes in the step in which the clock reaches it."""
    operator, seen, last = WindowJoin(JOINS[join], LEFT, RIGHT), [], -2
    for clock in [*sorted(clocks), 30]:
        batches = [
            tuples({number: row for number, row in enumerate(rows) if last < row[0] <= clock}, schema)
            for rows, schema in ((left, LEFT), (right, RIGHT))
        ]
        seen += pairs_of(operator.process(batches, clock))
        last = clock
    assert sorted(seen) == sorted(
        (a, b, 1, max(left[a][0], right[b][0]), min(left[a][0], right[b][0]) + WINDOW_US)
        for a in range(len(left))
        for b in range(len(right))
        if left[a][1] == right[b][1] and abs(left[a][0] - right[b][0]) < WINDOW_US
    )
    assert operator.logs()["left"].n_rows == operator.logs()["right"].n_rows == 0


@given(left=ROWS, right=ROWS)
def test_pairs_do_not_wait_for_order(left: list[Row], right: list[Row]) -> None:
    """While the clock stands still, tuples one by one in any order of time give the pairs of one whole step."""
    operator, seen = WindowJoin(JOINS["whj"], LEFT, RIGHT), []
    for number in range(max(len(left), len(right))):
        one = [{number: rows[number]} if number < len(rows) else {} for rows in (left, right)]
        seen += pairs_of(operator.process([tuples(one[0], LEFT), tuples(one[1], RIGHT)], -1))
    both = [tuples(dict(enumerate(left)), LEFT), tuples(dict(enumerate(right)), RIGHT)]
    assert sorted(seen) == pairs_of(WindowJoin(JOINS["whj"], LEFT, RIGHT).process(both, -1))


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spill")


@pytest.fixture(scope="module")
def in_pieces() -> Iterator[None]:
    """A few rows are all that may come into a window at once, and what was there before is sealed first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_room, "LEAST_SHARE", 1 << 40)
        patch.setattr(bites, "LEAST_ROWS", 2)
        patch.setattr(bites, "SHARE_OF_STATE", 0)
        patch.setattr(MemoryBudget, "n_state_bytes", property(lambda budget: budget.state_bytes + 1))
        yield


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("join", JOINS)
@given(left=ROWS, right=ROWS, clocks=st.lists(st.integers(-1, 21), max_size=5))
def test_a_step_that_comes_in_in_pieces_reads_every_segment_once(
    spill: Path, join: str, left: list[Row], right: list[Row], clocks: list[int]
) -> None:
    """And gives the pairs that it would give whole; of the segments, those that were there when it began."""
    whole, limited, last = WindowJoin(JOINS[join], LEFT, RIGHT), WindowJoin(JOINS[join], LEFT, RIGHT), -2
    limited.reset(SpillArena(MemoryBudget.of(1 << 14, spill)))
    for clock in [*sorted(clocks), 30]:
        batches = [
            tuples({number: row for number, row in enumerate(rows) if last < row[0] <= clock}, schema)
            for rows, schema in ((left, LEFT), (right, RIGHT))
        ]
        before = {segment.name for log in limited.logs().values() for segment in log.segments}
        looked_into: list[str] = []

        def look_into(segment: WindowSegment, *how: Any, into: list[str] = looked_into) -> Iterator[SegmentPairs]:
            into.append(segment.name)
            return probe(segment, *how)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(window, "probe", look_into)
            found = pairs_of(limited.process(batches, clock))
        assert found == pairs_of(whole.process(batches, clock))
        assert all(looked_into.count(name) <= 1 for name in before)
        last = clock
    assert all(log.n_rows == 0 for log in limited.logs().values())


@pytest.mark.usefixtures("in_pieces")
def test_a_step_that_was_left_in_the_middle_is_no_matter_to_the_next(spill: Path) -> None:
    join = WindowJoin(JOINS["hash"], LEFT, RIGHT)
    join.reset(SpillArena(MemoryBudget.of(1 << 14, spill)))
    rows = {number: (1, number) for number in range(20)}
    join.process([tuples(rows, LEFT), tuples(rows, RIGHT)], 1)

    def begin(ts: int) -> Iterator[pa.Table]:
        later = {number: (ts, number) for number in range(20)}
        return join.parts([tuples(later, LEFT), tuples({}, RIGHT)], ts)

    left, following = begin(2), begin(3)
    found = [next(left), next(following)]
    assert isinstance(left, Generator)
    left.close()
    found.extend(following)
    assert sum(part.num_rows for part in found[1:]) == 20


def test_parts_are_no_larger_than_a_step_may_be_before_anything_is_there(spill: Path) -> None:
    budget, n_rows = MemoryBudget.of(1 << 20, spill), 100
    wide = [pa.schema([*SIGNED_FIELDS, (f"{alias}.k", pa.int64()), (f"{alias}.s", pa.string())]) for alias in "AB"]
    join = WindowJoin(JOINS["hash"], *wide)
    join.reset(SpillArena(budget))
    ts, texts = [1] * n_rows, ["x" * 1000] * n_rows
    inputs = [pa.table([ts, [9] * n_rows, [1] * n_rows, [7] * n_rows, texts], schema=schema) for schema in wide]
    parts = list(join.parts(inputs, 1))
    assert sum(part.num_rows for part in parts) == n_rows**2
    assert max(part.nbytes for part in parts) <= budget.step_bytes


TOLD = [pa.schema([(f"{alias}.k", pa.int64()), (f"_id.{alias}", pa.int64())]) for alias in ("A", "B")]
LIVES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 12), st.integers(1, WINDOW_US), st.none() | st.integers(1, 5)),
    max_size=8,
).map(
    lambda rows: [
        Lived((k, number), ts, ts + life, ts + after if after is not None and after < life else None)
        for number, (k, ts, life, after) in enumerate(rows)
    ]
)


def make_told(window_us: int) -> WindowJoin:
    spec = WindowJoinSpec(
        (("A.k", "B.k"),), None, (window_us, window_us), expires_by_negatives=True, has_identities=True
    )
    return WindowJoin(spec, *(pa.schema([*columns, *SIGNED_FIELDS]) for columns in TOLD))


@pytest.mark.parametrize("window_us", [WINDOW_US, 64])
@given(left=LIVES, right=LIVES, cuts=st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5))
@example([Lived((0, 0), 1, 4)], [Lived((0, 0), 2, 4)], [(2, True), (3, True)])
def test_where_expirations_are_told_every_pair_is_taken_back_once(window_us: int, left, right, cuts) -> None:
    """
    A   |----a----|  -a                  behind a W-EXPIRE (Pipelines §4.5): the first member to leave takes the pair
    B        |-------b------|  -b        along, and the other one, which finds it gone, does not do it again
    A⋈B      +ab  -ab
    """
    operator, seen, last = make_told(window_us), [], 0
    for clock, restarts in [*sorted(cuts), (40, False)]:
        batches = [signed(due(lives, last, clock, True), columns) for lives, columns in zip((left, right), TOLD)]
        seen += changes_of(operator.process(batches, clock))
        last = max(last, clock)
        operator = restarted(operator, lambda: make_told(window_us)) if restarts else operator
    for instant in range(22):
        pairs = product(alive_at(left, instant), alive_at(right, instant))
        assert amount_at(seen, instant, is_told=True) == {a + b: 1 for a, b in pairs if a[0] == b[0]}
    assert operator.logs()["left"].n_rows == operator.logs()["right"].n_rows == 0


def test_nested_loops_look_at_the_whole_window_and_hashing_at_a_bucket() -> None:
    left, right = tuples({number: (1, number) for number in range(200)}, LEFT), tuples({0: (1, 7)}, RIGHT)
    scans = {}
    for name, spec in JOINS.items():
        operator = WindowJoin(spec, LEFT, RIGHT)
        operator.process([left, RIGHT.empty_table()], 0)
        assert operator.process([LEFT.empty_table(), right], 0).num_rows == 1
        scans[name] = operator.counts.scans
    assert scans["wnl"] == scans["wnl without keys"] == 200
    assert 1 <= scans["whj"] < 10


def test_a_hash_join_needs_a_key() -> None:
    with pytest.raises(AssertionError):
        WindowJoinSpec((), "TRUE", (WINDOW_US, WINDOW_US))
