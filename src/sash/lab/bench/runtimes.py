"""Where a command of `sash bench` lets Sash run."""

from __future__ import annotations

from enum import StrEnum


class Runtime(StrEnum):
    """Where Sash runs."""

    spark = "spark"
    embedded = "embedded"
