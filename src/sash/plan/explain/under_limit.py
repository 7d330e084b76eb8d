"""Plans as they run where memory is limited, for EXPLAIN."""

from __future__ import annotations

from dataclasses import replace

from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node, map_nodes
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.who_shares import Sharing


def sharing_under_limit(sharing: Sharing) -> Sharing:
    """Of queries that run alone: a join of many shares nothing."""
    return replace(sharing, plans=tuple(_plan_under_limit(plan) for plan in sharing.plans))


def query_under_limit(query: QueryPlan) -> QueryPlan:
    """With joins of many that probe, as no other algorithm finds tuples on disk."""

    def limited(node: Node, inputs: tuple[Node, ...]) -> Node:
        spec = node.spec
        if isinstance(spec, MultiwayJoinSpec) and spec.choice is not None and not spec.choice.is_hinted:
            spec = replace(spec, choice=spec.choice.under_limit())
        return Node(spec, inputs)

    return replace(query, root=map_nodes(query.root, limited))


def _plan_under_limit(plan: Plan) -> Plan:
    if plan.trunk is not None:
        return plan
    ((name, query),) = plan.queries.items()
    return Plan.alone(query_under_limit(query), name)
