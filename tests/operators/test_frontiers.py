"""How far each input of an operator has come, for those that ask.

Law: no tuple that an input puts out in a later step is older than its frontier, and the frontier is beyond the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sash
from sash.operators import operator_kinds
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.node import Node
from sash.operators.operator import Stateless
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec
from sash.operators.operator_tree import OperatorTree
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.slide import SlideSpec
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, SIGNED_FIELDS, TS

SCHEMA = pa.schema([*SIGNED_FIELDS, ("v", pa.int64())])
FIRST, SECOND = Node(InputSpec(0)), Node(InputSpec(1))
IN_ORDER = Node(ReorderSpec(is_total=False), (FIRST,))


@dataclass(frozen=True)
class ListenSpec:
    """`stride` is how far the clock may move at once."""

    stride: int = NEVER


class Listen(Stateless):
    """Takes down what it hears: the frontiers, and the times of the tuples that come in the same step."""

    schema = SCHEMA

    def __init__(self, spec: ListenSpec, *inputs: pa.Schema):
        self.spec = spec
        self.heard: list[tuple[int, ...]] = []
        self.brought: list[list[list[int]]] = []
        self.clocks = [-1]

    def pace(self, clock: int, n_max: int) -> int:
        return min(clock, self.clocks[-1] + self.spec.stride)

    def hear(self, frontiers: Sequence[tuple[int, ...]]) -> None:
        assert len(self.heard) == len(self.brought), "heard right before each step"
        self.heard.append(tuple(each for (each,) in frontiers))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        self.brought.append([batch[TS].to_pylist() for batch in inputs])
        self.clocks.append(clock)
        return SCHEMA.empty_table()


@pytest.fixture(autouse=True, scope="module")
def listening() -> Any:
    operator_kinds.OPERATORS[ListenSpec] = Listen
    yield
    del operator_kinds.OPERATORS[ListenSpec]


def listener(*inputs: Node, stride: int = NEVER, slots: int = 2) -> tuple[OperatorTree, Listen]:
    root = Node(ListenSpec(stride), inputs)  # pyright: ignore[reportArgumentType]
    line = OperatorTree(root, dict.fromkeys(range(slots), SCHEMA), {"R": pa.table({"r": [1, 2]})})
    operator = dict(line.operators()).popitem()[1]
    assert isinstance(operator, Listen)
    return line, operator


def tuples(*ts: int) -> pa.Table:
    n_rows = len(ts)
    return pa.table([list(ts), [NEVER] * n_rows, [1] * n_rows, [1] * n_rows], schema=SCHEMA)


def test_a_stream_is_as_far_as_its_own_clock() -> None:
    line, operator = listener(FIRST, SECOND)
    line.step({0: tuples(1, 2, 8)}, 2, {0: 7, 1: 2})
    line.step({}, 3, {0: 7})
    line.step({}, 4)
    assert operator.heard == [(8, 3), (8, 4), (5, 5)]


def test_what_waits_for_the_clock_comes_out_before_what_is_still_to_come() -> None:
    line, operator = listener(IN_ORDER, SECOND)
    line.step({0: tuples(1, 5, 9)}, 2, {0: 8, 1: 2})
    line.step({}, 5, {0: 8, 1: 5})
    line.step({}, 9, {0: 20, 1: 9})
    assert operator.heard == [(5, 3), (9, 6), (21, 10)]


def test_within_the_slack_a_tuple_may_come_before_those_that_wait() -> None:
    line, operator = listener(IN_ORDER, SECOND)
    line.step({0: tuples(9)}, 2, {0: 4})
    assert operator.heard == [(5, 3)]


def test_what_leaves_times_alone_leaves_the_frontier_alone() -> None:
    passed = (TS, EXPIRES, OP, "v")
    projected = Node(ProjectSpec((), passed, "v > 0"), (IN_ORDER,))
    looked_up = Node(LookupJoinSpec((("v", "r"),), None), (projected, Node(RelationSpec("R"))))
    exchanged = Node(ExchangeSpec(7, ()), (looked_up,))
    for node in (projected, looked_up, exchanged):
        line, operator = listener(node, SECOND)
        line.step({0: tuples(6)}, 2, {0: 9})
        assert operator.heard == [(6, 3)]


def test_of_others_only_the_clock_is_known() -> None:
    moved = Node(SlideSpec(2), (IN_ORDER,))
    line, operator = listener(moved, Node(ExchangeSpec(1, ())))
    line.step({0: tuples(6)}, 2, {0: 9, 1: 9})
    assert operator.heard == [(3, 3)]


def test_no_frontier_is_beyond_all_times() -> None:
    line, operator = listener(FIRST, IN_ORDER)
    line.step({}, NEVER)
    assert operator.heard[-1] == (NEVER, NEVER)


def test_a_clock_that_moves_bit_by_bit_holds_the_frontier_back_where_tuples_wait() -> None:
    line, operator = listener(IN_ORDER, SECOND, Node(ExchangeSpec(2, ())), stride=3, slots=3)
    line.step({0: tuples(1, 4, 6), 1: tuples(3, 7)}, 8, {0: 9, 1: 8})
    assert operator.clocks == [-1, 2, 5, 8]
    assert operator.heard == [(4, 3, 3), (6, 6, 6), (10, 9, 9)]


STEPS = st.lists(
    st.tuples(*(st.lists(st.integers(0, 12), max_size=4) for _ in range(2)), st.integers(0, 5), st.integers(0, 5)),
    max_size=5,
)


@given(STEPS, st.integers(1, 20), st.booleans())
@example([([9, 5], [], 4, 0), ([6], [], 5, 5)], 20, True)
def test_no_later_tuple_is_before_the_frontier(steps: list, stride: int, restarts: bool) -> None:
    """Clocks move by the last two numbers; a tuple that its clock has passed would be late, so it stays away."""
    line, operator = listener(IN_ORDER, SECOND, stride=stride)
    clocks, heard, brought = [-1, -1], [], []
    for *arrivals, first, second in [*steps, ([], [], 30, 30)]:
        timely = {slot: tuples(*(ts for ts in arrivals[slot] if ts > clocks[slot])) for slot in (0, 1)}
        clocks = [clocks[0] + first, clocks[1] + second]
        line.step(timely, min(clocks), dict(enumerate(clocks)))
        heard, brought = heard + operator.heard, brought + operator.brought
        assert all(frontier > clock for clock, each in zip(operator.clocks[1:], operator.heard) for frontier in each)
        entries, registers, last = line.entries(), line.registers(), operator.clocks[-1]
        if restarts:
            line, operator = listener(IN_ORDER, SECOND, stride=stride)
            line.restore(entries, registers)
        operator.heard, operator.brought, operator.clocks = [], [], [last]
    for at, frontiers in enumerate(heard):
        for later in brought[at + 1 :]:
            assert all(ts >= frontier for frontier, times in zip(frontiers, later) for ts in times)


@pytest.mark.parametrize("spec", [ReorderSpec(is_total=False), ReorderSpec(is_total=True)])
def test_what_waits_is_known_again_after_a_restart(spec: ReorderSpec) -> None:
    """A block is kept whole until its last tuple is due: those that have left it do not wait any more."""
    before, _ = listener(Node(spec, (FIRST,)))
    before.step({0: tuples(3, 7, 9)}, 4, {0: 9})
    after, operator = listener(Node(spec, (FIRST,)))
    after.restore(before.entries(), before.registers())
    after.step({}, 5, {0: 9})
    after.step({}, 7, {0: 9})
    assert operator.heard == [(7,), (9,)]


class ListeningJoin(WindowJoin):
    """A join that takes down the frontiers it hears."""

    heard: ClassVar[list[tuple[int, ...]]] = []

    def hear(self, frontiers: Sequence[tuple[int, ...]]) -> None:
        self.heard.append(tuple(each for (each,) in frontiers))


def test_a_query_tells_how_far_each_stream_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """B is idle, and A runs far ahead of it; A has a slack of 5."""
    monkeypatch.setitem(operator_kinds.OPERATORS, WindowJoinSpec, ListeningJoin)
    monkeypatch.setattr(ListeningJoin, "heard", [])
    rows = pa.table({"ts": pa.array([], pa.int64()), "k": pa.array([], pa.int64())})
    running = sash.query(
        "SELECT A.k FROM a A, b B WHERE A.k = B.k WINDOW 50 us",
        a=sash.stream(rows, "ts", "5 us"),
        b=sash.stream(rows, "ts", "0 us"),
    )
    running.push("b", pa.table({"ts": [10], "k": [1]}))
    running.push("a", pa.table({"ts": [12, 100], "k": [1, 1]}))
    running.push("a", pa.table({"ts": [200], "k": [1]}))
    running.advance(20, "b")
    running.advance(150, "b")
    nothing = BEGINNING + 1
    assert ListeningJoin.heard == [(nothing, 10), (12, 10), (12, 10), (100, 21), (195, 151)]
