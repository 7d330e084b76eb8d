"""The response times that Shared §3 derives for a burst: m tuples of one stream that arrive together.

A window i holds S_i = λ w_i tuples of the other stream, t_p is what one of them takes, and all of them join (α = 1;
another α does not change averages). Pairs are found evenly over a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Burst:
    """What the formulas depend on besides the windows. The defaults are those of Figures 2(b) and 3(b)."""

    n_tuples: int = 50
    """m"""
    rate: float = 100.0
    """λ, in tuples per second."""
    scan_us: float = 1.0
    """t_p"""


def isolated_us(windows_s: Sequence[float], burst: Burst) -> list[float]:
    """Each query alone: t_p / 2 · (m S_i + 1)."""
    return [burst.scan_us / 2 * (burst.n_tuples * burst.rate * each + 1) for each in windows_s]


def lwo_us(windows_s: Sequence[float], burst: Burst) -> list[float]:
    """Equation (1): all but the first tuple wait for scans of the largest window."""
    waiting = (burst.n_tuples - 1) * burst.rate * max(windows_s)
    return [burst.scan_us / 2 * (burst.rate * each + 1 + waiting) for each in windows_s]


def swf_us(windows_s: Sequence[float], burst: Burst) -> list[float]:
    """Equation (2): all tuples have scanned the window before; then one after the other scans the rest of this one.

    A pair is released when its tuple has scanned the window, wherever in the window it was found.
    """
    smaller = [0, *windows_s[:-1]]
    return [
        burst.scan_us * burst.rate * (burst.n_tuples * before + (burst.n_tuples + 1) / 2 * (window - before))
        for before, window in zip(smaller, windows_s)
    ]
