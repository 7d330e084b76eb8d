"""What is known of a join's inputs before it runs: declared, observed, derived; None where nobody knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.api import plan_text
from sash.cost.join_cost import JoinLoad
from sash.frames import Stream, table_catalog
from sash.operators.join_keys import count_keys
from sash.operators.window_join import WindowJoinSpec
from sash.plan.statistics import SAMPLE_ROWS

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])


def declared(rate: float | None = None, **distinct: int) -> Stream:
    return sash.stream(SCHEMA.empty_table(), rate=rate, distinct=distinct)


def recorded(n_rows: int, rate: float, n_keys: int) -> pa.Table:
    rng = np.random.default_rng(n_rows)
    keys, values = rng.integers(0, n_keys, n_rows), rng.integers(0, 4, n_rows)
    ts = pa.array((np.arange(n_rows) * 1e6 / rate).astype(np.int64), pa.timestamp("us"))
    return pa.table({"k": keys, "s": keys.astype(str), "v": values, "ts": ts})


def loads(text: str, **frames: Any) -> list[JoinLoad | None]:
    """Of the joins of a plan, inner ones first."""
    catalog, streams, _ = table_catalog(frames)
    plan = plan_text(text, catalog, streams)
    choices = [node.spec.choice for node in plan.root.walk() if isinstance(node.spec, WindowJoinSpec)]
    return [choice.load for choice in choices if choice]


def load(text: str, **frames: Any) -> JoinLoad | None:
    (found,) = loads(text, **frames)
    return found


JOIN = "SELECT A.v FROM a A, b B WHERE A.k = B.k WINDOW 1 MINUTE"


def test_declared() -> None:
    found = load(JOIN, a=declared(500, k=1000), b=declared(20, k=100))
    assert found == JoinLoad((500, 20), (60, 60), 1000)


@pytest.mark.parametrize("other", [declared(500), declared(None, k=10), declared()])
def test_what_nobody_knows_is_not_made_up(other: Stream) -> None:
    known = declared(500, k=10)
    expected = JoinLoad((500, 500), (60, 60), 10) if other.statistics.rate else None
    assert load(JOIN, a=known, b=other) == expected


def test_several_keys_and_computed_ones() -> None:
    a, b = declared(1, k=10, v=4), declared(1, k=10, v=4)
    text = "SELECT A.v FROM a A, b B WHERE {} WINDOW 1 SECOND"
    assert load(text.format("A.k = B.k AND A.v = B.v"), a=a, b=b) == JoinLoad((1, 1), (1, 1), 40)
    assert load(text.format("A.k + 1 = B.k - 1"), a=a, b=b) == JoinLoad((1, 1), (1, 1), 10)
    assert load(text.format("A.k < B.k"), a=a, b=b) == JoinLoad((1, 1), (1, 1), 1)


def test_of_windows_of_rows_nothing_is_known() -> None:
    text = "SELECT A.v FROM a A [ROWS 100], b B [RANGE 1 SECOND] WHERE A.k = B.k"
    assert load(text, a=declared(50, k=10), b=declared(10, k=10)) is None


def test_a_join_of_a_join() -> None:
    """A ⋈ B puts out 10 · 10 · (1 + 1) / 10 pairs per second."""
    text = "SELECT A.v FROM a A, b B, c C WHERE A.k = B.k AND B.v = C.v WINDOW 1 SECOND"
    frames = dict.fromkeys("abc", declared(10, k=10, v=5))
    assert loads(text, **frames) == [JoinLoad((10, 10), (1, 1), 10), JoinLoad((20, 10), (1, 1), 5)]


def test_behind_a_group_nothing_is_known() -> None:
    text = "SELECT A.v FROM a A, (SELECT k, count(*) n FROM b GROUP BY k) B WHERE A.k = B.k WINDOW 1 SECOND"
    assert load(text, a=declared(10, k=10), b=declared(10, k=10)) is None


def test_tables_are_observed() -> None:
    found = load(JOIN, a=recorded(5000, 250, 100), b=recorded(4000, 40, 20))
    assert found is not None
    assert found.rates == pytest.approx((250, 40))
    assert found.n_distinct == pytest.approx(100, rel=0.1)


def test_declarations_come_first_and_filters_are_observed() -> None:
    text = "SELECT A.v FROM a A, b B WHERE A.s = B.s AND A.v = 0 WINDOW 1 SECOND"
    a = sash.stream(recorded(50_000, 250, 100), rate=1000, distinct={"s": 7})
    found = load(text, a=a, b=recorded(4000, 40, 5))
    assert found is not None
    assert found.rates == pytest.approx((250, 40), rel=0.05)
    assert found.n_distinct == 7


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_table_of_one_instant_has_no_rate(n_rows: int) -> None:
    assert load(JOIN, a=recorded(100, 10, 5), b=recorded(100, 10, 5).slice(0, n_rows)) is None


def test_keys_are_counted_beyond_the_sample() -> None:
    keys = np.random.default_rng(1).integers(0, 1_000_000, SAMPLE_ROWS)
    assert count_keys(keys) == pytest.approx(1_000_000, rel=0.1)
    assert count_keys(np.array([7, 7, 7])) == 1
    assert count_keys(np.arange(0)) == 1


def test_statistics_do_not_make_another_plan() -> None:
    known = sash.query(JOIN, a=declared(500, k=10), b=declared(5, k=10)).plan
    unknown = sash.query(JOIN, a=declared(), b=declared()).plan
    assert known.fingerprint == unknown.fingerprint


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"rate": 0}, "`rate` is 0; give the rows per second, more than zero, or leave it out"),
        ({"rate": float("nan")}, "`rate` is nan; give the rows per second, more than zero, or leave it out"),
        ({"distinct": {"k": 0}}, "`distinct` gives `k` 0 values; give a whole number of at least 1"),
        ({"distinct": {"j": 5}}, "stream `a` has no column `j` to count; there is `k`, `s`, `ts`, `v`"),
    ],
)
def test_statistics_that_cannot_be(arguments: dict, reason: str) -> None:
    with pytest.raises(sash.BindError) as caught:
        sash.query(JOIN, a=sash.stream(SCHEMA, **arguments), b=declared())
    assert str(caught.value) == reason
