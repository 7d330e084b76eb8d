"""Which workloads there are, and how a user's options make one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sash.errors import PlanError, suggest
from sash.lab.workloads.auction import Auction
from sash.lab.workloads.cameras import Cameras
from sash.lab.workloads.join_streams import JoinWorkload
from sash.lab.workloads.network import Network
from sash.lab.workloads.nexmark import Nexmark
from sash.lab.workloads.path import PathWorkload
from sash.lab.workloads.pqrs import Pqrs
from sash.lab.workloads.retail import Retail
from sash.lab.workloads.sensors import Sensors
from sash.lab.workloads.stores import Stores
from sash.lab.workloads.workload import Workload
from sash.sql.windows import parse_interval

PARAMETERS = {
    "rate": "rate",
    "duration": "duration_us",
    "arrivals": "arrivals",
    "keys": "n_keys",
    "key-skew": "skew",
    "seed": "seed",
}
"""By option, the parameter that it stands for."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of workload. `renamed`: by option, a parameter that is not called what `PARAMETERS` says."""

    title: str
    make: Callable[..., Workload]
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """All parameters, by name."""
        return {each.name: each.default for each in inspect.signature(self.make).parameters.values()}

    @property
    def options(self) -> dict[str, str]:
        """By option that this sort takes, the parameter that it stands for."""
        named = {option: self.renamed.get(option, parameter) for option, parameter in PARAMETERS.items()}
        return {option: parameter for option, parameter in named.items() if parameter in self.defaults}

    @property
    def settings(self) -> list[str]:
        """What `--set` takes: parameters that no option stands for."""
        return [name.removesuffix("_us") for name in self.defaults if name not in self.options.values()]


def make_join(
    rate: int = 100,
    duration_us: int = 60_000_000,
    n_keys: int | None = None,
    seed: int = 1,
    window_us: int = 10_000_000,
    exponent: float = 0.0,
    payload: str = "none",
) -> JoinWorkload:
    """By duration, as all workloads are, and not by the number of tuples."""
    n_tuples = 2 * max(1, rate * duration_us // 1_000_000)
    return JoinWorkload(n_tuples, window_us, rate, n_keys, payload, exponent, seed=seed)


KINDS = {
    "sensors": Kind("temperature and humidity at the locations of a data centre (Shared §2.1)", Sensors),
    "retail": Kind("sales of two groups of stores (Pipelines §2.3)", Retail, {"keys": "n_items"}),
    "auction": Kind("auctions that are opened, and bids for them (Exact §2.2.1)", Auction),
    "network": Kind("packets that pass two or more links (Exact §2.2.1, W-join)", Network),
    "stores": Kind("sales of two to four stores through their days, one stream each (W-join)", Stores),
    "cameras": Kind("objects that pass three cameras, with a window for each pair (W-join)", Cameras),
    "path": Kind("objects that travel along a path of four gates, in either direction (W-join §5.2)", PathWorkload),
    "join": Kind("two even streams with a common key, as `sash bench join` has them", make_join),
    "nexmark": Kind("people, auctions and bids, as the Nexmark benchmark draws them", Nexmark),
    "pqrs": Kind("two streams, bursty in time and keys together (Exact §3.5.1)", Pqrs),
}


def make_workload(name: str, options: Mapping[str, Any], settings: Sequence[str] = ()) -> Workload:
    """The workload of this name. Options that are None are left to the workload; settings are `NAME=VALUE`."""
    kind = KINDS[name]
    chosen = {}
    for option, value in options.items():
        if value is not None:
            if option not in kind.options:
                raise PlanError(f"--{option} is {value}, but `{name}` takes no such option; leave it out")
            parameter = kind.options[option]
            chosen[parameter] = _convert(f"--{option}", parameter, kind.defaults[parameter], value)
    for setting in settings:
        written, _, value = setting.partition("=")
        if written not in kind.settings:
            raise PlanError(f"`{name}` has nothing called `{written}` to set; {suggest(written, kind.settings)}")
        parameter = written if written in kind.defaults else f"{written}_us"
        chosen[parameter] = _convert(f"--set {written}", parameter, kind.defaults[parameter], value)
    return kind.make(**chosen)


def _convert(option: str, parameter: str, default: Any, value: Any) -> Any:
    """A text or number as the type of the default; lengths of time are written as such."""
    if parameter.endswith("_us"):
        return parse_interval(str(value))
    if isinstance(default, str):
        return str(value)
    try:
        number = float(value)
    except ValueError:
        raise PlanError(f"`{option}` is `{value}`, but must be a number") from None
    if isinstance(default, float):
        return number
    if not number.is_integer():
        raise PlanError(f"`{option}` is {value}, but must be a whole number")
    return int(number)
