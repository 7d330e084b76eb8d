"""Windows of generated queries. Sizes are such that rows meet, and that some do not."""

from __future__ import annotations

from collections.abc import Sequence

from support.generated.choices import Choices
from support.generated.tree import PairWindow, Window

_LENGTHS = (8, 5, 20, 6, 13, 3, 8, 1)
_COUNTS = (2, 3, 1, 4)


def draw_bracket(choices: Choices) -> Window:
    """The window of one stream."""
    kind = choices.weighted({"range": 12, "rows": 6, "partition": 3, "now": 1, "slide": 3})
    if kind == "now":
        return Window("now")
    if kind in ("range", "slide"):
        return Window("range", choices.one(_LENGTHS), choices.one((2, 3, 4)) if kind == "slide" else None)
    partition = choices.one((("k",), ("s",), ("v", "s"))) if kind == "partition" else ()
    return Window("rows", choices.one(_COUNTS), None, partition)


def draw_final_window(choices: Choices) -> Window:
    """The window at the end of a query."""
    kind = choices.weighted({"range": 6, "rows": 2, "slide": 1})
    if kind == "rows":
        return Window("rows", choices.one(_COUNTS))
    return Window("range", choices.one(_LENGTHS), choices.one((2, 3)) if kind == "slide" else None)


def draw_landmark(choices: Choices) -> Window:
    """A window that rows do not leave."""
    return choices.one((Window("unbounded"), Window("since", 3)))


def draw_pairs(choices: Choices, aliases: Sequence[str]) -> tuple[PairWindow, ...]:
    """Windows of pairs that connect all streams: a tree, whose directions cannot go in a circle."""
    pairs = []
    for place in range(1, len(aliases)):
        other = aliases[choices.below(place)]
        pairs.append(PairWindow(other, aliases[place], choices.one((5, 3, 1, 8)), choices.chance(35)))
    return tuple(pairs)
