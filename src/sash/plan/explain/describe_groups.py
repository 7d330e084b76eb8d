"""What EXPLAIN says of operators that tell of groups of rows: what they have in common, or which are their first."""

from __future__ import annotations

from sash.operators.distinct import DistinctSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.node import Node
from sash.operators.partial_aggregate import PartialAggregateSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.top_k import TopKSpec
from sash.plan.explain.describe_top_k import kept_text, ties_text
from sash.plan.explain.description import Description, describe
from sash.plan.explain.meanings import call_text, made_below, meanings
from sash.plan.explain.state_bounds import expiry_text, trace_bound
from sash.plan.explain.wording import plain
from sash.plan.query_plan import QueryPlan


@describe.register
def _(spec: DistinctSpec, node: Node, plan: QueryPlan) -> Description:
    held = trace_bound(spec.window_us, node.inputs[0])
    return "Distinct", [
        ("columns", ", ".join(spec.columns)),
        ("expiry", expiry_text((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"{held}; and, within the same bound, the times of those that are shown"),
        ("emission", "the first of equal tuples; when it leaves, the one that expires last of those left"),
    ]


@describe.register
def _(spec: GroupBySpec, node: Node, plan: QueryPlan) -> Description:
    sql = made_below(node)
    calls = {call.name: call_text(call, sql) for call in spec.calls}
    replaced = "and a -1 for the older one" if spec.retracts else "which replaces the older one"
    moved = "".join(f", and when {calls[name]} changes" for name in spec.moving)
    gone = f"; a -1 when the group is gone{moved}" if spec.keys and not spec.retracts else ""
    return "GroupBy", [
        ("groups", ", ".join(sql.get(key, key) for key in spec.keys) or "one, which is always there"),
        ("aggregates", ", ".join(f"{call} AS {name}" for name, call in calls.items()) or "none"),
        ("having", plain(spec.having, sql | calls)),
        ("expiry", expiry_text((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {trace_bound(spec.window_us, node.inputs[0])}"),
        ("emission", f"at every instant at which a group's row changes: the new row, {replaced}{gone}"),
    ]


@describe.register
def _(spec: RunningGroupBySpec, node: Node, plan: QueryPlan) -> Description:
    sql = made_below(node)
    calls = {call.name: call_text(call, sql) for call in spec.calls}
    rows = "as many rows as there are groups since the window's begin" if spec.keys else "one row"
    return "RunningGroupBy", [
        ("groups", ", ".join(sql.get(key, key) for key in spec.keys) or "one, which is always there"),
        ("aggregates", ", ".join(f"{call} AS {name}" for name, call in calls.items()) or "none"),
        *([("results", ", ".join(f"{plain(sql)} AS {name}" for name, sql in spec.results))] if spec.results else []),
        ("having", plain(spec.having)),
        ("state", f"{rows}, for ever: what the aggregates have come to, and no tuple"),
        ("emission", "a group's row when it changes; what happens at one instant changes it once"),
    ]


@describe.register
def _(spec: PartialAggregateSpec, node: Node, plan: QueryPlan) -> Description:
    return "PartialAggregate", [
        ("does", "adds up, in each partition group, what comes and goes at an instant"),
        ("sums", ", ".join(made_below(node).get(name, name) for name in spec.arguments) or "none: rows are counted"),
        ("expiry", expiry_text((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {trace_bound(spec.window_us, node.inputs[0])}"),
        ("emission", "one row for every instant at which something comes or goes"),
    ]


@describe.register
def _(spec: TopKSpec, node: Node, plan: QueryPlan) -> Description:
    known = meanings(node, plan)
    return "TopK", [
        ("keeps", kept_text(spec, known)),
        ("ties", f"by {ties_text(spec, known)}"),
        ("expiry", expiry_text((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {trace_bound(spec.window_us, node.inputs[0])}"),
        ("emission", "a row as soon as it is among the first, and a -1 for one that is so no more"),
    ]
