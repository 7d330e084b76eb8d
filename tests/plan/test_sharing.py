"""Which queries have a join in common, however they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.plan.sharing.join_sites import RunsAlone, signature_of
from sash.plan.sharing.who_shares import decide_sharing

BASE = "SELECT A.k FROM A, B WHERE A.k = B.k AND A.s = B.s WINDOW 1 HOUR"


@pytest.mark.parametrize(
    "other",
    [
        "SELECT A.k FROM A, B WHERE A.s = B.s AND A.k = B.k WINDOW 1 HOUR",
        "SELECT A.k FROM B, A WHERE B.s = A.s AND A.k = B.k WINDOW 1 HOUR",
        "SELECT P.x FROM B Q, A [RANGE 1 DAY] P WHERE Q.k = P.k AND P.s = Q.s AND P.x > 3 AND P.x < Q.y WINDOW 1 DAY",
    ],
    ids=["order of keys", "order of FROM", "aliases, windows and conditions"],
)
def test_the_same_join_written_otherwise(other: str, plan: Callable) -> None:
    assert signature_of(plan(other)) == signature_of(plan(BASE))


def test_keys_that_cross_are_paired_alike_from_both_sides(plan: Callable) -> None:
    one = plan("SELECT A.x FROM A, C WHERE A.k = C.z AND A.x = C.k WINDOW 1 HOUR")
    other = plan("SELECT A.x FROM C, A WHERE C.k = A.x AND C.z = A.k WINDOW 1 HOUR")
    assert signature_of(one) == signature_of(other)


def test_other_keys_make_another_join(plan: Callable) -> None:
    assert signature_of(plan("SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 HOUR")) != signature_of(plan(BASE))


ON_K = "FROM A, B WHERE A.k = B.k"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT k FROM A WINDOW 1 HOUR", "it joins no two streams"),
        (
            "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 HOUR",
            "it joins more than two streams at once, or has windows of pairs",
        ),
        (
            "SELECT A.k FROM A, (SELECT DISTINCT k FROM B) X WHERE A.k = X.k WINDOW 1 HOUR",
            "below its join stands more than two streams: a relation, a subquery or another join",
        ),
        (
            "SELECT A.k FROM A, B, R WHERE A.k = R.k AND R.name = B.s WINDOW 1 HOUR",
            "below its join stands more than two streams: a relation, a subquery or another join",
        ),
        (
            "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.s = C.s WINDOW 1 HOUR",
            "below its join stands more than two streams: a relation, a subquery or another join",
        ),
        (
            "SELECT A.k FROM A [ROWS 5], B WHERE A.k = B.k WINDOW 1 HOUR",
            "the window of `a` is not one of time, so a larger one does not contain it",
        ),
        (
            "SELECT A.k FROM A, B [RANGE 1 HOUR SLIDE 10 MINUTES] WHERE A.k = B.k WINDOW 1 HOUR",
            "the window of `b` slides in steps",
        ),
        (
            f"SELECT A.k {ON_K} UNION ALL SELECT k FROM A WINDOW 1 HOUR",
            "it also reads `a` by itself, outside of the join",
        ),
        (
            f"SELECT A.k {ON_K} AND A.k IN (SELECT k FROM C) WINDOW 1 HOUR",
            "it also reads `c` by itself, outside of the join",
        ),
        (
            f"SELECT A.k {ON_K} EXCEPT SELECT A.k FROM A, B WHERE A.s = B.s WINDOW 1 HOUR",
            "it has joins that differ from each other: "
            "a left ⋈ b right ON left.k = right.k; a left ⋈ b right ON left.s = right.s",
        ),
        (f"SELECT /*+ nta */ A.k {ON_K} WINDOW 1 HOUR", "its hint `nta` asks for a schedule of expirations of its own"),
        (f"SELECT /*+ whj */ A.k {ON_K} WINDOW 1 HOUR", "its hint `whj` asks for a join algorithm of its own"),
        (f"SELECT /*+ ewj */ A.k {ON_K} WINDOW 1 HOUR", "its hint `ewj` asks for a join algorithm of its own"),
        (f"SELECT /*+ wnl */ A.k {ON_K} WINDOW 1 HOUR", "its hint `wnl` asks for a join algorithm of its own"),
    ],
)
def test_what_cannot_share_says_why(text: str, reason: str, plan: Callable) -> None:
    with pytest.raises(RunsAlone) as alone:
        signature_of(plan(text))
    assert str(alone.value) == reason


def test_queries_that_cannot_share_do_not_keep_others_from_it(plan: Callable) -> None:
    texts = {"one": BASE, "alone": "SELECT k FROM A WINDOW 1 HOUR", "other": BASE.replace("HOUR", "DAY")}
    sharing = decide_sharing({name: plan(text) for name, text in texts.items()})
    assert [[*each.queries] for each in sharing.plans] == [["one", "other"], ["alone"]]
    assert sharing.reasons == {"alone": "it joins no two streams"}


@pytest.mark.parametrize(
    ("text", "join"),
    [
        ("SELECT A.x FROM A, B WHERE A.k + 1 = B.k", "a left ⋈ b right ON left=left.k + 1 = right.k"),
        ("SELECT P.k FROM B Q, A P WHERE Q.k = P.k + 1", "a left ⋈ b right ON left=left.k + 1 = right.k"),
        ("SELECT P.k FROM B Q, A P WHERE Q.k = P.k + 2", "a left ⋈ b right ON left=left.k + 2 = right.k"),
        ("SELECT A.k FROM A, B WHERE upper(A.s) = B.s", "a left ⋈ b right ON left=upper(left.s) = right.s"),
        ("SELECT A.k FROM B, A WHERE B.s = A.s", "a left ⋈ b right ON left.s = right.s"),
        ("SELECT X.k FROM A X, A Y WHERE X.k = Y.k AND X.x < Y.x", "a left ⋈ a right ON left.k = right.k"),
        ("SELECT /*+ hash */ A.k FROM A, B WHERE A.k = B.k", "a left ⋈ b right ON left.k = right.k"),
        ("SELECT A.k FROM A, B, R WHERE A.k = B.k AND R.k = A.k", "a left ⋈ b right ON left.k = right.k"),
        ("SELECT A.k FROM A, B WHERE A.x < B.y AND A.x > 3", "a left ⋈ b right ON (left.x < right.y)"),
        ("SELECT A.k FROM A, B", "a left ⋈ b right ON TRUE"),
    ],
)
def test_which_join_a_query_has(text: str, join: str, plan: Callable) -> None:
    assert str(signature_of(plan(f"{text} WINDOW 1 HOUR"))) == join
