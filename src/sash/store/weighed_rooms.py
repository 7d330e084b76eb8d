"""Vectors by name, as long as somebody has them, and how many bytes they have together.

The sum is kept, not made: it is asked for whenever a vector grows, and a plan may have thousands of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sized
from typing import Generic, TypeVar

T = TypeVar("T", bound=Sized)


class WeighedRooms(Generic[T]):
    """Holds nothing alive."""

    def __init__(self) -> None:
        self._rooms: dict[str, tuple[weakref.ref[T], int]] = {}
        self.n_bytes = 0

    def __contains__(self, name: str) -> bool:
        return name in self._rooms

    def __len__(self) -> int:
        return len(self._rooms)

    def put(self, name: str, room: T) -> None:
        """Counts a vector with the bytes that it has now; another one of this name is no longer counted."""
        self.drop(name)
        self._rooms[name] = weakref.ref(room, self._forgetting(name)), len(room)
        self.n_bytes += len(room)

    def drop(self, name: str) -> None:
        """Counts a vector no more, if there is one of this name."""
        if (found := self._rooms.pop(name, None)) is not None:
            self.n_bytes -= found[1]

    def alive(self) -> list[T]:
        """All that somebody has."""
        return [room for reference, _ in list(self._rooms.values()) if (room := reference()) is not None]

    def _forgetting(self, name: str) -> Callable[[weakref.ref[T]], None]:
        """What is called when nobody has a vector any more; by then its name may be another one's."""
        this = weakref.ref(self)

        def forget(reference: weakref.ref[T]) -> None:
            rooms = this()
            if rooms is not None and (found := rooms._rooms.get(name)) is not None and found[0] is reference:
                rooms.drop(name)

        return forget
