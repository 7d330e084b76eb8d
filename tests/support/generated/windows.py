"""Windows of generated queries, and conditions on times. Sizes are such that rows meet, and that some do not."""

from __future__ import annotations

from collections.abc import Sequence

from support.generated.choices import Choices
from support.generated.tree import PairWindow, Window

_LENGTHS = (8, 5, 20, 6, 13, 3, 8, 1)
_COUNTS = (2, 3, 1, 4)


def draw_bracket(choices: Choices) -> Window:
    """The window of one stream."""
    kind = choices.weighted(
        {"range": 12, "rows": 6, "partition": 3, "now": 1, "slide": 3, "tumble": 2, "hop": 2}
        | {"session": 3, "calendar": 2}
    )
    if kind in ("tumble", "hop"):
        return draw_hop(choices, kind)
    if kind == "session":
        return draw_session(choices)
    if kind == "calendar":
        return draw_calendar(choices)
    if kind == "now":
        return Window("now")
    if kind in ("range", "slide"):
        return Window("range", choices.one(_LENGTHS), choices.one((2, 3, 4)) if kind == "slide" else None)
    partition = choices.one((("k",), ("s",), ("v", "s"))) if kind == "partition" else ()
    return Window("rows", choices.one(_COUNTS), None, partition)


def draw_hop(choices: Choices, kind: str) -> Window:
    """A window that hops or tumbles."""
    size = choices.one((5, 8, 3, 13, 1))
    slide = choices.one((2, 4, 3, 7)) if kind == "hop" else size
    offset, spelling = choices.one((0, 0, 1, -2)), choices.one(("risingwave", "flink"))
    return Window("hop", size, slide, offset=offset, spelling=spelling)


def draw_calendar(choices: Choices) -> Window:
    """A window of the calendar. Where clocks show UTC, days, months and years begin in the midst of all times."""
    zone = choices.one(("UTC", "Europe/Berlin", "Africa/Abidjan", "America/Sao_Paulo", None))
    unit = choices.one(("month", "year") if zone is None else ("day", "month", "week", "year"))
    size = choices.one((1, 1, 1, 3)) if unit != "week" else 1
    return Window("calendar", size, unit=unit, zone=zone, spelling=choices.one(("risingwave", "flink")))


def draw_session(choices: Choices) -> Window:
    """A window of sessions."""
    partition = choices.one((("k",), ("s",), ("v", "s"), ()))
    return Window(
        "session", choices.one((3, 2, 5, 1, 8)), None, partition, spelling=choices.one(("risingwave", "flink"))
    )


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


def draw_intervals(choices: Choices, streams: Sequence[tuple[str, bool]]) -> list[tuple[str, ...]]:
    """Conditions that say how far apart streams are, by alias and whether their times are integers: a tree of them."""
    return [
        _draw_interval(choices, streams[choices.below(place)][0], alias, is_integer)
        for place, (alias, is_integer) in enumerate(streams)
        if place
    ]


def _draw_interval(choices: Choices, one: str, other: str, is_integer: bool) -> tuple[str, ...]:
    """How much later than `one` the `other` is: from `low` on, up to `high` or less."""
    one, other = (f"{one}.ts", f"{other}.ts") if choices.chance(60) else (f"{other}.ts", f"{one}.ts")
    low = choices.one((0, -3, 0, 2, -8, -1))
    high = low + choices.one((5, 3, 8, 0, 13))

    def after(time: str, us: int) -> str:
        length = f"{abs(us)}" if is_integer else f"INTERVAL {abs(us)} MICROSECONDS"
        return f"{time} {'-' if us < 0 else '+'} {length}" if us else time

    def length(us: int) -> str:
        return f"{us}" if is_integer else f"INTERVAL '{us} microseconds'"

    kind = choices.weighted({"between": 5, "compared": 3, "turned": 2, "gap": 1})
    if kind == "between":
        return (f"{other} BETWEEN {after(one, low)} AND {after(one, high)}",)
    if kind == "compared":
        return f"{other} >= {after(one, low)}", f"{other} < {after(one, high)}"
    if kind == "turned":
        return f"{after(other, -low)} > {one}", f"{one} >= {after(other, -high)}"
    return (f"{other} - {one} BETWEEN {length(low)} AND {length(high)}",)
