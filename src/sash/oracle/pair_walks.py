"""What the windows of pairs of streams mean, word by word: every way from stream to stream is walked.

WINDOW (A, B) = 3 us         |A.ts - B.ts| < 3
DWINDOW (B, C) = 2 us        B.ts <= C.ts < B.ts + 2

A --3-- B --2-> C            of A and C, who have no window, the way by B tells: 3 + 2
                             in whole microseconds, C is at most 2 + 1 newer than A, and A at most 2 + 0 newer than C
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sash.sql.window_graph import PairWindow


def are_in_windows(pairs: Iterable[PairWindow], times: Mapping[str, int]) -> bool:
    """Whether the times of a combination's members, by alias, are in the windows of all pairs."""
    gaps = [(pair, times[pair.right] - times[pair.left]) for pair in pairs]
    return all(-newest_before(pair) <= gap <= pair.length_us - 1 for pair, gap in gaps)


def newest_before(pair: PairWindow) -> int:
    """By how much the left tuple of a pair may be newer than the right one."""
    return 0 if pair.is_directed else pair.length_us - 1


def life_us(pairs: Sequence[PairWindow], alias: str) -> int:
    """How long a tuple of a stream is in its window: the longest of the windows that it has with each other stream."""
    others = {name for pair in pairs for name in (pair.left, pair.right)} - {alias}
    return max(window_us(pairs, alias, other) for other in others)


def window_us(pairs: Sequence[PairWindow], one: str, other: str) -> int:
    """The window of two streams: theirs if they were given one, else the sum along the shortest way."""
    for pair in pairs:
        if {pair.left, pair.right} == {one, other}:
            return pair.length_us
    return min(sum(pair.length_us for pair, _ in way) for way in ways(pairs, one, other))


def most_newer_us(pairs: Sequence[PairWindow], older: str, newer: str) -> int:
    """By how much a tuple of one stream may be newer than one of another, at most, if both are to be in an answer."""
    steps = (
        sum(pair.length_us - 1 if is_forward else newest_before(pair) for pair, is_forward in way)
        for way in ways(pairs, older, newer)
    )
    return min(steps)


def ways(
    pairs: Sequence[PairWindow], start: str, end: str, passed: tuple[str, ...] = ()
) -> Iterator[list[tuple[PairWindow, bool]]]:
    """All ways between two streams that pass none twice: the windows, and whether each is walked from left to right."""
    if start == end:
        yield []
        return
    for pair in pairs:
        for is_forward, here, there in ((True, pair.left, pair.right), (False, pair.right, pair.left)):
            if here == start and there not in passed:
                for rest in ways(pairs, there, end, (*passed, start)):
                    yield [(pair, is_forward), *rest]
