"""What an experiment is: something to measure at a scale, claims to check, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sash.lab.bench.measure import Note

Row: TypeAlias = Mapping[str, Any]


SCALE_NAMES = ("quick", "default", "full")


class Scale(Protocol):
    """How much is measured. What else there is to say of it, each paper says for its own experiments."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Paper:
    """Where figures come from, and at which scales they are measured, by name."""

    name: str
    title: str
    scales: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What the names of its experiments begin with."""
        return self.name.lower().replace("-", "")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, what was measured, and whether the one follows from the other."""

    text: str
    measured: str
    holds: bool
    reason: str = ""
    """Why it does not hold, where that is known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment has found."""

    rows: Sequence[Row]
    claims: Sequence[Claim]

    def facts(self) -> dict[str, Any]:
        return {"rows": list(self.rows), "claims": [asdict(claim) for claim in self.claims]}


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure of a paper."""

    figure: int | str
    title: str
    paper: Paper
    run: Callable[[Any, Note], Outcome]
    """With one of the paper's scales."""
    draw: Callable[[Sequence[Row], Path], None]

    @property
    def name(self) -> str:
        return f"{self.paper.key}-{self.figure}"

    @property
    def source(self) -> str:
        return f"{self.paper.name}, Figure {self.figure}"


def pick(rows: Sequence[Row], figure: str, **labels: Any) -> Any:
    """A figure of the only row with these labels."""
    (row,) = [row for row in rows if all(row[name] == value for name, value in labels.items())]
    return row[figure]


def values_of(rows: Sequence[Row], label: str) -> list[Any]:
    """All values of a label, in the order in which they were measured."""
    return list(dict.fromkeys(row[label] for row in rows))
