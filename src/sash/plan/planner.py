"""Text in, plan out."""

from __future__ import annotations

from sash.plan.logical import logical_plan
from sash.plan.physical import Plan, physical_plan
from sash.plan.rules import RULES
from sash.sql.query import BoundQuery


def plan_query(bound: BoundQuery) -> Plan:
    """The plan of a bound query, after all rules in their order."""
    query = logical_plan(bound)
    for rule in RULES:
        query = rule(query)
    return physical_plan(query)
