"""What EXPLAIN says of each operator: its title, and facts about what it does, keeps and waits for."""

from __future__ import annotations

# Each of these tells `describe` of its family of operators.
from sash.plan.explain import describe_flow, describe_groups, describe_over, describe_partners
from sash.plan.explain.description import Description, Fact, describe

__all__ = [
    "Description",
    "Fact",
    "describe",
    "describe_flow",
    "describe_groups",
    "describe_over",
    "describe_partners",
]
