"""WITH UNBOUNDED STATE: a query whose operators may keep all of a stream, as somebody has asked for it by name.

Without it a join, DISTINCT, a set operation, IN, EXISTS and aggregates that keep values are refused over streams whose
rows never leave. It stands at the end of a statement, and holds for all of it.
"""

from __future__ import annotations

from sqlglot import exp

UNBOUNDED_STATE = "unbounded_state"
"""Where the parser notes the clause, in the `meta` of a query."""


def may_grow(tree: exp.Query) -> bool:
    """Whether a query may keep all that comes."""
    return UNBOUNDED_STATE in tree.meta
