"""Tables that are read as of arrival, in a plan: which they are, and for how long a version of one may be asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.node import Node, in_order_of_time
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan, Slot
from sash.sql.window_kinds import TimeWindow

AT_ONCE = 0
WHEN_IN_ORDER = 1
"""Once, as soon as nothing older can come."""
_PASSING = ProjectSpec | LookupJoinSpec | ExchangeSpec | ReorderSpec


def arrival_tables(plan: Plan) -> list[str]:
    """The names of the tables that a plan reads as of arrival."""
    lookups = [lookup for query in plan.queries.values() for lookup in query.lookups]
    return sorted({lookup.source.name for lookup in lookups if lookup.source.is_arrival})


def load_arrived(plan: Plan, tables: Mapping[str, pa.Table]) -> dict[str, dict[str, pa.Table]]:
    """What the queries of a plan need of these tables, by query and label."""
    return {name: query.load_arrived(tables) for name, query in plan.queries.items()}


def asked_for_us(plan: Plan, is_in_order: bool) -> int | None:
    """For how long after its time a tuple may look its rows up: AT_ONCE if only when it comes; None if for ever.

    It does so later where it waits for the clock, or is taken back, below the look-up. `is_in_order` says that the
    whole plan is run with everything in order of time, as in this process.
    """
    return _longest([_asked_by_query(query, is_in_order) for query in plan.queries.values()])


def _asked_by_query(query: QueryPlan, is_in_order: bool) -> int | None:
    arrived = {lookup.label for lookup in query.lookups if lookup.source.is_arrival}
    root = in_order_of_time(query.root) if is_in_order else query.root
    life_us = _longest([_life_us(slot) for slot in query.slots if slot.source.is_arrival])
    return _longest([_asked_by_node(node, life_us) for node in _lookups_in(root, arrived)])


def _asked_by_node(node: Node, life_us: int | None) -> int | None:
    """By what stands between a look-up and its stream."""
    below, asked_us = node.inputs[0], AT_ONCE
    while isinstance(below.spec, _PASSING) and below.inputs:
        asked_us = WHEN_IN_ORDER if isinstance(below.spec, ReorderSpec) else asked_us
        below = below.inputs[0]
    return asked_us if isinstance(below.spec, InputSpec) else life_us


def _life_us(slot: Slot) -> int | None:
    window, life_us = slot.source.window, slot.ingest.life_us
    slide_us = window.slide_us or 0 if isinstance(window, TimeWindow) else 0
    return None if life_us is None else life_us + slide_us


def _lookups_in(root: Node, labels: set[str]) -> Iterator[Node]:
    for node in root.walk():
        if isinstance(node.spec, LookupJoinSpec):
            relation = node.inputs[1].spec
            if isinstance(relation, RelationSpec) and relation.alias in labels:
                yield node


def _longest(lives: list[int | None]) -> int | None:
    return None if None in lives else max((life for life in lives if life is not None), default=AT_ONCE)
