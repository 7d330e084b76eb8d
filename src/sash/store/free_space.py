"""The parts of a file that nothing is in any more, so that what is written anew need not make it longer.

file    | 0: a | 1: free ...... | 2: b | 3: free .. |      the smallest part that is large enough is taken;
                                                           neighbours that are free are one part
"""

from __future__ import annotations

from bisect import insort


class FreeSpace:
    """Free parts below an end, behind which all is free."""

    def __init__(self, end: int = 0):
        self.end = end
        """How long the file has to be."""
        self._parts: list[tuple[int, int]] = []
        """In order, each with its end."""

    @property
    def n_bytes(self) -> int:
        """What is free below the end."""
        return sum(last - first for first, last in self._parts)

    def take(self, n_bytes: int) -> int:
        """Where so many bytes begin that are from now on in use."""
        fitting = [part for part in self._parts if part[1] - part[0] >= n_bytes]
        if not fitting:
            first, self.end = self.end, self.end + n_bytes
            return first
        first, last = min(fitting, key=lambda part: (part[1] - part[0], part))
        self._parts.remove((first, last))
        if first + n_bytes < last:
            insort(self._parts, (first + n_bytes, last))
        return first

    def give_back(self, first: int, last: int) -> None:
        """What is between two places is free from now on."""
        if first == last:
            return
        before = next((part for part in self._parts if part[1] == first), None)
        after = next((part for part in self._parts if part[0] == last), None)
        for part in (before, after):
            if part is not None:
                self._parts.remove(part)
        first, last = before[0] if before else first, after[1] if after else last
        if last == self.end:
            self.end = first
        else:
            insort(self._parts, (first, last))
