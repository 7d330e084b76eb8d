"""How plans will look up in their relations under a limit on memory, for people: as far as the relations are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import REPLICATED, LookupChoice
from sash.errors import SashError
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.operator_kinds import RelationSpec
from sash.operators.place_relation import choose_by_size
from sash.plan.physical import Plan
from sash.plan.query_plan import Lookup
from sash.plan.statistics import SAMPLE_ROWS


@dataclass(frozen=True, slots=True)
class LookupForecast:
    """Of a relation that a join looks up in."""

    table: str
    room: int
    """Bytes that it may take as a whole."""
    choice: LookupChoice | None
    """None if nobody knows how large it is."""
    is_arrival: bool = False
    """Whether it changes while the query runs."""

    @property
    def file_bytes(self) -> int:
        """What of it is in files."""
        return 0 if self.choice is None or self.choice.method == REPLICATED else self.choice.load.n_bytes


def forecast_lookups(
    plans: Iterable[Plan], tables: Mapping[str, pa.Table], room: int, n_copies: int = 1
) -> dict[int, LookupForecast]:
    """By the `id` of specs: of joins, and of the relations that they look up in."""
    found: dict[int, LookupForecast] = {}
    for join, relation, lookup in _lookups_of(plans):
        choice = _choice(join, lookup, tables, room, n_copies)
        found[id(join)] = found[id(relation)] = LookupForecast(
            lookup.source.name, room, choice, lookup.source.is_arrival
        )
    return found


def _lookups_of(plans: Iterable[Plan]) -> Iterator[tuple[LookupJoinSpec, RelationSpec, Lookup]]:
    for plan in plans:
        for query in plan.queries.values():
            lookups = {lookup.label: lookup for lookup in query.lookups}
            yield from ((join, relation, lookups[relation.alias]) for join, relation in query.lookup_joins())


def _choice(
    spec: LookupJoinSpec, lookup: Lookup, tables: Mapping[str, pa.Table], room: int, n_copies: int
) -> LookupChoice | None:
    """By a sample of the rows, as the query filters them."""
    if not tables.keys() >= set(lookup.tables):
        return None
    try:
        table = lookup.rows_of(tables)
        sample = table.slice(max(0, (table.num_rows - SAMPLE_ROWS) // 2), SAMPLE_ROWS)
        rows = lookup.keep(sample.take(pa.array(np.arange(sample.num_rows))))
    except SashError:
        return None  # a value that the query cannot compute with is an error when it runs
    scale = table.num_rows / max(1, sample.num_rows)
    size = round(scale * rows.num_rows), round(scale * rows.nbytes)
    return choose_by_size(spec, rows.schema, size, room, n_copies)
