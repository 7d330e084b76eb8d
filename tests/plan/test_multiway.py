"""Which streams are joined many at a time: by which keys, how far apart, and what is looked up before or after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.errors import PlanError
from sash.operators.combination_checks import Condition
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.plan.physical import Plan
from sash.plan.query_plan import MULTIWAY_ALGORITHMS, QueryPlan

S = 1_000_000
PAIRS = "WINDOW (A, B) = 1 S AND WINDOW (B, C) = 2 S"


def names(plan: QueryPlan) -> list[str]:
    """Of the operators but scans, inner ones first."""
    every = [type(node.spec).__name__.removesuffix("Spec") for node in plan.root.walk()]
    return [name for name in every if name not in ("Input", "Reorder")]


def joins(plan: QueryPlan) -> list[MultiwayJoinSpec]:
    return [node.spec for node in plan.root.walk() if isinstance(node.spec, MultiwayJoinSpec)]


def join(plan: QueryPlan) -> MultiwayJoinSpec:
    (found,) = joins(plan)
    return found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 S", ["MultiwayJoin"]),
        ("SELECT A.x FROM A, B, C WHERE A.x < B.y AND B.y < C.z WINDOW 1 S", ["MultiwayJoin"]),
        ("SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 S", ["WindowJoin"]),
        ("SELECT A.x FROM A, B WHERE A.k = B.k WINDOW (A, B) = 1 S", ["MultiwayJoin"]),
        ("SELECT A.x FROM A, B WHERE A.k = B.k DWINDOW (A, B) = 1 S", ["MultiwayJoin"]),
        ("SELECT /*+ hw */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 S", ["MultiwayJoin"]),
        ("SELECT /*+ hw */ A.x FROM A WINDOW 1 S", []),
        ("SELECT /*+ hash */ A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 S", ["WindowJoin"] * 2),
        (f"SELECT /*+ hash */ A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k {PAIRS}", ["MultiwayJoin"]),
        ("SELECT /*+ hybrid */ A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 S", ["MultiwayJoin", "Expire"]),
        (f"SELECT /*+ nta */ A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k {PAIRS}", ["MultiwayJoin", "Expire"]),
        (
            "SELECT /*+ nta */ A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 S",
            ["Expire", "Expire", "WindowJoin", "Expire", "WindowJoin"],
        ),
        (
            "SELECT A.x FROM A [RANGE 1 S SLIDE 1 S], B [RANGE 1 S], C [RANGE 1 S] WHERE A.k = B.k AND B.k = C.k",
            ["Slide", "WindowJoin", "WindowJoin"],
        ),
        (
            "SELECT A.x FROM A [PARTITION BY k ROWS 5], B [RANGE 1 S], C [RANGE 1 S] WHERE A.k = B.k AND B.k = C.k",
            ["CountWindow", "WindowJoin", "WindowJoin"],
        ),
        (
            "SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.s = C.s WINDOW 1 S",
            ["WindowJoin", "Exchange", "WindowJoin"],
        ),
        (
            f"SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.s = C.s {PAIRS}",
            ["Project", "Project", "MultiwayJoin", "Exchange", "Project", "MultiwayJoin"],
        ),
    ],
)
def test_what_joins(sql: str, expected: list[str], plan: Callable) -> None:
    assert names(plan(sql)) == [*expected, "Project"]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("A.k = B.k AND B.k = C.k", [["A.k", "B.k", "C.k"]]),
        ("A.k = C.k AND B.k = A.k", [["A.k", "B.k", "C.k"]]),
        ("A.k = B.k AND A.s = B.s AND B.k = C.k AND B.s = C.s", [["A.k A.s", "B.k B.s", "C.k C.s"]]),
        ("A.k = B.k AND B.k = C.k AND A.s = C.s", [["A.k", "B.k", "C.k"], ["A.s", "", "C.s"]]),
        ("A.k + 1 = B.k AND B.k = C.k", [["_key0.B.left", "B.k", "C.k"]]),
        ("A.k < B.k AND B.k < C.k", []),
    ],
)
def test_keys_are_what_all_have_that_share_them(where: str, keys: list[list[str]], plan: Callable) -> None:
    found = join(plan(f"SELECT A.x FROM A, B, C WHERE {where} {PAIRS}")).keys
    assert [[" ".join(columns) for columns in key] for key in found] == keys


def test_two_columns_of_a_stream_that_must_be_equal_are_compared_once(plan: Callable) -> None:
    spec = join(plan("SELECT X.x FROM A X, C Y, C Z WHERE X.k = Y.k AND Y.k = Z.k AND X.k = Z.z WINDOW 1 S"))
    assert spec.keys == ((("X.k",), ("Y.k",), ("Z.k",)),)
    assert spec.conditions == (Condition('"Z.z" = "Z.k"', (2,)),)


@pytest.mark.parametrize(
    ("windows", "reach"),
    [
        (
            "FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 5 S",
            ((0, 5 * S - 1, 5 * S - 1), (5 * S - 1, 0, 5 * S - 1), (5 * S - 1, 5 * S - 1, 0)),
        ),
        (
            "FROM A [RANGE 1 S], B [RANGE 2 S], C [RANGE 3 S] WHERE A.k = B.k AND B.k = C.k",
            ((0, S - 1, S - 1), (2 * S - 1, 0, 2 * S - 1), (3 * S - 1, 3 * S - 1, 0)),
        ),
        (
            "FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW (A, B) = 1 S AND DWINDOW (B, C) = 2 S",
            ((0, S - 1, 3 * S - 2), (S - 1, 0, 2 * S - 1), (S - 1, 0, 0)),
        ),
    ],
)
def test_how_much_newer_than_a_tuple_of_each_those_of_the_others_may_be(windows, reach, plan: Callable) -> None:
    assert join(plan(f"SELECT A.x {windows}")).reach_us == reach


def test_conditions_know_what_they_read(plan: Callable) -> None:
    sql = f"SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k AND A.x < C.z AND A.x + B.y < C.z {PAIRS}"
    assert [each.inputs for each in join(plan(sql)).conditions] == [(0, 2), (0, 1, 2)]


def test_where_the_key_changes_tuples_carry_their_times(plan: Callable) -> None:
    """A pair's window can only be checked where both are there."""
    made = plan(f"SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.s = C.s {PAIRS}")
    first, second = joins(made)
    assert (first.names, second.names) == (("A", "B"), ("A+B", "C"))
    assert first.conditions == ()
    assert second.conditions == (
        Condition(f'"_time.C" - "_time.A" BETWEEN {2 - 3 * S} AND {3 * S - 2}', (0, 1)),
        Condition(f'"_time.C" - "_time.B" BETWEEN {1 - 2 * S} AND {2 * S - 1}', (0, 1)),
    )
    assert second.reach_us == ((0, 2 * S - 1), (3 * S - 2, 0)), "of A and B together the newer one is later"
    assert [[input.partition for input in fragment.inputs] for fragment in Plan.alone(made).fragments] == [
        [("A.k",), ("B.k",)],
        [("B.s",), ("C.s",)],
    ]
    assert "_time.A" in Plan.alone(made).fragments[1].inputs[0].schema.names


