"""Where relations are that a pipeline in this process looks up in: in memory, or in files, cut into segments.

    no limit on memory                     in memory, unless a hint asks for a method
    it fits its share of the budget        in memory, charged to the budget
    it does not, and there is a key        in a file, by the method that is the cheapest by estimate

Who shares a budget and looks up the same rows by the same key shares the file, and what is in memory of it. They are
the same if they hold the same values in the same order: names do not matter, so neither do aliases.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sash.cost.lookup_cost import REPLICATED, LookupChoice, LookupLoad, choose_lookup, relation_room
from sash.cost.prices import load_prices
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.relation_parts import RelationParts, Survey, survey
from sash.operators.segmented_lookup import SegmentedLookup, SegmentedRelation, segment_relation
from sash.store.keys import is_exact
from sash.store.memory_budget import MemoryBudget
from sash.store.system_cache import cacheable_bytes


@dataclass(frozen=True, slots=True)
class OpenedRelation:
    """In a file of this process."""

    schema: pa.Schema
    lookup: SegmentedLookup

    def open(self) -> SegmentedLookup:
        return self.lookup


class RelationPlaces:
    """Places the relations of one pipeline. What is in memory is charged to the budget as long as this is there."""

    def __init__(self, budget: MemoryBudget | None):
        self._budget = budget
        self.n_bytes = 0
        """Of relations that are in memory as a whole."""
        if budget is not None:
            budget.count(self)

    def __call__(self, spec: LookupJoinSpec, parts: RelationParts) -> pa.Table | SegmentedRelation:
        """What a join is given of a relation: its rows, or where they are."""
        if spec.method == REPLICATED and (self._budget is None or is_settled(spec)):
            return parts.whole()
        room = None if self._budget is None else relation_room(self._budget.state_bytes)
        choice, known = choose_place(spec, parts, room)
        if choice.method == REPLICATED:
            self.n_bytes += choice.load.whole_bytes
            return parts.whole()
        return OpenedRelation(parts.schema, self._lookup(spec, choice.method, parts, known))

    def _lookup(self, spec: LookupJoinSpec, method: str, parts: RelationParts, known: Survey | None) -> SegmentedLookup:
        columns = own_keys(spec)
        seen = known or survey(parts, columns)
        if self._budget is None:
            return segment_relation(method, parts, columns, seen, None)
        name, budget = f"{method} {seen.digest}", self._budget
        return budget.shared(name, SegmentedLookup, lambda: segment_relation(method, parts, columns, seen, budget))


def choose_place(
    spec: LookupJoinSpec, parts: RelationParts, room: int | None, n_copies: int = 1
) -> tuple[LookupChoice, Survey | None]:
    """How a relation is looked up in that may take so much memory; and what was found out of it, if it had to be."""
    if parts.rows is not None:
        return choose_by_size(spec, parts.schema, (parts.rows.num_rows, parts.rows.nbytes), room, n_copies), None
    known = survey(parts, own_keys(spec))
    return choose_by_size(spec, parts.schema, (known.n_rows, known.n_bytes), room, n_copies), known


def choose_by_size(
    spec: LookupJoinSpec, schema: pa.Schema, size: tuple[int, int], room: int | None, n_copies: int = 1
) -> LookupChoice:
    """The same of a relation with so many rows and bytes."""
    has_order = is_exact([schema.field(name).type for name in own_keys(spec)])
    load = LookupLoad(*size, spec.step_rows, has_order, n_copies, cacheable_bytes())
    return choose_lookup(load, room, load_prices().disk, spec.method if is_settled(spec) else None)


def is_settled(spec: LookupJoinSpec) -> bool:
    """Whether no estimate decides: by a hint, or because there is no key."""
    return spec.is_hinted or not spec.keys


def own_keys(spec: LookupJoinSpec) -> tuple[str, ...]:
    """The columns of the relation by which it is looked up in."""
    return tuple(own for _, own in spec.keys)
