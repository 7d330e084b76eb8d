"""Drops conditions of an interval join that say no more than how far apart tuples may be: the join's reach says it."""

from __future__ import annotations

from dataclasses import replace

from sash.plan.logical import Select
from sash.sql.interval_joins import is_said_by_reach


def drop_interval_conditions(query: Select) -> Select:
    """The join looks no further than they allow: nothing is left of them to check, and no time column to carry."""
    if query.bound.interval_graph is None:
        return query
    kept = tuple(each for each in query.conjuncts if not is_said_by_reach(each, query.bound.sources))
    return replace(query, conjuncts=kept)
