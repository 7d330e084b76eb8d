"""Whose rows are in the tuples of an operator, by the aliases that the query gives them."""

from __future__ import annotations

from functools import singledispatch

from sash.operators.membership import MembershipSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import InputSpec, RelationSpec
from sash.operators.project import ProjectSpec
from sash.operators.unmet import UnmetSpec
from sash.plan.explain.describe_flow import alias_given
from sash.plan.query_plan import QueryPlan


@singledispatch
def aliases_in(spec: object, node: Node, plan: QueryPlan) -> list[str]:
    """The aliases of the streams, relations and subqueries whose rows are in a node's tuples."""
    return [alias for child in node.inputs for alias in aliases_in(child.spec, child, plan)]


@aliases_in.register
def _(spec: InputSpec, node: Node, plan: QueryPlan) -> list[str]:
    return [plan.slots[spec.slot].source.alias]


@aliases_in.register
def _(spec: RelationSpec, node: Node, plan: QueryPlan) -> list[str]:
    return [next(lookup.source.alias for lookup in plan.lookups if lookup.label == spec.alias)]


@aliases_in.register
def _(spec: ProjectSpec, node: Node, plan: QueryPlan) -> list[str]:
    alias = alias_given(spec)
    return [alias] if alias is not None else aliases_in(node.inputs[0].spec, node.inputs[0], plan)


@aliases_in.register
def _(spec: MembershipSpec, node: Node, plan: QueryPlan) -> list[str]:
    """Only left tuples are passed on."""
    return aliases_in(node.inputs[0].spec, node.inputs[0], plan)


@aliases_in.register
def _(spec: UnmetSpec, node: Node, plan: QueryPlan) -> list[str]:
    """Only left tuples are passed on."""
    return aliases_in(node.inputs[0].spec, node.inputs[0], plan)
