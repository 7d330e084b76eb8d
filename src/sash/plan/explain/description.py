"""A title and facts: what EXPLAIN says of an operator, whichever it is; each family has a module that tells."""

from __future__ import annotations

from functools import singledispatch

from sash.operators.node import Node
from sash.plan.query_plan import QueryPlan

Fact = tuple[str, str]

Description = tuple[str, list[Fact]]


@singledispatch
def describe(spec: object, node: Node, plan: QueryPlan) -> Description:
    """The title of an operator, and its facts; those without a text are left out."""
    raise AssertionError(f"EXPLAIN does not know {type(spec).__name__}")
