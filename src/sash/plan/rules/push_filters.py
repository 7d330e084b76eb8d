"""Brings every condition down to the first place where all it reads is there: a source, or a join."""

from __future__ import annotations

from dataclasses import replace

from sash.plan.logical import Join, Scan, Select, aliases_of, map_joins, map_scans, padded_aliases, scans_of
from sash.sql.join_trees import INNER


def push_filters(query: Select) -> Select:
    """A condition on one source goes to that source, a constant one to the first; all others to a join.

    Where a relation may have no partner, what it has to satisfy to be one stays with the join, or goes to the relation;
    a condition on what is found there, or is NULL, is looked at after all joins.
    """
    first = scans_of(query.input)[0].source.alias
    padded = padded_aliases(query.input)
    late = tuple(conjunct for conjunct in query.conjuncts if aliases_of(conjunct) & padded)
    early = [conjunct for conjunct in query.conjuncts if not aliases_of(conjunct) & padded]
    placed = [(conjunct, aliases_of(conjunct) or frozenset([first])) for conjunct in early]

    def filter_scan(scan: Scan) -> Scan:
        own = tuple(conjunct for conjunct, aliases in placed if aliases == aliases_of(scan))
        return replace(scan, conjuncts=own)

    def filter_join(join: Join) -> Join:
        if join.kind != INNER:
            return _filter_lookup(join)
        here = aliases_of(join)
        own = tuple(
            conjunct
            for conjunct, aliases in placed
            if len(aliases) > 1 and aliases <= here and not aliases <= aliases_of(join.left)
        )
        return replace(join, conjuncts=own)

    return replace(query, input=map_joins(map_scans(query.input, filter_scan), filter_join), conjuncts=late)


def _filter_lookup(join: Join) -> Join:
    own = tuple(conjunct for conjunct in join.conjuncts if aliases_of(conjunct) == aliases_of(join.right))
    others = tuple(conjunct for conjunct in join.conjuncts if conjunct not in own)
    return replace(join, right=replace(join.right, conjuncts=own), conjuncts=others)
