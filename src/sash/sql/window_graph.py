"""A window for every pair of streams, as a graph: Forms 1 to 3 and the path joins of W-join (§1, §5).

    WINDOW (A, B) = 1 SECOND      |A.ts - B.ts| < 1 s
    DWINDOW (A, B) = 1 SECOND     A.ts <= B.ts < A.ts + 1 s

    A --1 s-- B --2 s-- C         a pair without a window gets that of the shortest way: (A, C) = 3 s

Two readings of the same graph. `windows` are the lengths as a user reads them; a tuple lives for the longest that its
stream takes part in. `reach_us` is what they amount to in whole microseconds: the most by which a tuple may be newer
than another in any answer. Buffers go by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sash.errors import Span

FAR = 2**62
"""Of streams that no way connects."""


@dataclass(frozen=True, slots=True)
class PairWindow:
    """A window as written. In a directed one the right tuple is never older than the left one."""

    left: str
    right: str
    length_us: int
    is_directed: bool = False
    span: Span | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class CompletedWindow:
    """The window of a pair in the completed graph."""

    left: str
    right: str
    length_us: int
    is_directed: bool
    """Whether the right tuple is never older than the left one."""
    via: tuple[str, ...] | None
    """The streams in between if it is the sum of others; None if it was given."""


@dataclass(frozen=True)
class WindowGraph:
    """The pair windows of a query over its streams, in the order of FROM."""

    aliases: tuple[str, ...]
    pairs: tuple[PairWindow, ...]

    @cached_property
    def reach_us(self) -> tuple[tuple[int, ...], ...]:
        """`reach_us[i][j]`: in every answer, t_j - t_i is at most this. FAR if nothing bounds it."""
        bounds = [[0 if i == j else FAR for j in self._all] for i in self._all]
        for pair in self.pairs:
            left, right = self._number(pair.left), self._number(pair.right)
            back_us = 0 if pair.is_directed else pair.length_us - 1
            bounds[left][right] = min(bounds[left][right], pair.length_us - 1)
            bounds[right][left] = min(bounds[right][left], back_us)
        return tuple(map(tuple, shortest_ways(bounds)))

    @cached_property
    def windows(self) -> tuple[CompletedWindow, ...]:
        """One window for each pair: the given one, or the sum along the shortest way. Left to right as in FROM, except
        where a window is directed the other way.
        """
        lengths, via = self._shortest()
        given = {frozenset((pair.left, pair.right)): pair for pair in self.pairs}
        completed: list[CompletedWindow] = []
        for i in self._all:
            for j in range(i + 1, len(self.aliases)):
                pair = given.get(frozenset((self.aliases[i], self.aliases[j])))
                length_us = pair.length_us if pair else lengths[i][j]
                is_forward, is_backward = self.reach_us[j][i] == 0, self.reach_us[i][j] == 0
                left, right = (j, i) if is_backward and not is_forward else (i, j)
                between = None if pair else tuple(self.aliases[k] for k in via[left][right])
                directed = is_forward or is_backward
                completed.append(CompletedWindow(self.aliases[left], self.aliases[right], length_us, directed, between))
        return tuple(completed)

    @cached_property
    def lives_us(self) -> dict[str, int]:
        """How long a tuple of each stream is in its window: the longest window that the stream takes part in."""
        lives = dict.fromkeys(self.aliases, 0)
        for window in self.windows:
            for alias in (window.left, window.right):
                lives[alias] = max(lives[alias], window.length_us)
        return lives

    @cached_property
    def parts(self) -> list[tuple[str, ...]]:
        """The streams that windows connect, in groups; a single one if the graph is connected."""
        groups: list[tuple[str, ...]] = []
        left = list(self.aliases)
        while left:
            lengths = self._shortest()[0][self._number(left[0])]
            group = tuple(alias for alias in left if lengths[self._number(alias)] < FAR)
            groups.append(group)
            left = [alias for alias in left if alias not in group]
        return groups

    @property
    def _all(self) -> range:
        return range(len(self.aliases))

    def _number(self, alias: str) -> int:
        return self.aliases.index(alias)

    def _shortest(self) -> tuple[list[list[int]], list[list[tuple[int, ...]]]]:
        """The lengths of the shortest ways, whatever their direction, and the streams they lead through."""
        lengths = [[0 if i == j else FAR for j in self._all] for i in self._all]
        via: list[list[tuple[int, ...]]] = [[() for _ in self._all] for _ in self._all]
        for pair in self.pairs:
            left, right = self._number(pair.left), self._number(pair.right)
            for one, other in ((left, right), (right, left)):
                lengths[one][other] = min(lengths[one][other], pair.length_us)
        for k in self._all:
            for i in self._all:
                for j in self._all:
                    if lengths[i][k] + lengths[k][j] < lengths[i][j]:
                        lengths[i][j] = lengths[i][k] + lengths[k][j]
                        via[i][j] = (*via[i][k], k, *via[k][j])
        return lengths, via


def shortest_ways(bounds: Sequence[Sequence[int]]) -> list[list[int]]:
    """The tightest bounds that follow from those given: t_j - t_i is bounded by the sum along any way from i to j."""
    ways = [list(row) for row in bounds]
    every = range(len(ways))
    for k in every:
        for i in every:
            for j in every:
                if ways[i][k] < FAR and ways[k][j] < FAR:
                    ways[i][j] = min(ways[i][j], ways[i][k] + ways[k][j])
    return ways