def test_streams_of_one_key_run_in_one_fragment(plan: Callable) -> None:
    (fragment,) = Plan.alone(plan(f"SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k {PAIRS}")).fragments
    assert [input.partition for input in fragment.inputs] == [("A.k",), ("B.k",), ("C.k",)]


@pytest.mark.parametrize(
    ("tables", "where", "expected"),
    [
        pytest.param("A, B, C, R", "B.k = R.k", ["Relation", "LookupJoin", "MultiwayJoin"], id="by one stream"),
        pytest.param(
            "A, B, C, R",
            "A.k + C.k = R.k",
            ["MultiwayJoin", "Project", "Relation", "LookupJoin"],
            id="by two streams",
        ),
        pytest.param("A, B, C, R", "R.k < 5", ["MultiwayJoin", "Relation", "LookupJoin"], id="by none"),
        pytest.param(
            "A, R, B, C",
            "A.k = R.k AND R.k = B.k",
            ["Relation", "LookupJoin", "MultiwayJoin"],
            id="a relation that carries the key across",
        ),
        pytest.param(
            "A, R, B, C",
            "A.k = R.k AND R.name < B.s",
            ["Relation", "LookupJoin", "MultiwayJoin"],
            id="a relation that a condition reads",
        ),
    ],
)
def test_relations(tables: str, where: str, expected: list[str], plan: Callable) -> None:
    made = plan(f"SELECT A.x FROM {tables} WHERE A.k = B.k AND B.k = C.k AND {where} {PAIRS}")
    assert names(made) == [*expected, "Project"]


