"""Laws of chance that are chosen by name: `poisson`, `zipf:1.1`, `bmodel:0.7`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sash.errors import PlanError, suggest

Seed = int | Sequence[int] | np.random.Generator
"""What `numpy.random.default_rng` takes: a Generator is drawn from as it stands."""


@dataclass(frozen=True, slots=True)
class Law:
    """A function that draws; `parameter` is the one that may follow the colon, `check` refuses its wrong values."""

    draw: Callable[..., Any]
    parameter: str | None = None
    check: Callable[[float], None] = lambda value: None


def parse_law(option: str, text: str, laws: Mapping[str, Law]) -> Callable[..., Any]:
    """What draws by the law that a text names, its parameter filled in; PlanError if there is no such law."""
    name, colon, written = text.partition(":")
    if name not in laws:
        raise PlanError(f"`{option}` is `{text}`, but there is no `{name}`; {suggest(name, laws)}")
    law = laws[name]
    if not colon:
        return law.draw
    if law.parameter is None:
        raise PlanError(f"`{option}` is `{text}`, but `{name}` takes no number; leave `:{written}` out")
    try:
        value = float(written)
    except ValueError:
        reason = f"`{option}` is `{text}`, but after the colon stands the {law.parameter} of `{name}`, a number"
        raise PlanError(f"{reason}; write it as in `{name}:1.5`") from None
    law.check(value)
    return partial(law.draw, **{law.parameter: value})


def require(holds: bool, name: str, seen: object, allowed: str) -> None:
    """PlanError that says what is allowed, unless it holds."""
    if not holds:
        raise PlanError(f"`{name}` is {seen}, but must be {allowed}")


def check_bias(bias: float) -> None:
    """Which share of the b-model's tuples may fall into the heavier half."""
    require(0.5 <= bias < 1, "bias", bias, "at least 0.5, which is even, and below 1")


def check_seed(seed: int) -> None:
    """What numpy's generators start from."""
    require(seed >= 0, "seed", seed, "0 or more")
