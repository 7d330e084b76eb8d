"""What EXPLAIN says of how long operators keep tuples, and how they learn that these have left."""

from __future__ import annotations

from sash.operators.asof_join import AsofJoinSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.distinct import DistinctSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.membership import MembershipSpec
from sash.operators.node import Node
from sash.operators.over import OverSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.sessions import SessionsSpec
from sash.operators.top_k import TopKSpec
from sash.plan.explain.wording import format_duration
from sash.store.block_window import CUTS
from sash.store.trace import MIN_STRUCK_OUT

EVERYTHING = "all tuples, for ever"
TAKING_BACK = (
    *(CountWindowSpec, SessionsSpec, GroupBySpec, RunningGroupBySpec, MembershipSpec, AsofJoinSpec, TopKSpec, OverSpec),
)
"""Operators that may take tuples back before these expire."""


def expiry_text(lives_us: tuple[int | None, ...], expires_by_negatives: bool) -> str:
    """How an operator learns that a tuple has left its window."""
    if all(life_us is None for life_us in lives_us):
        return "none: a tuple leaves when a -1 tuple takes it back"
    return (
        "told by the -1 tuples of W-EXPIRE below"
        if expires_by_negatives
        else "by the clock, the slowest stream less its slack"
    )


def buffer_bound(side: str, life_us: int | None, below: Node) -> str:
    if life_us is None:
        if not _lets_go(below):
            return f"{side}: {EVERYTHING}"
        return f"{side}: the tuples in its window of rows, and as many that have left"
    return f"{side}: the tuples of {format_duration(life_us)} before the clock, and up to 1/{CUTS} more"


def trace_bound(life_us: int | None, below: Node) -> str:
    """What a trace holds of the tuples that come from below."""
    if life_us is None and not _lets_go(below):
        return EVERYTHING
    if life_us is None:
        return f"the tuples that are there, and as many that were taken back, and {MIN_STRUCK_OUT}"
    return f"the tuples of {format_duration(life_us)} before the clock, and up to 1/{CUTS} more{taken_back(below)}"


def taken_back(below: Node) -> str:
    """What a trace holds beside the tuples that count, if some may be taken back: they wait to be struck out."""
    is_taken_back = any(map(_takes_back, below.walk()))
    return f", and as many that were taken back, and {MIN_STRUCK_OUT}" if is_taken_back else ""


def _lets_go(below: Node) -> bool:
    """Whether tuples that do not expire are taken back."""
    return any(_takes_back(node) or isinstance(node.spec, DistinctSpec) for node in below.walk())


def _takes_back(node: Node) -> bool:
    is_final = isinstance(node.spec, SessionsSpec) and node.spec.is_final
    return isinstance(node.spec, TAKING_BACK) and not is_final
