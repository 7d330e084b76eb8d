"""What queries in this process look up in of tables that are read as of arrival: in memory, or in files, by segment.

    no limit on memory                     in memory, unless a hint asks for a method
    it fits its share of the budget        in memory, charged to the budget
    it has outgrown that, and has a key    in a file from then on, by the method that is the cheapest by estimate

Each query keeps what it needs of a table, with the batches that see each row (`store/seen_rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sash.cost.lookup_cost import INDEX_BYTES, REPLICATED, relation_room
from sash.io.table_version import TableVersion
from sash.operators.changing_relation import ChangingRelation, ChangingRules
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.place_relation import choose_place, is_settled, own_keys
from sash.operators.relation_parts import RelationParts
from sash.operators.segmented_lookup import SegmentedRelation
from sash.plan.physical import Plan
from sash.plan.query_plan import PART_BYTES, Lookup
from sash.runtime.arrival_rows import seen_from, without_rows
from sash.store.batch import ID_PREFIX, SEEN_FROM, SEEN_UNTIL
from sash.store.memory_budget import MemoryBudget
from sash.store.seen_rows import SeenColumns, VersionStep, change_rows


class ArrivedRelation:
    """As one query needs it."""

    def __init__(self, lookup: Lookup, spec: LookupJoinSpec, budget: MemoryBudget | None):
        self.lookup = lookup
        self._spec, self._budget = spec, budget
        schema = lookup.keep(without_rows(lookup.source.info.schema)).schema
        self._seen = _seen_columns(lookup.source.alias, schema)
        self._n_numbered = 0
        self.has_met = False
        """Whether it has had a version."""
        self.held: pa.Table | ChangingRelation = schema.empty_table()

    @property
    def n_bytes(self) -> int:
        """What it takes as a whole, if it is in memory."""
        return self.held.nbytes + INDEX_BYTES * self.held.num_rows if isinstance(self.held, pa.Table) else 0

    def meet(self, version: TableVersion, step: VersionStep) -> bool:
        """Goes on to another version; whether it has changed. Raises UnknownRowsError as `change_rows` does."""
        assert version.rows is not None
        came, gone = self._parts(version.rows, step.batch), None
        self._n_numbered += version.rows.num_rows
        if version.gone is not None:
            gone = self._parts(version.gone, step.batch)
        if isinstance(self.held, ChangingRelation):
            return self.held.meet(gone, came, step) > 0
        if not self.held.num_rows and gone is None:
            self._place(came)
            return True
        changed = change_rows(self.held, gone and gone.whole(), came.whole(), self._seen, step)
        if changed is not None:
            self._place(RelationParts.of(changed))
        return changed is not None

    def export_state(self) -> tuple[int, list[pa.Table]]:
        """What is held, for `import_state`."""
        rows = [self.held] if isinstance(self.held, pa.Table) else list(self.held.parts())
        return self._n_numbered, rows

    def import_state(self, state: tuple[int, Sequence[pa.Table]]) -> None:
        self._n_numbered, rows = state
        n_bytes = sum(each.nbytes for each in rows)
        self._place(RelationParts(rows[0].schema, lambda: iter(rows), n_bytes=n_bytes))

    def _place(self, parts: RelationParts) -> None:
        """Keeps what is held from now on where there is room for it."""
        self.has_met = True
        method = self._choose(parts)
        if method == REPLICATED:
            self.held = parts.whole().combine_chunks()
        else:
            rules = ChangingRules(method, own_keys(self._spec), self._seen)
            self.held = ChangingRelation(rules, parts, self._budget)

    def _choose(self, parts: RelationParts) -> str:
        if self._spec.method == REPLICATED and (self._budget is None or is_settled(self._spec)):
            return REPLICATED
        room = None if self._budget is None else relation_room(self._budget.state_bytes)
        return choose_place(self._spec, parts, room)[0].method

    def _parts(self, rows: pa.Table, batch: int) -> RelationParts:
        """Rows that a batch sees first, as the query needs them, part by part if they are many."""
        first = self._n_numbered

        def make() -> Iterator[pa.Table]:
            for start in range(0, max(1, rows.num_rows), n_rows):
                yield self.lookup.keep(seen_from(rows.slice(start, n_rows), batch, first + start))

        n_rows = max(1, PART_BYTES * rows.num_rows // max(1, rows.nbytes))
        if n_rows >= rows.num_rows:
            return RelationParts.of(next(make()))
        return RelationParts(self.lookup.keep(seen_from(rows.slice(0, 0), batch, 0)).schema, make, n_bytes=rows.nbytes)


class ArrivedRelations:
    """Of the queries of one job, by query and label."""

    def __init__(self, plan: Plan, budget: MemoryBudget | None):
        self._relations = {
            (name, lookup.label): ArrivedRelation(lookup, spec, budget)
            for name, query in plan.queries.items()
            for spec, relation in query.lookup_joins()
            for lookup in query.lookups
            if lookup.label == relation.alias and lookup.source.is_arrival
        }
        self._has_changed = False
        self._told: set[tuple[str, str]] = set()
        """Of which it was said that segments are too large."""
        if budget is not None:
            budget.count(self)

    @property
    def n_bytes(self) -> int:
        """Of relations that are in memory as a whole."""
        return sum(each.n_bytes for each in self._relations.values())

    def meet(self, name: str, version: TableVersion, step: VersionStep) -> None:
        """Goes on to another version of a table. Raises UnknownRowsError if it is told as a difference to another
        version than is held; then it may be told whole.
        """
        for each in self._relations.values():
            if each.lookup.source.name == name and each.meet(version, step):
                self._has_changed = True

    def take_notes(self) -> list[str]:
        """What whoever runs the queries should know, each once."""
        notes: list[str] = []
        for place, each in self._relations.items():
            if isinstance(each.held, ChangingRelation) and each.held.n_overfull and place not in self._told:
                self._told.add(place)
                notes.append(
                    f"table `{each.lookup.source.name}`: a key has so many rows that its segment is more than twice as "
                    "large as others; it is read whole whenever a row asks for it"
                )
        return notes

    def take_changed(self) -> bool:
        """Whether something has changed since this was asked."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def relations(self) -> dict[str, dict[str, pa.Table | SegmentedRelation]]:
        """What is looked up in now; nothing of a table that no batch has met."""
        found: dict[str, dict[str, pa.Table | SegmentedRelation]] = {}
        for (query, label), each in self._relations.items():
            if each.has_met:
                found.setdefault(query, {})[label] = each.held
        return found

    def export_state(self) -> dict[tuple[str, str], Any]:
        """All that is needed to go on; see `import_state`."""
        return {place: each.export_state() for place, each in self._relations.items() if each.has_met}

    def import_state(self, state: dict[tuple[str, str], Any]) -> None:
        """Goes on with what `export_state` gave."""
        for place, held in state.items():
            self._relations[place].import_state(held)


def _seen_columns(alias: str, schema: pa.Schema) -> SeenColumns:
    start, end = (f"{alias}.{name}" for name in (SEEN_FROM, SEEN_UNTIL))
    content = [name for name in schema.names if name not in (start, end) and not name.startswith(ID_PREFIX)]
    return SeenColumns(start, end, tuple(content))
