"""The join of many streams, combination by combination: who finds it, what is kept for how long, what is looked at.

Law: tuples t_1 … t_n join iff their keys are equal, all conditions hold, and t_j.ts - t_i.ts <= reach[i][j] for each
pair of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.cost.multiway_cost import PROBE
from sash.index import multiway_index, probe_index
from sash.index.probe_order import probe_orders, probed_keys
from sash.operators.combination_checks import Condition
from sash.operators.multiway_join import MultiwayJoin, MultiwayJoinSpec
from sash.papers.wjoin.gca_join import INNER
from sash.papers.wjoin.wjoin_algorithms import GCA
from sash.store import keys as store_keys
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget
from sash.store.spill_arena import SpillArena
from support.sealing import seal_all_the_time
from support.steps import restarted

ALIASES = "ABCD"
LIFE_US = 100
INT64 = pa.int64()
Row = tuple[int, Any, Any]
"""Time and two keys, which may be None."""


def schema(alias: str, type: pa.DataType = INT64) -> pa.Schema:
    return pa.schema([*SIGNED_FIELDS, (f"{alias}.k", type), (f"{alias}.j", type), (f"{alias}.n", pa.int64())])


def tuples(alias: str, rows: dict[int, Row], type: pa.DataType = INT64) -> pa.Table:
    """Rows by their number."""
    ts, ks, js = ([row[place] for row in rows.values()] for place in range(3))
    if pa.types.is_string(type):
        ks, js = ([None if value is None else str(value) for value in values] for values in (ks, js))
    ends = [each + life_of(number) for number, each in zip(rows, ts)]
    return pa.table([ts, ends, [1] * len(ts), ks, js, list(rows)], schema=schema(alias, type))


def life_of(number: int) -> int:
    """How long the tuple with this number is in its window."""
    return LIFE_US + number % 3


def by_k(n_inputs: int) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return (tuple((f"{alias}.k",) for alias in ALIASES[:n_inputs]),)


def within(us: int, n_inputs: int = 3) -> tuple[tuple[int, ...], ...]:
    """All less than so far apart."""
    return tuple(tuple(0 if one == other else us - 1 for other in range(n_inputs)) for one in range(n_inputs))


def numbers(batch: pa.Table) -> list[tuple[int, ...]]:
    """The combinations as they come, as the numbers of their tuples."""
    names = [name for name in batch.schema.names if name.endswith(".n")]
    return list(zip(*(batch[name].to_pylist() for name in names), strict=True))


class Driven:
    """A join that is told, input by input, which tuples come at which clock; tuples are numbered as they come."""

    def __init__(self, spec: MultiwayJoinSpec, type: pa.DataType = INT64):
        self.spec = spec
        self._type = type
        self._n_rows = [0] * len(spec.names)
        self.operator = self.fresh()

    def fresh(self) -> MultiwayJoin:
        return MultiwayJoin(self.spec, *(schema(alias, self._type) for alias in self.spec.names))

    def step(self, clock: int, frontiers: Sequence[int] = (), **rows: list[Row]) -> list[tuple[int, ...]]:
        """The combinations that these rows complete."""
        batches = []
        for number, alias in enumerate(self.spec.names):
            first, own = self._n_rows[number], rows.get(alias, [])
            batches.append(tuples(alias, {first + place: row for place, row in enumerate(own)}, self._type))
            self._n_rows[number] += len(own)
        self.operator.hear([(each,) for each in frontiers])
        return sorted(numbers(self.operator.process(batches, clock)))

    def buffered(self) -> list[list[int]]:
        return [ts.tolist() for ts in self.operator.buffered()]


def at(*times: int, k: int | None = 1) -> list[Row]:
    return [(time, k, 0) for time in times]


WITHIN_5 = within(5)
BY_K = by_k(3)


def abc(reach: tuple[tuple[int, ...], ...] = WITHIN_5, keys=BY_K, **more) -> Driven:
    """Three inputs."""
    return Driven(MultiwayJoinSpec(("A", "B", "C"), keys, reach, **more))


def test_the_last_tuple_finds_a_combination_once() -> None:
    """
    A   --1-----------
    B   ------3-------
    C   ----------5---      5 - 1 < 5
    """
    join = abc()
    assert join.step(1, A=at(1)) == []
    assert join.step(3, B=at(3)) == []
    assert join.step(5, C=at(5)) == [(0, 0, 0)]
    assert join.step(6, C=at(6)) == [], "1 is too old"


def test_a_combination_lives_from_its_last_tuple_until_the_first_one_leaves() -> None:
    operator = abc().operator
    batches = [tuples(alias, {0: (ts, 1, 0)}) for alias, ts in zip("ABC", (3, 1, 4), strict=True)]
    joined = operator.process(batches, 10)
    assert [joined[name].to_pylist() for name in (TS, EXPIRES, OP)] == [[4], [1 + LIFE_US], [1]]


@pytest.mark.parametrize("reach", [within(1), within(5), ((0, 0, 0), (0, 0, 0), (0, 0, 0))])
def test_tuples_of_one_instant_join_once(reach: tuple[tuple[int, ...], ...]) -> None:
    join = abc(reach)
    assert join.step(4, (), **dict.fromkeys("ABC", at(4, 4))) == sorted(product((0, 1), repeat=3))


def test_directed_windows_let_the_later_one_wait_for_nobody() -> None:
    """A first, then B, then C: of C nothing is kept, and of B only what C can still reach."""
    join = abc(((0, 2, 4), (0, 0, 2), (0, 0, 0)))
    assert join.step(2, A=at(1), B=at(0, 2)) == []
    assert join.buffered() == [[1], [2], []], "nothing has come before 0, so it waits in vain"
    assert join.step(3, C=at(1, 3)) == [(0, 1, 1)]


def test_what_one_stream_has_passed_another_may_still_reach() -> None:
    """
    A   --1-----------------
    B   ------------------20      19 after A: B is past it for good
    C   ----3---------------      but C, which is slow, is not

    With another B at 2, the tuple at 1 is still joined when C brings 3.
    """
    join = abc()
    assert join.step(2, (20, 20, 3), A=at(1), B=at(2)) == []
    assert join.buffered() == [[1], [2], []]
    assert join.step(3, (20, 20, 4), C=at(3)) == [(0, 0, 0)]


def test_tuples_go_when_no_other_stream_can_reach_them() -> None:
    """Of A with reach 4, tuples of 1 go when both B and C are past 5; whatever A itself does."""
    join = abc()
    join.step(2, (3, 3, 3), A=at(1, 2))
    for frontiers, kept in [((99, 6, 3), [1, 2]), ((99, 6, 6), [2]), ((99, 6, 7), [2]), ((99, 7, 7), [])]:
        join.step(2, frontiers)
        assert join.buffered()[0] == kept, frontiers


def test_an_idle_input_lets_go_of_what_waited_for_it() -> None:
    """That nothing comes from C before 1000 is as good as a tuple there."""
    join = abc()
    join.step(9, (10, 10, 10), A=at(*range(10)), B=at(*range(10)))
    assert [len(ts) for ts in join.buffered()] == [4, 4, 0]
    join.step(9, (1000, 1000, 1000))
    assert join.buffered() == [[], [], []]
    assert all(log.n_rows == 0 for log in join.operator.logs().values())


@pytest.mark.slow
def test_dead_rows_in_the_log_are_an_eighth_at_most() -> None:
    join = abc(within(80), keys=())
    for clock in range(1000):
        join.step(clock, A=at(clock))
        assert join.operator.logs()["input0"].n_rows <= 80 + 80 / 8 + 1


@pytest.mark.parametrize("type", [pa.int64(), pa.string()], ids=str)
def test_a_key_that_is_null_joins_nothing_and_is_not_kept(type: pa.DataType) -> None:
    join = Driven(MultiwayJoinSpec(("A", "B", "C"), by_k(3), within(5)), type)
    assert join.step(1, A=at(1, k=None) + at(1), B=at(1) + at(1, k=None), C=at(1, k=None) + at(1)) == [(1, 0, 1)]
    assert join.buffered() == [[1], [1], [1]]


def test_a_null_in_a_column_that_is_no_key_of_the_stream_does_no_harm() -> None:
    join = abc(keys=((("A.k",), ("B.k",), ()), ((), ("B.j",), ("C.j",))))
    assert join.step(1, A=[(1, 7, None)], B=[(1, 7, 8)], C=[(1, None, 8)]) == [(0, 0, 0)]


def test_keys_whose_hashes_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_keys, "hash_rows", lambda arrays: np.zeros(len(arrays[0]), np.uint64))
    join = Driven(MultiwayJoinSpec(("A", "B", "C"), by_k(3), within(5)), pa.string())
    rows = [(1, k, 0) for k in (1, 2, 3)]
    assert join.step(1, A=rows, B=rows[::-1], C=rows) == [(0, 2, 0), (1, 1, 1), (2, 0, 2)]


def test_a_condition_is_checked_as_soon_as_its_tuples_are_there() -> None:
    """C probes A, then B: if nothing of A may join it, no tuple of B is looked at."""
    looked_at = {}
    for inputs, sql in (((0, 2), '"A.n" > "C.n" + 100'), ((1, 2), '"B.n" > "C.n" + 100')):
        join = abc(conditions=(Condition(sql, inputs),))
        join.step(1, A=at(*[1] * 10), B=at(*[1] * 10))
        before = join.operator.counts.comparisons
        assert join.operator.orders is not None
        assert join.operator.orders[2] == [0, 1]
        assert join.step(2, C=at(2)) == []
        looked_at[inputs] = join.operator.counts.comparisons - before
    assert looked_at == {(0, 2): 10, (1, 2): 10 + 10 * 10}


def test_a_condition_may_read_all_inputs_or_one() -> None:
    join = abc(conditions=(Condition('"A.n" + "B.n" = "C.n"', (0, 1, 2)), Condition('"C.n" > 0', (2,))))
    rows = at(1, 1)
    assert join.step(1, A=rows, B=rows, C=rows) == [(0, 1, 1), (1, 0, 1)]


def test_where_an_input_is_a_join_its_own_expiry_counts() -> None:
    """A tuple of one input has left its window although it is within reach."""
    for checks, found in ((True, []), (False, [(0, 0)])):
        spec = MultiwayJoinSpec(("A", "B"), by_k(2), within(2 * LIFE_US, 2), checks_lives=checks)
        join = Driven(spec)
        join.step(1, A=at(1))
        assert join.step(1 + LIFE_US, B=at(1 + LIFE_US)) == found


def test_probes_go_where_the_fewest_tuples_are_expected() -> None:
    has_key = np.ones((3, 1), bool)
    assert probe_orders(has_key, None) == [[1, 2], [0, 2], [0, 1]]
    fanouts = [[None, 5.0, 2.0], [1.0, None, 2.0], [9.0, 3.0, None]]
    assert probe_orders(has_key, fanouts) == [[2, 1], [0, 2], [1, 0]]


def test_by_key_comes_before_by_time() -> None:
    """A and B share a key, C and B another one: C is never probed for A's sake alone."""
    has_key = np.array([[True, False], [True, True], [False, True]])
    fanouts = [[None, 50.0, 1.0], [50.0, None, 50.0], [1.0, 50.0, None]]
    assert probe_orders(has_key, fanouts) == [[1, 2], [0, 2], [1, 0]]


