"""Which queries have a join in common, however they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.plan.sharing import signature_of

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
