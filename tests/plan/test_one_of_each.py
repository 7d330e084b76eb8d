"""Equal subtrees of a plan are one node, run once: plans of nested outer joins grow with the number of joins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.frames import Stream
from sash.operators.node import Node, count_readers
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.union import UnionSpec
from sash.oracle.snapshot_law import check_snapshot
from sash.plan.query_plan import QueryPlan
from sash.store import sorted_runs
from sash.testing import Case, assert_changes

pytestmark = pytest.mark.usefixtures("without_limit")

STREAMS = "abcdefgh"
MOST_NODES = 40
"""An outer join adds no more."""


def frames_of(n_streams: int, n_rows: int = 9) -> dict[str, Stream]:
    return {
        name: Stream(
            pa.table({
                "ts": [10 * row + number for row in range(n_rows)],
                "k": [(row * (number + 2)) % 3 for row in range(n_rows)],
                "v": list(range(n_rows)),
            }),
            "ts",
        )
        for number, name in enumerate(STREAMS[:n_streams])
    }  # fmt: skip


def nested(kind: str, n_joins: int, on: str = "{}.k = {}.k") -> str:
    joins = [
        f"{kind} JOIN {name} [RANGE 40 us] ON {on.format(before, name)}"
        for before, name in pairwise(STREAMS[: n_joins + 1])
    ]
    columns = ", ".join(f"{name}.v AS {name}v" for name in STREAMS[: n_joins + 1])
    return f"SELECT {columns} FROM a [RANGE 40 us] {' '.join(joins)}"


def plan_of(text: str, n_streams: int) -> QueryPlan:
    return sash.query(text, **frames_of(n_streams)).plan


def count_nodes(root: Node) -> int:
    return len(list(root.walk()))


def sizes_of(kind: str, on: str) -> list[int]:
    """How many nodes the plan of so many joins has, from one on."""
    return [count_nodes(plan_of(nested(kind, n_joins, on), n_joins + 1).root) for n_joins in range(1, 7)]


@pytest.mark.parametrize("on", ["{}.k = {}.k", "{0}.v = {1}.k AND {0}.k = {1}.v"])
@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_a_plan_grows_with_the_number_of_its_outer_joins(kind: str, on: str) -> None:
    sizes = sizes_of(kind, on)
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) <= MOST_NODES, sizes
    assert max(grown[1:]) == min(grown[1:]), sizes


@pytest.mark.parametrize(("kind", "most_more"), [("LEFT", 2), ("FULL", 3)])
def test_tuples_grow_with_the_number_of_outer_joins(kind: str, most_more: int) -> None:
    """What tells them apart, so that they can be taken back, does not double with each."""
    widths = []
    for n_joins in range(2, 7):
        plan = plan_of(nested(kind, n_joins, "{0}.v = {1}.v AND {0}.k = {1}.k"), n_joins + 1)
        widths.append(max(len(node.spec.ids) for node in plan.root.walk() if isinstance(node.spec, UnionSpec)))
    assert max(after - before for before, after in pairwise(widths)) <= most_more, widths


@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_without_equalities_a_plan_is_read_in_one_group_and_by_what_is_compared(kind: str) -> None:
    """Two branches have what is below each join, so that a join adds as much as there are below it."""
    sizes = sizes_of(kind, "{}.v < {}.v")
    grown = [after - before for before, after in pairwise(sizes)]
    assert len({after - before for before, after in pairwise(grown)}) == 1, sizes


@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_what_several_read_is_in_one_branch(kind: str) -> None:
    """A slot is read by one branch, and an exchange has one reader of its slot."""
    plan = plan_of(nested(kind, 4), 5)
    slots = [node.spec.slot for node in plan.root.walk() if isinstance(node.spec, InputSpec | ExchangeSpec)]
    assert sorted(slots) == list(range(len(slots)))
    branches = plan.cut("q", plan.root, plan.inputs)
    read = [each.slot for branch in branches for each in branch.inputs]
    assert sorted(read) == list(range(len(slots)))
    assert sorted(slot for branch in branches for slot in branch.feeds) == list(range(len(plan.slots), len(slots)))
    assert max(count_readers(plan.root).values()) > 1


@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_the_answer_does_not_depend_on_the_schedule_or_on_cuts(kind: str) -> None:
    case = Case(nested(kind, 3), frames_of(4))
    expected = case.run()
    check_snapshot(case.bound, case.tables, expected)
    for schedule in ("nta", "hybrid"):
        assert_changes(case.run(schedule), expected)


@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_readers_at_their_own_pace_get_all_of_what_is_too_much_for_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, frames = nested(kind, 2), frames_of(3, 60)
    expected = sash.sql(text, **frames)
    large: list[bool] = []
    read = sorted_runs.SharedRuns.read

    def watch(runs: sorted_runs.SharedRuns) -> Iterator[pa.Table]:
        large.append(runs.is_large)
        yield from read(runs)

    monkeypatch.setattr(sorted_runs, "LEAST_RUN_BYTES", 1 << 10)
    monkeypatch.setattr(sorted_runs.SharedRuns, "read", watch)
    sash.configure(memory="64k", spill=tmp_path)
    assert_changes(sash.sql(text, **frames), expected)
    assert any(large)
