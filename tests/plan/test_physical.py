"""The physical plan: which operators run, what may be sent to a worker, what a checkpoint may be continued with."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import sash
from sash.cost.choose_join import SHIPPED
from sash.cost.choose_multiway import choose_algorithm
from sash.embedded.multiway_load import even_many_load
from sash.operators.count_window import CountWindowSpec
from sash.operators.expire import ExpireSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node, in_order_of_time
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.physical import Plan

JOIN = "SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE"


def names(plan) -> list[str]:
    return [type(node.spec).__name__.removesuffix("Spec") for node in plan.root.walk()]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT A.x FROM A [RANGE 1 MINUTE]", ["Input", "Project"]),
        ("SELECT A.x FROM A [RANGE 1 MINUTE] EMIT CHANGES", ["Input", "Project", "Expire"]),
        (JOIN, ["Input", "Input", "WindowJoin", "Project"]),
        ("SELECT A.x FROM A, R WHERE A.k = R.k", ["Input", "Relation", "LookupJoin", "Project"]),
        ("SELECT A.x FROM A [ROWS 2]", ["Input", "Reorder", "CountWindow", "Project"]),
        ("SELECT A.x FROM A [ROWS 2] WHERE A.x > 1", ["Input", "Reorder", "CountWindow", "Project", "Project"]),
        (
            "SELECT A.x FROM A, B, C WHERE A.k = B.k AND A.k + B.k = C.k WINDOW 1 MINUTE",
            ["Input", "Input", "WindowJoin", "Project", "Exchange", "Input", "WindowJoin", "Project"],
        ),
    ],
)
def test_operators(sql: str, expected: list[str], plan: Callable) -> None:
    assert names(plan(sql)) == expected


EXCEPT_OF_TWO = "(SELECT k FROM A EXCEPT SELECT k FROM B)"


@pytest.mark.parametrize(
    ("sql", "below"),
    [
        (f"DISTINCT S.k FROM {EXCEPT_OF_TWO} S, R WHERE S.k = R.k", ["LookupJoin"]),
        (f"DISTINCT S.k FROM C, {EXCEPT_OF_TWO} S WHERE C.k = S.k", ["WindowJoin"]),
        (f"DISTINCT S.k FROM {EXCEPT_OF_TWO} S", ["Reorder", "Reorder"]),
        ("DISTINCT S.k FROM (SELECT A.k FROM A, B WHERE A.k = B.k) S, C WHERE C.k = S.k", ["WindowJoin"]),
        ("DISTINCT S.k FROM (SELECT A.k FROM A, B WHERE A.k = B.k) S", ["WindowJoin"]),
        ("A.k FROM A, B WHERE A.k = B.k AND A.k IN (SELECT k FROM C)", ["WindowJoin", "Reorder"]),
        (
            "A.k FROM A, B WHERE A.k = B.k AND A.k IN (SELECT C.k FROM C, R WHERE C.k = R.k)",
            ["WindowJoin", "LookupJoin"],
        ),
    ],
)
def test_hybrid_has_w_expire_above_the_topmost_joins_alone(sql: str, below: list[str], plan: Callable) -> None:
    made = plan(f"SELECT /*+ hybrid */ {sql} WINDOW 1 MINUTE")
    expire = [node for node in made.root.walk() if isinstance(node.spec, ExpireSpec)]
    assert [type(node.inputs[0].spec).__name__.removesuffix("Spec") for node in expire] == below


def test_lives_bound_the_state_of_a_join(plan: Callable) -> None:
    """A combination lives no longer than its shortest window; rows bound what time does not."""
    sql = "SELECT 1 AS x FROM A [RANGE 3 S], B [RANGE 2 S], C [ROWS 9] WHERE A.k = B.k AND B.k = C.k EMIT CHANGES"
    specs = [node.spec for node in plan(sql).root.walk()]
    assert [spec.windows_us for spec in specs if isinstance(spec, WindowJoinSpec)] == [
        (3_000_000, 2_000_000),
        (2_000_000, None),
    ]
    assert [spec.window_us for spec in specs if isinstance(spec, ExpireSpec)] == [2_000_000]


def test_where_rows_are_counted_every_source_gives_its_tuples_an_identity(plan: Callable) -> None:
    """Without them a tuple that is taken back could not be told from another with the same members."""
    counted = plan("SELECT A.x FROM A [ROWS 2], B [RANGE 1 MINUTE], R WHERE A.k = B.k AND A.k = R.k")
    assert counted.is_ordered
    reorders = [node.spec for node in counted.root.walk() if isinstance(node.spec, ReorderSpec)]
    assert reorders == [ReorderSpec(is_total=True), ReorderSpec(is_total=False, id_column="_id.B")]
    assert [node.spec.id_column for node in counted.root.walk() if isinstance(node.spec, CountWindowSpec)] == ["_id.A"]
    assert [lookup.is_numbered for lookup in counted.lookups] == [True]
    assert {"_id.A", "_id.B", "_id.R"} <= set(counted.root.spec.passed)
    timed = plan("SELECT A.x FROM A [RANGE 1 HOUR], B [RANGE 1 MINUTE], R WHERE A.k = B.k AND A.k = R.k")
    assert not timed.is_ordered
    assert not any(name.startswith("_id.") for name in timed.root.spec.passed)


def test_order_of_time_is_brought_in_once_per_input(plan: Callable) -> None:
    mixed = in_order_of_time(plan("SELECT A.x FROM A [ROWS 2], B [RANGE 1 MINUTE] WHERE A.k = B.k").root)
    timed = in_order_of_time(plan(JOIN).root)
    for root in (mixed, timed):
        parents = [node for node in root.walk() for child in node.inputs if isinstance(child.spec, InputSpec)]
        assert [type(node.spec) for node in parents] == [ReorderSpec, ReorderSpec]


def test_a_plan_can_be_sent_to_a_worker(plan: Callable) -> None:
    made = plan("SELECT R.name FROM A [ROWS 2], B [NOW], R WHERE A.k + 1 = B.k AND A.k = R.k EMIT CHANGES")
    sent = pickle.loads(pickle.dumps(made))
    assert sent.fingerprint == made.fingerprint
    relation = {"r": pa.table({"k": [1], "name": ["one"]})}
    assert sent.tree(relation).schema == made.tree(relation).schema


def test_fragments_are_the_plan_cut_at_its_exchanges(plan: Callable) -> None:
    query = plan("SELECT R.name FROM A, B, R, C WHERE A.k = B.k AND B.s = R.name AND R.k = C.k WINDOW 1 MINUTE")
    made = Plan.alone(query, "q")
    (inner,), (outer,) = (fragment.branches for fragment in made.fragments)
    assert [type(node.spec).__name__ for node in outer.root.walk()] == [
        "ExchangeSpec",
        "InputSpec",
        "WindowJoinSpec",
        "ProjectSpec",
    ]
    assert (inner.feeds, outer.feeds) == ((3,), ())
    assert made.reader(3) == (made.fragments[1], outer.inputs[0])
    assert [made.reader(slot.number)[0].number for slot in made.slots] == [0, 0, 1]
    relation = {"r": pa.table({"k": [1], "name": ["one"]})}
    assert inner.tree(query.load(relation)).schema == outer.inputs[0].schema
    assert outer.tree(query.load(relation)).schema == query.tree(relation).schema


def test_parts_that_do_not_feed_each_other_run_side_by_side(plan: Callable) -> None:
    """Two aggregates that are joined take two stages, not three."""
    grouped = "(SELECT s, count(*) AS n FROM {} GROUP BY s WINDOW 1 MINUTE)"
    query = plan(f"SELECT p.n, q.n AS m FROM {grouped.format('A')} p, {grouped.format('B')} q WHERE p.n = q.n")
    first, second = Plan.alone(query, "q").fragments
    assert [branch.name.number for branch in first.branches] == [0, 1]
    assert [branch.name.number for branch in second.branches] == [2]
    assert {slot for branch in first.branches for slot in branch.feeds} == {input.slot for input in second.inputs}


def test_where_a_plan_is_cut_changes_what_a_checkpoint_means(plan: Callable) -> None:
    made = plan("SELECT A.x FROM A, B, C WHERE A.k = B.k AND B.s = C.s WINDOW 1 MINUTE")

    def uncut(node: Node) -> Node:
        inputs = tuple(map(uncut, node.inputs))
        return inputs[0] if isinstance(node.spec, ExchangeSpec) else Node(node.spec, inputs)

    assert replace(made, root=uncut(made.root)).fingerprint != made.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        "SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 2 MINUTES",
        "SELECT A.x FROM A, B WHERE A.k = B.k AND A.x > 1 WINDOW 1 MINUTE",
        "SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
        "SELECT A.x AS y FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
        "SELECT A.x FROM A, B WHERE A.s = B.s WINDOW 1 MINUTE",
        "SELECT A.x FROM A, C B WHERE A.k = B.k WINDOW 1 MINUTE",
        "SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE EMIT CHANGES",
    ],
)
def test_another_query_has_another_fingerprint(other: str, plan: Callable) -> None:
    assert plan(other).fingerprint != plan(JOIN).fingerprint


def test_another_method_goes_on_from_the_same_checkpoint(plan: Callable) -> None:
    hinted = plan("SELECT /*+ wnl */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE")
    assert hinted.fingerprint == plan("SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE").fingerprint


def test_another_algorithm_goes_on_from_the_same_checkpoint(plan: Callable) -> None:
    text = "SELECT {} A.x FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 MINUTE"
    first, *others = (plan(text.format(hint)).fingerprint for hint in ("", "/*+ mw */", "/*+ nlw */", "/*+ probe */"))
    assert set(others) == {first}
    made = plan(text.format(""))
    (spec,) = (node.spec for node in made.root.walk() if isinstance(node.spec, MultiwayJoinSpec))
    chosen = replace(spec, choice=choose_algorithm(even_many_load(3, 10, 60, 10), SHIPPED))
    assert repr(chosen) == repr(spec), "what a choice is for is no part of the fingerprint"


def test_the_same_query_written_otherwise_has_the_same_fingerprint(plan: Callable) -> None:
    otherwise = "select A.X\nfrom A, B -- a join\nwhere a.k = b.k window 60 seconds"
    assert plan(otherwise).fingerprint == plan(JOIN).fingerprint


def test_a_slack_changes_what_a_checkpoint_means(plan: Callable) -> None:
    made = plan(JOIN)
    slot = made.slots[0]
    slower = replace(slot, source=replace(slot.source, info=replace(slot.info, slack_us=5)))
    assert replace(made, slots=(slower, *made.slots[1:])).fingerprint != made.fingerprint


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.int64(), pa.int64(), pa.int64()),
        (pa.int64(), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("us", "Europe/Paris"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_changes_tell_time_as_the_streams_do(left: pa.DataType, right: pa.DataType, expected: pa.DataType) -> None:
    frames = {name: sash.stream(pa.schema([("ts", type)]), time="ts") for name, type in (("l", left), ("r", right))}
    made = sash.query("SELECT 1 AS one FROM l, r WINDOW 1 SECOND", **frames).plan
    assert made.schema.field("_ts").type == made.schema.field("_expires").type == expected