def test_an_order_on_disk_for_each_key_that_is_probed_by() -> None:
    """B shares one key with A and another one with C; A and B share two, of which the second is only compared."""
    assert probed_keys(np.array([[True, False], [True, True], [False, True]])) == [[0], [0, 1], [1]]
    assert probed_keys(np.array([[True, True], [True, True], [True, False]])) == [[0], [0], [0]]
    assert probed_keys(np.array([[True, False], [True, False], [False, False]])) == [[0], [0], []]


@pytest.mark.slow
def test_probe_orders_follow_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first B has many tuples and C has few; then it is the other way round."""
    monkeypatch.setattr(probe_index, "N_OBSERVED", 8)
    monkeypatch.setattr(probe_index, "OBSERVE_EVERY", 8)
    join = abc(within(50))
    orders = []
    for first, (n_b, n_c) in ((0, (5, 1)), (1000, (1, 5))):
        for clock in range(first, first + 60):
            join.step(clock, A=at(clock), B=at(*[clock] * n_b, k=1 if clock % 5 else 2), C=at(*[clock] * n_c))
        assert join.operator.orders is not None
        orders.append(join.operator.orders[0])
    assert orders == [[2, 1], [1, 2]]


def test_work_is_counted() -> None:
    join = abc()
    join.step(1, A=at(1), B=at(1), C=at(1, k=2))
    join.step(3, C=at(3))
    counts = join.operator.counts
    assert (counts.insertions, counts.outputs) == (4, 1)
    join.step(50)
    assert join.operator.counts.removals == 4


def test_another_one_goes_on_from_logs_and_registers(succession: Callable) -> None:
    join = abc()
    taken = succession(join.fresh)
    join.operator = taken.operator
    found = []
    for step in ({"A": at(1)}, {"B": at(2)}, {}, {"C": at(4)}, {"B": at(5)}, {"A": at(6, 7)}):
        clock = max([row[0] for rows in step.values() for row in rows], default=3)
        found.append(join.step(clock, (), **step))
        kept = join.buffered()
        join.operator = taken.then()
        assert join.buffered() == kept
    assert found == [[], [], [], [(0, 0, 0)], [(0, 1, 0)], [(1, 0, 0), (1, 1, 0), (2, 1, 0)]]


def test_no_tuples_give_no_tuples_with_the_columns_of_all() -> None:
    join = abc()
    empty = join.operator.process([tuples(alias, {}) for alias in "ABC"], 1)
    assert empty.num_rows == 0
    assert empty.schema.names == [
        *(f"{alias}.{name}" for alias in "ABC" for name in "kjn"),
        *(field.name for field in SIGNED_FIELDS),
    ]


KEYS = {
    "one": lambda n: by_k(n),
    "two": lambda n: (
        tuple((f"{alias}.k",) if place < 2 else () for place, alias in enumerate(ALIASES[:n])),
        *([tuple((f"{alias}.j",) if place else () for place, alias in enumerate(ALIASES[:n]))] if n > 2 else []),
    ),
    "one and another of two": lambda n: (
        *by_k(n),
        tuple((f"{alias}.j",) if place < 2 else () for place, alias in enumerate(ALIASES[:n])),
    ),
    "of two columns": lambda n: (tuple((f"{alias}.k", f"{alias}.j") for alias in ALIASES[:n]),),
    "none": lambda n: (),
}
CONDITIONS: dict[Condition, Callable[[tuple[Row, ...]], bool]] = {
    Condition('"A.j" <= "B.j"', (0, 1)): lambda rows: rows[0][2] <= rows[1][2],
    Condition('"B.j" = 1', (1,)): lambda rows: rows[1][2] == 1,
}
KEY = st.sampled_from([1, 1, 1, 1, 2, None])
"""Mostly the same, so that most worlds have combinations."""
ROWS = st.lists(st.tuples(st.integers(0, 9), KEY, st.sampled_from([1, 1, 2])), min_size=1, max_size=5).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


@dataclass(frozen=True)
class World:
    """What comes, and how it is brought."""

    spec: MultiwayJoinSpec
    rows: list[list[Row]]
    clocks: list[int]
    is_told: list[bool]
    """Whether, in each step, inputs say how far off their next tuples are."""
    restarts: list[bool]
    chunk: int
    turn: int
    type: pa.DataType
    is_sealed: bool
    """Whether whatever is in a window when a step begins goes to disk first."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    n_inputs = draw(st.integers(2, 4))
    reach = st.sampled_from([0, 2, 4, 6, 8, 9])
    algorithm = draw(st.sampled_from([*[PROBE] * 12, "nlw", "hw", "mw", "gca", "lca", "ripple", "xjoin"]))
    spec = MultiwayJoinSpec(
        tuple(ALIASES[:n_inputs]),
        KEYS[draw(st.sampled_from(list(KEYS)))](n_inputs),
        tuple(tuple(0 if i == j else draw(reach) for j in range(n_inputs)) for i in range(n_inputs)),
        draw(st.lists(st.sampled_from(list(CONDITIONS)), max_size=2).map(tuple)),
        algorithm=algorithm,
        inner=draw(st.sampled_from([None, *INNER])) if algorithm == GCA else None,
        fanouts=tuple(tuple(float(draw(st.integers(0, 2))) for _ in range(n_inputs)) for _ in range(n_inputs)),
    )
    clocks = [*sorted(draw(st.lists(st.integers(0, 9), max_size=4))), 20, 60]
    flags = st.lists(st.booleans(), min_size=len(clocks), max_size=len(clocks))
    return World(
        spec,
        [draw(ROWS) for _ in range(n_inputs)],
        clocks,
        draw(flags),
        draw(flags),
        draw(st.sampled_from([1, 2, 3, 1 << 18])),
        draw(st.sampled_from([1, 2, 1024])),
        draw(st.sampled_from([pa.int64(), pa.string()])),
        draw(st.booleans()),
    )


