"""Hints: what a query asks the planner to do, for experiments.

    /*+ hash */ · /*+ wnl */ · /*+ wnl(optimal) */ · /*+ whj */ · /*+ whj(100) */ · /*+ whj(100, probe) */
    /*+ ewj */ · /*+ ewj(r=0.9) */ · /*+ rpwj(60) */ · /*+ ahewj(60, memory=4096) */
    /*+ probe */ · /*+ nlw */ · /*+ hw */ · /*+ mw */ · /*+ gca */ · /*+ gca(hw) */ · /*+ lca */ · /*+ ripple */ …
    /*+ replicated */ · /*+ partitioned_hash */ · /*+ partitioned_range */ · /*+ mesh */ · /*+ inl */      of a relation
    /*+ tpa */ · /*+ nta */ · /*+ hybrid */
    /*+ lwo */ · /*+ swf */ · /*+ mqt */                     if the query shares its join with others

Of several hints of a kind the last one counts. What a hint does not say is chosen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import NamedTuple

from sash.cost.choose_join import NO_HINT, MethodHint, choose_method
from sash.cost.join_cost import BUCKETED, EXACT_SETTINGS, INVALIDATIONS, MAX_BUCKETS, WHJ, WNL
from sash.errors import PlanError
from sash.papers.wjoin.gca_join import INNER
from sash.papers.wjoin.wjoin_algorithms import GCA
from sash.plan.query_plan import ALGORITHMS, EXPIRY_SCHEDULES, LOOKUP_METHODS, MULTIWAY_ALGORITHMS, SERVING_ORDERS
from sash.sql.bound_query import Block

_NUMBER = re.compile(r"\d+(\.\d+)?")
_HINT = re.compile(r"([^\s(]+)\s*(?:\(([^)]*)\))?")


class MultiwayHint(NamedTuple):
    """An algorithm for joins of many streams."""

    algorithm: str
    """One of `MULTIWAY_ALGORITHMS`."""
    inner: str | None = None
    """Of `gca`, what finds its candidates, if that is asked for."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What is asked of joins of two and of many, and of how tuples expire; None if nothing is."""

    method: MethodHint = NO_HINT
    expiry_schedule: str | None = None
    multiway: MultiwayHint | None = None
    serving_order: str | None = None
    """In which order queries are served by a join that they share."""
    lookup: str | None = None
    """How relations are looked up in; one of `LOOKUP_METHODS`."""


def read_hints(bound: Block) -> Hints:
    """The hints of a statement; raises PlanError for what nobody understands."""
    method, expiry_schedule, multiway, serving_order, lookup = NO_HINT, None, None, None, None
    for hint in bound.hints:
        found = _HINT.fullmatch(hint)
        name, settings = (found[1], found[2]) if found else (hint, None)
        if name in EXPIRY_SCHEDULES and settings is None:
            expiry_schedule = name
        elif name in SERVING_ORDERS and settings is None:
            serving_order = name
        elif name in LOOKUP_METHODS and settings is None:
            lookup = name
        elif name in EXACT_SETTINGS:
            method = _read_exact(name, settings, hint, bound)
        elif name in ALGORITHMS:
            method = _read_method(name, settings, hint, bound)
        elif name in MULTIWAY_ALGORITHMS:
            multiway = _read_multiway(name, settings, hint, bound)
        else:
            known = ALGORITHMS | MULTIWAY_ALGORITHMS | LOOKUP_METHODS | EXPIRY_SCHEDULES | SERVING_ORDERS
            choices = ", ".join(f"`{name}` ({meaning})" for name, meaning in known.items())
            _refuse(f"the hint `{hint}` is not known; there is {choices}", bound)
    return Hints(method, expiry_schedule, multiway, serving_order, lookup)


def _read_multiway(algorithm: str, setting: str | None, hint: str, bound: Block) -> MultiwayHint:
    if setting is None:
        return MultiwayHint(algorithm)
    if algorithm != GCA or setting.strip() not in INNER:
        takes = f"takes one of {', '.join(INNER)}, as in `gca(hw)`" if algorithm == GCA else "takes no settings"
        _refuse(f"the hint `{hint}` cannot be set to `{setting}`; `{algorithm}` {takes}", bound)
    return MultiwayHint(algorithm, setting.strip())


def _read_method(algorithm: str, settings: str | None, hint: str, bound: Block) -> MethodHint:
    n_buckets = invalidation = None
    for setting in [] if settings is None else [each.strip() for each in settings.split(",")]:
        if algorithm == WHJ and setting.isdecimal() and n_buckets is None:
            n_buckets = int(setting)
            if not 1 <= n_buckets <= MAX_BUCKETS:
                _refuse(f"`{hint}` asks for {n_buckets} buckets; give 1 to {MAX_BUCKETS}", bound)
        elif algorithm in (WHJ, WNL) and setting in INVALIDATIONS and invalidation is None:
            invalidation = setting
        else:
            _refuse(f"the hint `{hint}` cannot be set to `{setting}`; {_settings(algorithm)}", bound)
    return MethodHint(algorithm, n_buckets, invalidation)


def _read_exact(algorithm: str, settings: str | None, hint: str, bound: Block) -> MethodHint:
    """A method that keeps windows on disk: a number of partitions, if it has some, and settings by name."""
    chosen: dict[str, float] = {}
    kinds, n_buckets = _kinds(algorithm), None
    for setting in [] if settings is None else [each.strip() for each in settings.split(",")]:
        name, _, value = (part.strip() for part in setting.partition("="))
        if algorithm in BUCKETED and setting.isdecimal() and n_buckets is None:
            n_buckets = int(setting)
            if not 1 <= n_buckets <= MAX_BUCKETS:
                _refuse(f"`{hint}` asks for {n_buckets} partitions; give 1 to {MAX_BUCKETS}", bound)
        elif name in kinds and name not in chosen and _NUMBER.fullmatch(value) and (kinds[name] or value.isdecimal()):
            chosen[name] = float(value) if kinds[name] else int(value)
        else:
            _refuse(f"the hint `{hint}` cannot be set to `{setting}`; {_settings(algorithm)}", bound)
    made = MethodHint(algorithm, n_buckets, settings=tuple(chosen.items()))
    try:
        choose_method(None, has_keys=True, hint=made)
    except PlanError as error:
        _refuse(f"the hint `{hint}` cannot be: {error.reason}", bound)
    return made


def _kinds(algorithm: str) -> dict[str, bool]:
    """What can be set of a method that keeps windows on disk, and whether it may be a fraction."""
    return {each.name: each.type == "float" for each in fields(EXACT_SETTINGS[algorithm]) if each.name != "n_part"}


def _settings(algorithm: str) -> str:
    """What an algorithm can be set to, for messages."""
    invalidations = ", ".join(f"`{name}`" for name in INVALIDATIONS)
    if algorithm == WHJ:
        return f"`{WHJ}` takes a number of buckets and an invalidation ({invalidations}), as in `{WHJ}(100, optimal)`"
    if algorithm == WNL:
        return f"`{WNL}` takes an invalidation ({invalidations}), as in `{WNL}(optimal)`"
    if algorithm in EXACT_SETTINGS:
        names = ", ".join(f"`{name}`" for name in _kinds(algorithm))
        partitions, example = ("a number of partitions and ", "60, ") if algorithm in BUCKETED else ("", "")
        return f"`{algorithm}` takes {partitions}numbers for {names}, as in `{algorithm}({example}memory=4096)`"
    return f"`{algorithm}` takes no settings"


def _refuse(reason: str, bound: Block) -> None:
    raise PlanError(reason, bound.text, bound.spans["hint"])
