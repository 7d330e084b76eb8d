"""Where conditions are applied: the share of rows that satisfies one, by its form, and what follows from it."""

from __future__ import annotations

import pytest

from sash.plan.sharing.selections import CHECK_NS, KEEP_NS, estimated_share, weigh_selection

DISTINCT = {"left.k": 50, "left.j": 4}


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ('("left.k" = 3)', 1 / 50),
        ('("left.v" = 3)', 1 / 10),
        ('("left.k" = "left.j")', 1 / 50),
        ('("left.j" <> 3)', 3 / 4),
        ('(NOT "left.j" = 3)', 3 / 4),
        ('("left.j" IN (1, 2, 3))', 3 / 4),
        ('("left.j" IN (1, 2, 3, 4, 5))', 1),
        ('("left.k" + 1 = 3)', 1 / 10),
        ('("left.v" > 3)', 1 / 3),
        ('("left.v" > 3) AND ("left.v" <= 5)', 1 / 9),
        ('("left.v" BETWEEN 3 AND 5)', 1 / 9),
        ('("left.j" = 1 OR "left.j" = 2)', 1 - (3 / 4) ** 2),
        ("(\"left.s\" = 'a AND b > c')", 1 / 10),
        ("(\"left.s\" LIKE 'a%')", 1 / 5),
        ('("left.s" IS NULL)', 1 / 10),
        ('(NOT "left.s" IS NULL)', 9 / 10),
        ('("left.j" IS DISTINCT FROM 3)', 3 / 4),
        ("FALSE", 0),
        ("starts_with(\"left.s\", 'a')", 1 / 2),
    ],
)
def test_the_share_of_rows_follows_from_the_form_of_a_condition(condition: str, share: float) -> None:
    assert estimated_share(condition, DISTINCT) == pytest.approx(share)


def test_rows_are_left_out_below_where_few_are_wanted() -> None:
    selection = weigh_selection(['("left.k" = 1)', '("left.k" = 2)', '("left.k" = 1)'], DISTINCT)
    assert selection.n_conditions == 2
    assert selection.wanted == pytest.approx(1 - (49 / 50) ** 2)
    assert selection.cost_ns == 2 * CHECK_NS
    assert selection.gain_ns == pytest.approx((49 / 50) ** 2 * KEEP_NS)
    assert selection.is_below


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param(['("left.k" = 1)', None], id="one wants every row"),
        pytest.param(['("left.j" <> 1)', '("left.j" <> 2)', '("left.j" <> 3)'], id="nearly every row is wanted"),
        pytest.param([f'("left.v" > {n})' for n in range(8)], id="many have to be asked"),
    ],
)
def test_else_every_row_is_kept(conditions: list[str | None]) -> None:
    assert not weigh_selection(conditions, DISTINCT).is_below
