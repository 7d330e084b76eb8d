"""Text in, plan out."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sash.plan.builder import physical_plan
from sash.plan.logical import logical_plan, map_selects
from sash.plan.query_plan import QueryPlan
from sash.plan.rules import RULES
from sash.plan.rules.refuse_unbounded import refuse_unbounded, refuse_unbounded_sets
from sash.sql.bound_query import Block


def plan_query(bound: Block, frames: Mapping[str, pa.Table] | None = None) -> QueryPlan:
    """The plan of a bound query, after all rules in their order.

    Streams that are there as tables are looked at, as far as their statistics are not declared.
    """
    body = logical_plan(bound)
    for rule in RULES:
        if rule is not refuse_unbounded or not bound.may_grow:
            body = map_selects(body, rule)
    if not bound.may_grow:
        refuse_unbounded_sets(body)
    return physical_plan(body, frames or {})
