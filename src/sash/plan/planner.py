"""Text in, plan out."""

from __future__ import annotations

from sash.plan.builder import physical_plan
from sash.plan.logical import logical_plan, map_queries
from sash.plan.physical import Plan
from sash.plan.rules import RULES
from sash.plan.rules.refuse_unbounded import refuse_unbounded_sets
from sash.sql.query import Block


def plan_query(bound: Block) -> Plan:
    """The plan of a bound query, after all rules in their order."""
    body = logical_plan(bound)
    for rule in RULES:
        body = map_queries(body, rule)
    refuse_unbounded_sets(body)
    return physical_plan(body)
