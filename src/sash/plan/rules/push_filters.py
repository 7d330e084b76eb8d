"""Brings every condition down to the first place where all it reads is there: a source, or a join."""

from __future__ import annotations

from dataclasses import replace

from sash.plan.logical import Join, Scan, Select, aliases_of, map_joins, map_scans, scans_of


def push_filters(query: Select) -> Select:
    """A condition on one source goes to that source, a constant one to the first; all others to a join."""
    first = scans_of(query.input)[0].source.alias
    placed = [(conjunct, aliases_of(conjunct) or frozenset([first])) for conjunct in query.conjuncts]

    def filter_scan(scan: Scan) -> Scan:
        own = tuple(conjunct for conjunct, aliases in placed if aliases == aliases_of(scan))
        return replace(scan, conjuncts=own)

    def filter_join(join: Join) -> Join:
        here = aliases_of(join)
        own = tuple(
            conjunct
            for conjunct, aliases in placed
            if len(aliases) > 1 and aliases <= here and not aliases <= aliases_of(join.left)
        )
        return replace(join, conjuncts=own)

    return replace(query, input=map_joins(map_scans(query.input, filter_scan), filter_join), conjuncts=())
