"""What operators together make of tuples: whether they become state, and how many at once."""

from __future__ import annotations

from collections.abc import Iterable

from sash.operators.operator import Stateful, Stateless
from sash.operators.reorder import Reorder
from sash.operators.tapped_join import TappedJoin
from sash.operators.window_join import WindowJoin
from sash.store.bites import Use


def use_of(operators: Iterable[Stateful]) -> Use:
    """What all of them make of a step's. Tuples that wait for the clock are never many: bites are in order of time."""
    joins = False
    for each in operators:
        if isinstance(each, WindowJoin | TappedJoin) and each.keeps_in_pieces:
            joins = True
        elif not isinstance(each, Stateless | Reorder):
            return Use.KEPT
    return Use.KEPT_IN_PIECES if joins else Use.PASSED_ON
