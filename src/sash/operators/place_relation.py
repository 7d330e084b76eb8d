"""Where relations are that a pipeline in this process looks up in: in memory, or in files, cut into segments.

    no limit on memory                     in memory, unless a hint asks for a method
    it fits its share of the budget        in memory, charged to the budget
    it does not, and there is a key        in a file, by the method that is the cheapest by estimate

Who shares a budget and looks up the same rows by the same key shares the file, and what is in memory of it. They are
the same if they hold the same values in the same order: names do not matter, so neither do aliases.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from sash.cost.lookup_cost import REPLICATED, LookupChoice, LookupLoad, choose_lookup, relation_room
from sash.cost.prices import load_prices
from sash.operators import join_keys
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.segmented_lookup import SegmentedLookup, SegmentedRelation, segment_relation
from sash.store.keys import encode_keys, hash_whole_rows, is_exact
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

    def __call__(self, spec: LookupJoinSpec, rows: pa.Table) -> pa.Table | SegmentedRelation:
        """What a join is given of a relation: its rows, or where they are."""
        room = None if self._budget is None else relation_room(self._budget.state_bytes)
        choice = choose_place(spec, rows, room)
        if choice.method == REPLICATED:
            self.n_bytes += choice.load.whole_bytes
            return rows
        return OpenedRelation(rows.schema, self._lookup(spec, choice.method, rows))

    def _lookup(self, spec: LookupJoinSpec, method: str, rows: pa.Table) -> SegmentedLookup:
        columns = own_keys(spec)
        rows = join_keys.without_null_keys(rows, columns).combine_chunks()

        def make() -> SegmentedLookup:
            named = rows.rename_columns([str(number) for number in range(rows.num_columns)])
            is_own = is_exact([rows.schema.field(name).type for name in columns])
            return segment_relation(method, named, encode_keys(rows, columns), is_own, self._budget)

        if self._budget is None:
            return make()
        return self._budget.shared(content_digest(method, rows, columns), SegmentedLookup, make)


def choose_place(
    spec: LookupJoinSpec, rows: pa.Table, room: int | None, n_copies: int = 1, scale: float = 1.0
) -> LookupChoice:
    """How a relation is looked up in that may take so much memory; `scale` times as large as these rows of it."""
    has_order = is_exact([rows.schema.field(name).type for name in own_keys(spec)])
    n_rows, n_bytes = round(scale * rows.num_rows), round(scale * rows.nbytes)
    load = LookupLoad(n_rows, n_bytes, spec.step_rows, has_order, n_copies, cacheable_bytes())
    hint = spec.method if spec.is_hinted or not spec.keys else None
    return choose_lookup(load, room, load_prices().disk, hint)


def own_keys(spec: LookupJoinSpec) -> tuple[str, ...]:
    """The columns of the relation by which it is looked up in."""
    return tuple(own for _, own in spec.keys)


def content_digest(method: str, rows: pa.Table, columns: tuple[str, ...]) -> str:
    """Equal for relations that can be looked up in as one."""
    places = [rows.schema.get_field_index(name) for name in columns]
    digest = hashlib.sha256(str([method, places, rows.num_rows, *map(str, rows.schema.types)]).encode())
    if rows.num_columns:
        digest.update(hash_whole_rows(rows).tobytes())
    return digest.hexdigest()
