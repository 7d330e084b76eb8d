"""Ways in which an operator may be taken down between two steps, and another one goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.steps import StateShelf, restarted


class Succession:
    """The operators that follow each other; `then` gives the one for the next step."""

    def __init__(self, kind: str, make: Callable[[], Any], path: Path):
        self._kind = kind
        self._make = make
        self._shelf = StateShelf(path)
        self.operator = self._shelf.start(make) if kind == "moved" else make()

    def then(self) -> Any:
        if self._kind == "restarted":
            self.operator = restarted(self.operator, self._make)
        elif self._kind == "moved":
            self.operator = self._shelf.moved(self.operator, self._make)
        return self.operator


@pytest.fixture(params=["goes on", "restarted", "moved"])
def succession(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[], Any]], Succession]:
    """Makes a `Succession` of operators, of one kind after the other."""
    return lambda make: Succession(request.param, make, tmp_path)