def joins(spec: MultiwayJoinSpec, rows: tuple[Row, ...]) -> bool:
    every = range(len(rows))
    for key in spec.keys:
        values = [
            tuple(row[1 if name.endswith(".k") else 2] for name in columns)
            for row, columns in zip(rows, key, strict=True)
            if columns
        ]
        if len(set(values)) > 1 or None in values[0]:
            return False
    is_close = all(rows[j][0] - rows[i][0] <= spec.reach_us[i][j] for i in every for j in every if i != j)
    return is_close and all(CONDITIONS[condition](rows) for condition in spec.conditions)


def may_join(spec: MultiwayJoinSpec, number: int, row: Row) -> bool:
    """Whether a tuple has all its keys, and satisfies what is asked of it alone."""
    has_null = any(row[1] is None and name.endswith(".k") for key in spec.keys for name in key[number])
    alone = [condition for condition in spec.conditions if condition.inputs == (number,)]
    return not has_null and all(CONDITIONS[condition]((row,) * (number + 1)) for condition in alone)


@given(world=worlds())
def test_the_combinations_of_nested_loops(world: World) -> None:
    """And after every step exactly those tuples are kept that one still to come can reach."""
    spec, every = world.spec, range(len(world.rows))

    def fresh() -> MultiwayJoin:
        operator = MultiwayJoin(spec, *(schema(alias, world.type) for alias in spec.names))
        if world.is_sealed:
            operator.reset(SpillArena(MemoryBudget.of(LEAST_BYTES, Path(directory))))
        return operator

    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        seal_all_the_time(patch)
        patch.setattr(multiway_index, "COMBINATIONS_PER_CHUNK", world.chunk)
        patch.setattr(probe_index, "MIN_ROWS_PER_TURN", world.turn)
        patch.setattr(probe_index, "ROWS_PER_TURN", world.turn)
        patch.setattr(probe_index, "N_OBSERVED", 2)
        patch.setattr(probe_index, "OBSERVE_EVERY", 3)
        operator, seen, last, frontiers, limits = fresh(), [], -1, [0] * len(every), [-99] * len(every)
        for clock, is_told, restarts in zip(world.clocks, world.is_told, world.restarts, strict=True):
            came = [{n: row for n, row in enumerate(rows) if last < row[0] <= clock} for rows in world.rows]
            for number in every:
                following = [row[0] for row in world.rows[number] if row[0] > clock]
                told = min(following, default=clock + 30) if is_told else clock + 1
                frontiers[number] = max(frontiers[number], told)
            operator.hear([(each,) for each in frontiers])
            batches = [tuples(alias, came[number], world.type) for number, alias in enumerate(spec.names)]
            joined = operator.process(batches, clock)
            seen += zip(numbers(joined), joined[TS].to_pylist(), joined[EXPIRES].to_pylist(), strict=True)
            for number, kept in enumerate(operator.buffered()):
                reached = min(frontiers[j] - spec.reach_us[number][j] for j in every if j != number)
                limits[number] = max(limits[number], reached)
                assert kept.tolist() == [
                    row[0]
                    for row in world.rows[number]
                    if limits[number] <= row[0] <= clock and may_join(spec, number, row)
                ]
            n_sealed = sum(bool(log.segments) for log in operator.logs().values())
            assert not n_sealed or (world.is_sealed and spec.algorithm == PROBE)
            operator = restarted(operator, fresh) if restarts else operator
            last = clock
        assert list(Path(directory).iterdir()) == [], "all have left by now"
    assert sorted(seen) == sorted(
        (chosen, max(row[0] for row in rows), min(row[0] + life_of(n) for n, row in zip(chosen, rows)))
        for chosen in product(*(range(len(rows)) for rows in world.rows))
        if joins(spec, rows := tuple(world.rows[number][place] for number, place in enumerate(chosen)))
    )


