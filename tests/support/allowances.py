"""An allowance that tests can look into."""

from __future__ import annotations


class Tally:
    """Counts what is held, and the most that ever was; `limit` is what it refuses to go beyond."""

    def __init__(self, limit: int | None = None):
        self.n_held = self.most = 0
        self._limit = limit

    def take(self, n_bytes: int) -> None:
        assert n_bytes >= 0
        if self._limit is not None and self.n_held + n_bytes > self._limit:
            raise MemoryError
        self.n_held += n_bytes
        self.most = max(self.most, self.n_held)

    def give(self, n_bytes: int) -> None:
        self.n_held -= n_bytes
        assert self.n_held >= 0
