"""What the work of joins of many streams costs: nanoseconds for each unit, by what does it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sash.errors import PlanError


@dataclass(frozen=True, slots=True)
class MultiwayCosts:
    """Nanoseconds for each unit of `MultiwayWork`, in its order."""

    comparison: float
    probe: float
    insert: float
    check: float
    output: float
    test: float
    turn: float
    call: float
    far: float

    def __post_init__(self) -> None:
        if any(getattr(self, each.name) < 0 for each in fields(self)):
            raise PlanError(f"costs are not negative: {self}")


@dataclass(frozen=True, slots=True)
class MultiwayPrices:
    """What the algorithms' work costs on a machine."""

    product: MultiwayCosts
    """Of probes where all streams have one key and nothing else is to be satisfied."""
    probes: MultiwayCosts
    nested: MultiwayCosts
    """Of NLW-join."""
    hashed: MultiwayCosts
    """Of HW-join."""
    merge: MultiwayCosts
    """Of MW-join and LCA."""


SHIPPED_MULTIWAY = MultiwayPrices(
    product=MultiwayCosts(10.0, 205.0, 0.0, 0.0, 90.0, 0.0, 65_000.0, 0.0, 0.0),
    probes=MultiwayCosts(3.0, 20.0, 0.0, 0.0, 85.0, 350.0, 25_000.0, 1_050_000.0, 0.0),
    nested=MultiwayCosts(1.95, 64.0, 64.0, 1.95, 18.0, 210.0, 0.0, 1_900_000.0, 0.0),
    hashed=MultiwayCosts(14.8, 78.0, 78.0, 14.8, 0.0, 91.0, 0.0, 2_000_000.0, 108.0),
    merge=MultiwayCosts(2.8, 29.0, 0.0, 20.5, 11.0, 83.0, 0.0, 1_500_000.0, 0.0),
)
"""Measured on a small server."""
