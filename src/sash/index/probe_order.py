"""In which order a tuple that arrives probes the other windows of a join of many streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Fanouts: TypeAlias = Sequence[Sequence[float | None]]
"""`fanouts[i][j]`: how many tuples of window j one of window i meets; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A step of a probe order: the window that is probed next, and the keys by which, each from a window before it."""

    target: int
    keys: tuple[tuple[int, int], ...]
    """(key, window it is taken from); the first finds rows, the others are compared. () : by time alone."""


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


def probed_keys(has_key: np.ndarray) -> list[list[int]]:
    """For each input the keys by which it may ever be probed, whatever the order: the first that it shares with each
    of the others. By further ones it is only compared.
    """
    every = range(len(has_key))
    shared = [[np.flatnonzero(has_key[one] & has_key[other]) for other in every if other != one] for one in every]
    return [sorted({int(keys[0]) for keys in own if len(keys)}) for own in shared]


def probe_steps(arriving: int, order: Sequence[int], has_key: np.ndarray) -> list[Probe]:
    """The probes of an arriving window in this order, with the keys that each goes by."""
    bound, steps = [arriving], []
    for target in order:
        keys = []
        for key in range(has_key.shape[1]):
            sources = [window for window in bound if has_key[window, key]]
            if sources and has_key[target, key]:
                keys.append((key, sources[0]))
        steps.append(Probe(target, tuple(keys)))
        bound.append(target)
    return steps
