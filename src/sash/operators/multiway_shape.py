"""What the cost of a join of many streams depends on, as far as its specification says: windows, keys, conditions."""

from __future__ import annotations

from collections.abc import Sequence

from sash.cost.multiway_cost import ManyCondition, MultiwayLoad

USUAL_SHARE = 0.25
"""Of combinations that are taken to pass a condition of which nobody knows more."""


def shape_of(
    keys: Sequence[Sequence[tuple[str, ...]]], reach_us: Sequence[Sequence[int]], read_by: Sequence[tuple[int, ...]]
) -> MultiwayLoad:
    """A load with windows, keys and conditions of a join, and with rates and keys that say nothing; `read_by` are the
    inputs that each condition reads.
    """
    return MultiwayLoad(
        rates=(1.0,) * len(reach_us),
        reach_s=tuple(tuple(max(0.0, us / 1e6) for us in line) for line in reach_us),
        has_key=tuple(tuple(bool(key[number]) for key in keys) for number in range(len(reach_us))),
        matches=(1.0,) * len(keys),
        conditions=tuple(ManyCondition(inputs, USUAL_SHARE) for inputs in read_by if len(inputs) > 1),
    )
