"""In which order a tuple that arrives probes the other windows of a join of many streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

Fanouts: TypeAlias = Sequence[Sequence[float | None]]
"""`fanouts[i][j]`: how many tuples of window j one of window i meets; None if nobody knows."""


def probe_orders(has_key: np.ndarray, fanouts: Fanouts | None) -> list[list[int]]:
    """For each input the order in which the others are probed: always the one next that adds the fewest tuples.

    An input that shares a key with those before it comes before one that does not.
    """
    every = range(len(has_key))

    def cost(target: int, bound: list[int]) -> tuple[bool, float, int]:
        known = [fanouts[source][target] if fanouts else None for source in bound]
        is_keyed = [bool((has_key[source] & has_key[target]).any()) for source in bound]
        least = min((fanout for fanout in known if fanout is not None), default=0.0)
        return not any(is_keyed), least, target

    orders = []
    for arriving in every:
        bound, left = [arriving], [number for number in every if number != arriving]
        while left:
            following = min(left, key=lambda target: cost(target, bound))
            left.remove(following)
            bound.append(following)
        orders.append(bound[1:])
    return orders
