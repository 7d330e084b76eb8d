"""Where the tables of a query are on Spark: with the stages, in every worker, or in files that all workers map.

    no limit on memory                                  with the stages, unless a hint asks for a method
    the copies of all workers fit their share of it     with the stages
    they do not, and there is a key                     cut into segments, in a directory that all workers can read

A stream that nobody needs to be spread in a certain way is spread by the key of a table that is in files. Then each
group needs the segments of its own keys alone, and no two groups read the same. That is decided where a query starts,
and no state depends on it: a limit may change from one run to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sash.cost.lookup_cost import REPLICATED, relation_room, segment_bytes
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.operator_kinds import RelationSpec
from sash.operators.place_relation import choose_place, is_settled, own_keys
from sash.operators.relation_cut import CutRules
from sash.operators.relation_parts import RelationParts, Survey, survey
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.runtime.table_versions import versions_of
from sash.spark.machine_budget import MachineBudget
from sash.spark.prepared_relation import Preparation, PreparedRelation, prepare_relation, remove_others
from sash.store.keys import is_exact

RELATIONS = "relations"
"""The directory of a checkpoint for what workers find in files."""


@dataclass(frozen=True, slots=True)
class PlacedTables:
    """A plan, spread as its tables ask for it, and where these are."""

    plan: Plan
    relations: Mapping[str, pa.Table]
    """What goes with the stages, by name."""
    prepared: Mapping[tuple[str, str], PreparedRelation]
    """By query and label."""
    versions: Mapping[str, str]
    """Of all tables, by name."""

    @property
    def told(self) -> PlacedTables:
        """Without the rows, which stages have anyway."""
        return replace(self, relations={})


class _Large(NamedTuple):
    """A table that is not in memory, as a query looks it up."""

    query: str
    label: str
    spec: LookupJoinSpec
    method: str
    parts: RelationParts
    known: Survey

    @property
    def stream_keys(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.spec.keys)

    @property
    def is_exact(self) -> bool:
        """Whether keys are their own integers."""
        return is_exact([self.parts.schema.field(name).type for name in own_keys(self.spec)])


def place_tables(
    plan: Plan, relations: Mapping[str, pa.Table], budget: MachineBudget, n_groups: int, directory: Path
) -> PlacedTables:
    """Prepares what does not fit, in the directory, unless it is there already."""
    room = relation_room(budget.shared_bytes) if budget.n_bytes else None
    n_workers = budget.n_running
    versions = versions_of(plan, relations)
    large = list(_large_tables(plan, relations, room, n_workers))
    plan = _spread(plan, large)
    prepared: dict[tuple[str, str], PreparedRelation] = {}
    for each in large:
        how = Preparation(directory, None if room is None else room // n_workers)
        n_owners = n_groups if _is_spread_by_key(plan, each) else 1
        prepared[each.query, each.label] = prepare_relation(
            each.parts, each.known, each.spec, CutRules(each.method, segment_bytes(room), each.is_exact, n_owners), how
        )
    remove_others(directory, prepared.values())
    whole = {
        table
        for name, query in plan.queries.items()
        for lookup in query.lookups
        if (name, lookup.label) not in prepared and not lookup.source.is_arrival
        for table in lookup.tables
    }
    return PlacedTables(plan, {name: relations[name] for name in sorted(whole)}, prepared, versions)


def _large_tables(plan: Plan, relations: Mapping[str, pa.Table], room: int | None, n_copies: int) -> Iterator[_Large]:
    for name, query in plan.queries.items():
        lookups = {each.label: each for each in query.lookups}
        for spec, relation in query.lookup_joins():
            if spec.method == REPLICATED and (room is None or is_settled(spec)):
                continue
            lookup = lookups[relation.alias]
            if lookup.source.is_arrival:
                continue
            parts = lookup.parts(lookup.rows_of(relations))
            choice, known = choose_place(spec, parts, room, n_copies)
            if choice.method != REPLICATED:
                yield _Large(name, lookup.label, spec, choice.method, parts, known or survey(parts, own_keys(spec)))


def _spread(plan: Plan, large: list[_Large]) -> Plan:
    """The plan with streams that are free spread by the key of a large table: the first that they are looked up in."""
    if plan.trunk is not None or not large:
        return plan
    ((name, query),) = plan.queries.items()
    return replace(plan, queries={name: _spread_query(query, large)})


def _spread_query(query: QueryPlan, large: list[_Large]) -> QueryPlan:
    slots = list(query.slots)
    for place, slot in enumerate(slots):
        columns = set(slot.schema.names)
        keys = [each.stream_keys for each in large if columns.issuperset(each.stream_keys)]
        if slot.is_free and slot.partition and keys:
            slots[place] = replace(slot, spread=keys[0])
    return replace(query, slots=tuple(slots))


def _is_spread_by_key(plan: Plan, table: _Large) -> bool:
    """Whether the tuples that look up in a table are in the groups of its keys."""
    return any(
        branch.is_partitioned and any(input.partition == table.stream_keys for input in branch.inputs)
        for fragment in plan.fragments
        for branch in fragment.branches
        if branch.name.query == table.query
        if any(isinstance(node.spec, RelationSpec) and node.spec.alias == table.label for node in branch.root.walk())
    )
