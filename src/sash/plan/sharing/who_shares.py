"""Who shares a join: decided here and nowhere else, for whoever runs queries and for EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.join_sites import RunsAlone, Signature, signature_of

LEAST_IN_SCRIPTS = 2
"""All queries of a script are known: a join that only one of them has is not made ready for others."""
Started = Callable[[Signature], int | None]
"""With how many fragments the join of a signature was started that is gone on with; None if it is new."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a set of queries runs."""

    plans: tuple[Plan, ...]
    """Every query is in one of them: those with a trunk first."""
    reasons: Mapping[str, str]
    """Why queries run alone that cannot share."""
    gone_on: frozenset[Signature] = frozenset()
    """The joins that were started before, and keep as many fragments."""

    @property
    def is_any(self) -> bool:
        """Whether any of them have a join that is shared."""
        return any(plan.trunk is not None for plan in self.plans)


def decide_sharing(
    queries: Mapping[str, QueryPlan],
    least: int = 1,
    started: Started = lambda signature: None,
    n_fragments: int = 1,
) -> Sharing:
    """Queries with the same join together; raises PlanError if they ask it for different things.

    Fewer than `least` do not make a join that can be shared, unless one has been started: whoever may add queries later
    shares from the first one on. A trunk is started with `n_fragments`, or as many as its queries need, and keeps them:
    Spark goes on from a checkpoint with as many only. Each costs every batch something, needed or not.
    """
    groups, reasons = _by_signature(queries)
    shared: list[Plan] = []
    gone_on: set[Signature] = set()
    for signature, names in groups.items():
        known = started(signature)
        fitting = [name for name in names if known is None or _n_needed(name, queries[name]) <= known]
        for name in names:
            if name not in fitting:
                needed = _n_needed(name, queries[name])
                reasons[name] = f"it needs {needed} stages, and its join was started with {known}"
        if fitting and known is not None:
            gone_on.add(signature)
        if fitting and (known is not None or len(fitting) >= least):
            shared.append(Plan.sharing({name: queries[name] for name in fitting}, known or n_fragments))
    together = {name for plan in shared for name in plan.queries}
    alone = (Plan.alone(query, name) for name, query in queries.items() if name not in together)
    return Sharing((*shared, *alone), reasons, frozenset(gone_on))


def _by_signature(queries: Mapping[str, QueryPlan]) -> tuple[dict[Signature, list[str]], dict[str, str]]:
    """The queries that could share, and the reasons of those that cannot."""
    groups: dict[Signature, list[str]] = {}
    reasons: dict[str, str] = {}
    for name, query in queries.items():
        try:
            groups.setdefault(signature_of(query), []).append(name)
        except RunsAlone as reason:
            reasons[name] = str(reason)
    return groups, reasons


def _n_needed(name: str, query: QueryPlan) -> int:
    """How many fragments a query has on top of a trunk."""
    return len(Plan.sharing({name: query}).fragments)
