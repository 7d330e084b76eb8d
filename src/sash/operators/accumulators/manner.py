"""What is said of an aggregate beside its function: `LIST(DISTINCT x ORDER BY y DESC)`, `QUANTILE_CONT(x, 0.9)`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SortKey:
    """How values of a column come one after the other."""

    is_descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class CallManner:
    """How an aggregate goes about its values."""

    is_distinct: bool = False
    """Equal values count once."""
    keys: tuple[SortKey, ...] = ()
    """The value comes with so many others, by which it is placed: it is the first field of a struct."""
    fraction: tuple[int, int] | None = None
    """Of a quantile: how many of the values are before it, as a numerator and a denominator."""
    is_descending: bool = False
    """Of a discrete quantile: whether values come from the greatest on."""
    separator: str = ","
    """What STRING_AGG puts between two values."""


PLAIN = CallManner()
