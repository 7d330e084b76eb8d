"""This machine's prices of join work, as `sash calibrate` measured and stored them.

    $SASH_COSTS,  else  $XDG_CONFIG_HOME/sash/costs.json,  else  ~/.config/sash/costs.json

Read where a query is planned, never by workers: what was chosen travels in the plan. Without the file, prices that come
with Sash serve.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from sash.cost.choose_join import SHIPPED, AlgorithmPrices, JoinPrices
from sash.cost.disk_prices import SHIPPED_DISK, DiskPrices
from sash.cost.join_cost import JoinCosts
from sash.cost.multiway_prices import SHIPPED_MULTIWAY, MultiwayCosts, MultiwayPrices
from sash.errors import SashError, SourceError

FORMAT = 1
"""Of the file; prices of another version mean something else."""
REMEDY = "run `sash calibrate` to measure anew, or remove the file"
_UNITS = [each.name for each in fields(JoinCosts)]


def costs_path() -> Path:
    """Where prices are kept, whether they are there or not."""
    if named := os.environ.get("SASH_COSTS"):
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "sash" / "costs.json"


def load_prices() -> JoinPrices:
    """The prices of this machine if they have been measured, else those that come with Sash."""
    path = costs_path()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return SHIPPED
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read the join costs in {path}: {error}; {REMEDY}") from None
    return _parse(text, path)


def save_prices(prices: JoinPrices, facts: dict[str, Any]) -> Path:
    """Stores measured prices, with facts about how they were measured; returns where."""
    path = costs_path()
    indexes = {"hash": _flat(prices.hash), "buckets": _flat(prices.buckets)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {"format": FORMAT, **facts, "nanoseconds": indexes, "disk_seconds": asdict(prices.disk)}
        told["multiway_nanoseconds"] = asdict(prices.multiway)
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write the join costs to {path}: {error}; name another file in SASH_COSTS") from None
    return path


def _flat(prices: AlgorithmPrices) -> dict[str, float]:
    return {**asdict(prices.costs), "far_insert": prices.far_insert, "far_output": prices.far_output}


def _parse(text: str, path: Path) -> JoinPrices:
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or "format" not in found:
            raise ValueError("it has no `format`")
        told = cast(dict[str, Any], found)
    except ValueError as error:
        raise SourceError(f"{path} holds no join costs: {error}; {REMEDY}") from None
    if told["format"] != FORMAT:
        reason = f"{path} holds join costs of format {told['format']}, but this version of Sash reads format {FORMAT}"
        raise SourceError(f"{reason}; {REMEDY}")
    try:
        read = {index: _prices(told["nanoseconds"][index]) for index in ("hash", "buckets")}
        disk = _disk_prices(told["disk_seconds"]) if "disk_seconds" in told else SHIPPED_DISK
        many = told.get("multiway_nanoseconds")
        multiway = _multiway_prices(many) if many is not None else SHIPPED_MULTIWAY
    except (KeyError, TypeError, ValueError, SashError) as error:
        reason = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)
        raise SourceError(f"the join costs in {path} cannot be used: {reason}; {REMEDY}") from None
    return JoinPrices(**read, origin=f"measured on this machine: {path}", disk=disk, multiway=multiway)


def _prices(told: dict[str, Any]) -> AlgorithmPrices:
    values = _numbers(told, [*_UNITS, "far_insert", "far_output"])
    far_insert, far_output = values.pop("far_insert"), values.pop("far_output")
    return AlgorithmPrices(JoinCosts(**values), far_insert, far_output)


def _disk_prices(told: dict[str, Any]) -> DiskPrices:
    return DiskPrices(**_numbers(told, [each.name for each in fields(DiskPrices)]))


def _multiway_prices(told: dict[str, Any]) -> MultiwayPrices:
    units = [each.name for each in fields(MultiwayCosts)]
    lists = {each.name: MultiwayCosts(**_numbers(told[each.name], units)) for each in fields(MultiwayPrices)}
    return MultiwayPrices(**lists)


def _numbers(told: dict[str, Any], names: list[str]) -> dict[str, float]:
    values = {name: float(told[name]) for name in names}
    if not all(0 <= value < math.inf for value in values.values()):
        raise ValueError(f"prices must be finite and not negative, not {values}")
    return values
