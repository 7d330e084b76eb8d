"""Each rule with its own fixture: queries, and their logical plans after the rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sash.plan.rules import RULES

FOLDER = Path(__file__).parent / "rules"
FIXTURES = [rule.__name__ for rule in RULES if rule.__name__ != "refuse_unbounded"]


@pytest.mark.parametrize("rule", FIXTURES)
def test_rule(rule: str, show_logical: Callable, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{rule}.rule"
    comments, *cases = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    queries = [case.split("\n", 1)[0] for case in cases]
    seen = "\n\n".join([comments, *(f"{sql}\n{show_logical(sql, rule)}" for sql in queries)]) + "\n"
    if request.config.getoption("--rewrite-goldens", default=False):
        path.write_text(seen, encoding="utf-8")
    else:
        assert seen == path.read_text(encoding="utf-8")


def test_the_plan_as_written_joins_in_the_order_of_from_and_asks_everything_on_top(show_logical: Callable) -> None:
    assert show_logical("SELECT A.x FROM A, R, B WHERE A.k = R.k AND A.x > 1 WINDOW 1 MINUTE", None) == "\n".join([
        "Select | outputs x | where A.k = R.k, A.x > 1",
        "  Join",
        "    Join",
        "      Scan A | columns ts, k, x, s",
        "      Scan R | columns k, name",
        "    Scan B | columns ts, k, y, s",
    ])  # fmt: skip


def test_every_rule_has_its_own_file_of_the_same_name() -> None:
    assert [rule.__module__.rsplit(".", 1)[1] for rule in RULES] == [rule.__name__ for rule in RULES]


def test_rules_do_not_touch_what_they_are_given(show_logical: Callable) -> None:
    """Nodes are frozen, but expressions could be changed in place."""
    sql = "SELECT A.x FROM A, B WHERE A.x + 1 = B.y AND A.s = 'a' WINDOW 1 MINUTE"
    assert show_logical(sql, "prune_columns") == show_logical(sql, "prune_columns")