def limited(join: Driven, directory: Path, n_bytes: int = LEAST_BYTES) -> SpillArena:
    """Gives a join so much memory, and tells where its rest is."""
    arena = SpillArena(MemoryBudget.of(n_bytes, directory))
    join.operator.reset(arena)
    return arena


@pytest.mark.parametrize("keys", [BY_K, ()], ids=["by key", "by time"])
def test_what_is_found_at_once_is_bounded(tmp_path: Path, keys: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many combinations a single tuple completes: of rows in memory, then of rows on disk."""
    join = abc(within(50), keys)
    arena = limited(join, tmp_path)
    for clock in (10, 20):
        if clock == 20:
            seal_all_the_time(monkeypatch)
        rows: dict[int, Row] = dict.fromkeys(range(30), (clock, 1, 0))
        batches = [tuples("A", rows), tuples("B", rows), tuples("C", {0: (clock, 1, 0)})]
        parts = [part.num_rows for part in join.operator.parts(batches, clock)]
        assert sum(parts) == (900 if clock == 10 else 60 * 60 * 2 - 900), parts
        assert max(parts) <= arena.budget.n_pairs_at_once()
    assert any(log.segments for log in join.operator.logs().values())


@pytest.mark.slow
def test_nothing_leaves_memory_that_has_room(tmp_path: Path) -> None:
    join = abc(within(50))
    arena = limited(join, tmp_path / "not there", 1 << 24)
    for clock in range(100):
        join.step(clock, A=at(clock), B=at(clock), C=at(clock))
    assert not (tmp_path / "not there").exists()
    assert (arena.counts.n_bytes_written, arena.n_file_bytes) == (0, 0)


def test_algorithms_of_papers_keep_their_tuples_in_memory_or_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal_all_the_time(monkeypatch)
    join = abc(within(50), algorithm="hw")
    arena = limited(join, tmp_path)
    for clock in range(3):
        assert (clock, clock, clock) in join.step(clock, A=at(clock), B=at(clock), C=at(clock))
    assert arena.counts.n_files_written == 0
