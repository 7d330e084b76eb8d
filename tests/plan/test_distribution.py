"""Where a plan is cut, and which columns decide a tuple's group in each part: tuples that can meet must be in one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.plan.physical import Plan

ONE_GROUP: dict[str, tuple[str, ...]] = {}


def branches_of(plan) -> list[str]:
    """The inputs of each branch, streams by alias and others by the branch that feeds them, with their columns."""
    branches = [branch for fragment in Plan.alone(plan).fragments for branch in fragment.branches]
    branches.sort(key=lambda branch: branch.name.number)
    feeding = {slot: str(branch.name.number) for branch in branches for slot in branch.feeds}
    aliases = {slot.number: slot.source.alias for slot in plan.slots}
    return [
        ", ".join(f"{(aliases | feeding)[input.slot]} by {' '.join(input.partition) or 'none'}" for input in one.inputs)
        for one in branches
    ]


def partition_of(plan) -> dict[str, tuple[str, ...]]:
    (fragment,) = Plan.alone(plan).fragments
    assert fragment.is_partitioned == all(slot.partition for slot in plan.slots)
    return {slot.source.alias: slot.partition for slot in plan.slots if slot.partition}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        pytest.param(
            "SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
            {"A": ("A.k",), "B": ("B.k",)},
            id="one key",
        ),
        pytest.param(
            "SELECT A.x FROM A, B WHERE A.k = B.k AND A.s = B.s WINDOW 1 MINUTE",
            {"A": ("A.k", "A.s"), "B": ("B.k", "B.s")},
            id="two keys",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 MINUTE",
            {"A": ("A.k",), "B": ("B.k",), "C": ("C.k",)},
            id="three streams share a key",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE C.k = A.k AND A.k = B.k AND B.s = C.s WINDOW 1 MINUTE",
            {"A": ("A.k",), "B": ("B.k",), "C": ("C.k",)},
            id="only the key that all share",
        ),
        pytest.param("SELECT A.x FROM A, B WHERE A.x < B.y WINDOW 1 MINUTE", ONE_GROUP, id="no equality"),
        pytest.param(
            "SELECT A.x FROM A, B WHERE A.k = B.k OR A.s = B.s WINDOW 1 MINUTE", ONE_GROUP, id="one equality or another"
        ),
        pytest.param(
            "SELECT A.x FROM A, B WHERE A.k + 1 = B.k WINDOW 1 MINUTE",
            {"A": ("_key0.B.left",), "B": ("B.k",)},
            id="a computed key",
        ),
        pytest.param(
            "SELECT A.x FROM A, B WHERE A.x = B.y WINDOW 1 MINUTE",
            {"A": ("_key0.B.left",), "B": ("_key0.B.right",)},
            id="a key in the type of both",
        ),
        pytest.param(
            "SELECT A.x FROM A, R, B WHERE A.k = R.k AND R.k = B.k WINDOW 1 MINUTE",
            {"A": ("A.k",), "B": ("B.k",)},
            id="a relation that carries the key across",
        ),
        pytest.param(
            "SELECT X.x FROM A X, A Y WHERE X.k = Y.k AND X.s = Y.s WINDOW 1 MINUTE",
            {"X": ("X.k", "X.s"), "Y": ("Y.k", "Y.s")},
            id="a stream with itself",
        ),
        pytest.param(
            "SELECT X.x FROM A X, A Y WHERE X.k = Y.x WINDOW 1 MINUTE",
            {"X": ("_key0.Y.left",), "Y": ("_key0.Y.right",)},
            id="a stream with itself, column by column",
        ),
        pytest.param(
            "SELECT A.x FROM A [ROWS 5], B [ROWS 5] WHERE A.k = B.k", ONE_GROUP, id="row-count windows see all rows"
        ),
        pytest.param(
            "SELECT A.x FROM A [PARTITION BY k ROWS 5], B [RANGE 1 MINUTE] WHERE A.k = B.k",
            {"A": ("A.k",), "B": ("B.k",)},
            id="row-count windows by the join key",
        ),
        pytest.param(
            "SELECT A.x FROM A [PARTITION BY k, s ROWS 5], B [RANGE 1 MINUTE] WHERE A.k = B.k AND A.x = B.ts",
            {"A": ("A.k",), "B": ("B.k",)},
            id="row-count windows by more than the join key",
        ),
        pytest.param(
            "SELECT A.x FROM A [PARTITION BY k, s ROWS 5]", {"A": ("A.k", "A.s")}, id="one stream by its partitions"
        ),
        pytest.param("SELECT A.x FROM A [ROWS 5]", ONE_GROUP, id="one stream, all rows counted"),
        pytest.param("SELECT A.x FROM A [RANGE 1 MINUTE]", {"A": ("A.x",)}, id="one stream, by anything"),
        pytest.param("SELECT A.x FROM A, R WHERE A.k = R.k", {"A": ("A.k", "A.x")}, id="one stream and a relation"),
        pytest.param(
            "SELECT A.s, count(*) AS n FROM A [RANGE 1 MINUTE], R WHERE A.k = R.k GROUP BY A.s",
            {"A": ("A.s",)},
            id="one stream and a relation, as groups need it",
        ),
        pytest.param(
            "SELECT A.s, count(*) AS n FROM A [PARTITION BY k, s ROWS 5] GROUP BY A.s",
            {"A": ("A.s",)},
            id="groups of row-count windows by less than their partitions",
        ),
        pytest.param(
            "SELECT DISTINCT A.k, A.s, A.x FROM A [PARTITION BY k, s ROWS 5]",
            {"A": ("A.k", "A.s")},
            id="rows of row-count windows by their partitions",
        ),
        pytest.param(
            "SELECT A.x FROM A CROSS JOIN B LEFT JOIN R ON A.k = R.k AND B.k = R.k WINDOW 1 MINUTE",
            ONE_GROUP,
            id="keys of a relation that need not be found",
        ),
        pytest.param("SELECT 1 AS one FROM A", ONE_GROUP, id="one stream of which nothing is read"),
    ],
)
def test_a_plan_of_one_fragment(sql: str, expected: dict[str, tuple[str, ...]], plan: Callable) -> None:
    assert partition_of(plan(sql)) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.s = C.s WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by B.s, C by C.s"],
            id="a chain of two keys",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C, A D WHERE A.k = B.k AND B.s = C.s AND C.z = D.ts WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by B.s, C by C.s", "1 by C.z, D by D.ts"],
            id="a chain of three keys",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C, A D WHERE A.k = B.k AND B.s = C.s AND C.s = D.s WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by B.s, C by C.s, D by D.s"],
            id="as many streams as share a key run together",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C, A D WHERE A.k = B.k AND A.s = B.s AND B.s = C.s AND C.z = D.k WINDOW 1 MINUTE",
            ["A by A.s, B by B.s, C by C.s", "0 by C.z, D by D.k"],
            id="the key that reaches further",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.y < C.z WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by none, C by none"],
            id="no equality on top of one",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE A.x < B.y AND B.s = C.s WINDOW 1 MINUTE",
            ["A by none, B by none", "0 by B.s, C by C.s"],
            id="an equality on top of none",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C, A D WHERE A.k = B.k AND B.y < C.z AND D.s = C.s WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by none, C by none", "1 by C.s, D by D.s"],
            id="no equality between two",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE A.k = B.k WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by none, C by none"],
            id="a stream that nothing connects",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, C WHERE A.k = B.k AND A.k + B.k = C.k WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by _key0.C.left, C by C.k"],
            id="a key computed from two streams",
        ),
        pytest.param(
            "SELECT A.x FROM A, R, B WHERE A.k = R.k AND R.name = B.s WINDOW 1 MINUTE",
            ["A by A.k A.x", "0 by R.name, B by B.s"],
            id="a relation that turns one key into another",
        ),
        pytest.param(
            "SELECT A.x FROM A, B, R, C WHERE A.k = B.k AND B.s = R.name AND R.k = C.k AND C.s = A.s WINDOW 1 MINUTE",
            ["A by A.k, B by B.k", "0 by A.s R.k, C by C.s C.k"],
            id="a relation between two fragments",
        ),
        pytest.param(
            "SELECT X.x FROM A X, A Y, A Z WHERE X.k = Y.k AND Y.s = Z.s WINDOW 1 MINUTE",
            ["X by X.k, Y by Y.k", "0 by Y.s, Z by Z.s"],
            id="a stream with itself",
        ),
        pytest.param(
            "SELECT A.x FROM A [PARTITION BY s ROWS 5], B [RANGE 1 MINUTE] WHERE A.k = B.k",
            ["A by A.s", "0 by A.k, B by B.k"],
            id="a row-count window by another key",
        ),
        pytest.param(
            "SELECT A.x FROM A [RANGE 1 MINUTE], B [PARTITION BY s ROWS 5] WHERE A.k = B.k",
            ["B by B.s", "A by A.k, 0 by B.k"],
            id="a row-count window by another key on the right",
        ),
        pytest.param(
            "SELECT A.x FROM A [PARTITION BY s ROWS 5], B [PARTITION BY s ROWS 5], C [RANGE 1 MINUTE] "
            "WHERE A.k = B.k AND B.s = C.s",
            ["A by A.s", "B by B.s", "0 by A.k, 1 by B.k", "2 by B.s, C by C.s"],
            id="row-count windows by other keys",
        ),
        pytest.param(
            "SELECT A.x FROM A [RANGE 1 MINUTE], B [RANGE 1 MINUTE], C [ROWS 5] WHERE A.k = B.k AND B.k = C.k",
            ["A by A.k, B by B.k", "0 by none, C by none"],
            id="a row-count window that sees all rows on top",
        ),
        pytest.param(
            "SELECT A.x FROM A [ROWS 5], B [RANGE 1 MINUTE], C [RANGE 1 MINUTE] WHERE A.k = B.k AND B.s = C.s",
            ["A by none, B by none", "0 by B.s, C by C.s"],
            id="a row-count window that sees all rows at the bottom",
        ),
    ],
)
def test_a_plan_of_several_fragments(sql: str, expected: list[str], plan: Callable) -> None:
    assert branches_of(plan(sql)) == expected


def test_a_class_of_a_join_above_partitions_what_is_below(plan: Callable) -> None:
    """Of A and B nothing is equal, but only pairs with equal keys survive the join with C."""
    theta = "SELECT A.x FROM A, B, {} WHERE A.x < B.y AND A.k = C.k AND B.k = C.k"
    assert branches_of(plan(theta.format("C") + " WINDOW 1 MINUTE")) == ["A by A.k, C by C.k, B by B.k"]


def test_the_order_of_conditions_does_not_move_tuples_to_other_groups(plan: Callable) -> None:
    """The columns come in the same order on every stream, else equal keys would hash to different groups."""
    one = partition_of(plan("SELECT A.x FROM A, B WHERE A.s = B.s AND A.k = B.k WINDOW 1 MINUTE"))
    other = partition_of(plan("SELECT A.x FROM A, B WHERE B.k = A.k AND B.s = A.s WINDOW 1 MINUTE"))
    assert one == other == {"A": ("A.k", "A.s"), "B": ("B.k", "B.s")}


def test_keys_that_cross_pair_up_by_class_not_by_name(plan: Callable) -> None:
    crossed = partition_of(plan("SELECT A.x FROM A, C WHERE A.k = C.z AND A.ts = C.k WINDOW 1 MINUTE"))
    assert crossed == {"A": ("A.k", "A.ts"), "C": ("C.z", "C.k")}
