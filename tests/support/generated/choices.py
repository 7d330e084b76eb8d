"""Where generated cases get their decisions from: a seed, or a list of decisions made before, to make a case smaller.

Every decision is a number below a limit, and 0 is the simplest of them, so a shorter list of smaller numbers makes a
simpler case. What lies beyond the end of the list is 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Decisions, one after the other; `made` is all of them so far."""

    def __init__(self, seed: int | None = None, replayed: Sequence[int] = ()):
        self._random = None if seed is None else random.Random(seed)
        self._replayed = replayed
        self.made: list[int] = []

    def below(self, limit: int) -> int:
        """A number from 0 to before the limit."""
        if self._random is not None:
            number = self._random.randrange(limit)
        else:
            number = min(self._replayed[len(self.made)], limit - 1) if len(self.made) < len(self._replayed) else 0
        self.made.append(number)
        return number

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def some(self, options: Sequence[T], n_most: int) -> list[T]:
        """Up to so many of the options, each at most once, in their order."""
        places = {self.below(len(options)) for _ in range(self.below(min(n_most, len(options)) + 1))}
        return [options[place] for place in sorted(places)]

    def chance(self, percent: float) -> bool:
        """True in so many of a hundred cases."""
        return self.below(1000) >= 1000 - 10 * percent

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, each as often as its weight says."""
        place = self.below(sum(weights.values()))
        for option, weight in weights.items():
            place -= weight
            if place < 0:
                return option
        raise AssertionError("weights are positive")


def shrink(made: Sequence[int], is_failing: Callable[[Sequence[int]], bool], n_most: int = 400) -> list[int]:
    """Fewer and smaller decisions under which a case still fails; tries so many at most."""
    best, n_left = list(made), n_most
    size = max(1, len(best) // 2)
    while size and n_left > 0:
        place, has_shrunk = 0, False
        while place < len(best) and n_left > 0:
            for candidate in _simpler(best, place, size):
                n_left -= 1
                if is_failing(candidate):
                    best, has_shrunk = candidate, True
                    break
            else:
                place += size
        size = size if has_shrunk and size == 1 else size // 2
    return best


def _simpler(made: list[int], place: int, size: int) -> list[list[int]]:
    """Without a stretch of decisions, and with the simplest ones there."""
    stretch = made[place : place + size]
    candidates = [made[:place] + made[place + size :]]
    if any(stretch):
        candidates.append(made[:place] + [0] * len(stretch) + made[place + size :])
    if size == 1 and stretch[0] > 1:
        candidates.append([*made[:place], stretch[0] // 2, *made[place + 1 :]])
    return candidates
