"""How far apart in time the streams of an interval join may be, as their conditions say it.

    B.ts BETWEEN A.ts - INTERVAL 5 MINUTES AND A.ts + INTERVAL 1 HOUR

    A → B  60 minutes             in every answer B is at most so much newer than A
    B → A   5 minutes             and A at most so much newer than B

Bounds add up along ways, as windows of pairs do. A tuple that nothing to come can meet any more is let go, although
what it has made stays in the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sash.sql.window_graph import FAR, shortest_ways


@dataclass(frozen=True, slots=True)
class TimeBound:
    """In every answer the tuple of `newer` is newer than that of `older` by `most_us` or less; it may be negative."""

    older: str
    newer: str
    most_us: int
    is_exact: bool
    """Whether that is all that its condition says."""


@dataclass(frozen=True)
class IntervalGraph:
    """The bounds of a query over its streams, in the order of FROM."""

    aliases: tuple[str, ...]
    bounds: tuple[TimeBound, ...]

    @cached_property
    def reach_us(self) -> tuple[tuple[int, ...], ...]:
        """`reach_us[i][j]`: in every answer, t_j - t_i is at most this, or t_j is older. FAR if nothing bounds it.

        It is never negative: that a tuple is older by at least something is left to its condition.
        """
        every = range(len(self.aliases))
        reach = [[0 if i == j else FAR for j in every] for i in every]
        for bound in self.bounds:
            i, j = self.aliases.index(bound.older), self.aliases.index(bound.newer)
            reach[i][j] = min(reach[i][j], max(0, bound.most_us))
        return tuple(map(tuple, shortest_ways(reach)))

    @property
    def unbounded(self) -> tuple[str, str] | None:
        """Two streams of which the second may come any time after the first, if there are such."""
        for older, row in zip(self.aliases, self.reach_us, strict=True):
            for newer, most_us in zip(self.aliases, row, strict=True):
                if most_us >= FAR:
                    return older, newer
        return None
