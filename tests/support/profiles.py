"""How much of a law is checked: a little while one works, as much as fits in CI, or all that is worth while."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")


def volume(*, dev: T, ci: T, deep: T) -> T:
    """The number for the Hypothesis profile that was asked for; where mistakes are planted, as in CI."""
    return {"dev": dev, "deep": deep}.get(settings.get_current_profile_name(), ci)