def test_what_a_relation_says_of_two_streams_may_join_the_third(plan: Callable) -> None:
    sql = f"SELECT A.x FROM A, B, R, C WHERE A.k = B.k AND A.x + B.k = R.k AND R.name = C.s {PAIRS}"
    made = plan(sql)
    assert [spec.names for spec in joins(made)] == [("A", "B"), ("A+B", "C")]
    assert names(made)[2:] == [
        *("MultiwayJoin", "Project", "Relation", "LookupJoin", "Exchange", "Project", "MultiwayJoin", "Project"),
    ]


def test_in_windows_of_their_own_a_join_as_an_input_checks_lives(plan: Callable) -> None:
    """Reach is of the newer of A and B; the older one may have left its window."""
    sql = "SELECT /*+ mw */ A.x FROM A, B, C WHERE A.k = B.k AND A.k + B.k = C.k WINDOW 1 S"
    first, second = joins(plan(sql))
    assert (first.checks_lives, second.checks_lives) == (False, True)


@pytest.mark.parametrize("hint", [*MULTIWAY_ALGORITHMS, "gca(nlw)", "gca(hw)", "gca( mw )"])
def test_hints(hint: str, plan: Callable) -> None:
    hinted = plan(f"SELECT /*+ {hint} */ A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k {PAIRS}")
    algorithm, _, inner = hint.rstrip(" )").partition("(")
    assert (join(hinted).algorithm, join(hinted).inner) == (algorithm, inner.strip() or None)
    assert hinted.fingerprint == plan(f"SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k {PAIRS}").fingerprint


def test_a_hint_gets_all_streams_in_one_join(plan: Callable) -> None:
    made = plan(f"SELECT /*+ nlw */ A.x FROM A, B, C WHERE A.k = B.k AND B.s = C.s {PAIRS}")
    assert join(made).keys == ((("A.k",), ("B.k",), ()), ((), ("B.s",), ("C.s",)))
    assert [slot.partition for slot in made.slots] == [(), (), ()]


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("gca(ripple)", "`gca` takes one of nlw, hw, mw, as in `gca(hw)`"),
        ("gca()", "`gca` takes one of nlw, hw, mw, as in `gca(hw)`"),
        ("mw(3)", "`mw` takes no settings"),
    ],
)
def test_settings_that_cannot_be(hint: str, reason: str, plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT /*+ {hint} */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 S")
    setting = hint[hint.index("(") + 1 : -1]
    assert caught.value.reason == f"the hint `{hint}` cannot be set to `{setting}`; {reason}"


@pytest.mark.parametrize("window", ["ROWS 5", "RANGE 1 MINUTE SLIDE 10 S"])
def test_a_hint_needs_windows_of_time(window: str, plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT /*+ lca */ A.x\nFROM A [RANGE 1 S], B [{window}] WHERE A.k = B.k")
    assert caught.value.reason == (
        "the hint `lca` needs a window of time without `SLIDE` on every stream, and `B` has none; "
        "give it one such as [RANGE 1 HOUR], or leave the hint out"
    )


def test_pair_windows_tell_plans_apart(plan: Callable) -> None:
    sql = "SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW (A, B) = 1 S AND {} (B, C) = {} S"
    texts = [sql.format(*kind) for kind in (("WINDOW", 2), ("DWINDOW", 2), ("WINDOW", 3))]
    assert len({plan(text).fingerprint for text in texts}) == 3
