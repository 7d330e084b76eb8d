"""Memory that others want as well: whoever holds some of it for long says how much, and when it has let go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Allowance(Protocol):
    """Counts bytes. What is taken must be given back; `take` may refuse by raising, and nothing is taken then."""

    def take(self, n_bytes: int) -> None: ...

    def give(self, n_bytes: int) -> None: ...


class Boundless:
    """An allowance that refuses nothing."""

    def take(self, n_bytes: int) -> None:
        pass

    def give(self, n_bytes: int) -> None:
        pass


@contextmanager
def taking(allowance: Allowance, n_bytes: int) -> Iterator[None]:
    """For as long as the body runs."""
    allowance.take(n_bytes)
    try:
        yield
    finally:
        allowance.give(n_bytes)
