"""What EXPLAIN says of operators that look for partners: joins, lookups, IN, EXISTS and set operations."""

from __future__ import annotations

from sash.operators.asof_join import AsofJoinSpec
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.membership import MembershipSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node
from sash.operators.unmet import UnmetSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.explain.describe_join import lookup_facts, method_facts
from sash.plan.explain.describe_multiway import multiway_facts
from sash.plan.explain.description import Description, describe
from sash.plan.explain.meanings import made_below, made_by_child
from sash.plan.explain.state_bounds import buffer_bound, expiry_text, trace_bound
from sash.plan.explain.wording import plain
from sash.plan.query_plan import QueryPlan

ROW_RULES = {"absent": "Minus", "present": "Intersect", "except_all": "Minus all", "intersect_all": "Intersect all"}
"""Titles where rows are compared as rows."""

LOOKUP_KINDS = {
    "LEFT": "every row: one that finds nothing comes once, with NULLs",
    "SEMI": "rows that find something, each once",
    "ANTI": "rows that find nothing",
}

TEST_RULES = {"absent": "Anti join", "present": "Semi join"}
"""Titles of IN and EXISTS, to which NULL equals nothing."""

PASSES = {
    "absent": "left tuples to which no right one is equal",
    "present": "left tuples to which a right one is equal",
    "except_all": "of equal tuples as many as the left has more than the right",
    "intersect_all": "of equal tuples as many as both sides have",
}


@describe.register
def _(spec: MultiwayJoinSpec, node: Node, plan: QueryPlan) -> Description:
    return "MultiwayJoin", multiway_facts(spec, plan.graphs)


@describe.register
def _(spec: WindowJoinSpec, node: Node, plan: QueryPlan) -> Description:
    bounds = [buffer_bound(*each) for each in zip(("left", "right"), spec.windows_us, node.inputs, strict=True)]
    return "WindowJoin", [
        *method_facts(spec.method, spec.choice, spec.has_identities),
        ("keys", ", ".join(f"{left} = {right}" for left, right in spec.keys) or "none"),
        ("residual", plain(spec.residual) or "none"),
        ("expiry", expiry_text(spec.windows_us, spec.expires_by_negatives)),
        ("state", "; ".join(bounds)),
        ("emission", "a pair as soon as its second tuple is there"),
    ]


@describe.register
def _(spec: LookupJoinSpec, node: Node, plan: QueryPlan) -> Description:
    algorithm, *conditions = lookup_facts(spec)
    return "LookupJoin", [
        algorithm,
        ("keeps", LOOKUP_KINDS.get(spec.kind, "")),
        *conditions,
        ("residual", plain(spec.residual) or "none"),
        ("state", "none beside the relation"),
        ("emission", "at once"),
    ]


@describe.register
def _(spec: MembershipSpec, node: Node, plan: QueryPlan) -> Description:
    title = (ROW_RULES if spec.nulls_match else TEST_RULES)[spec.rule]
    sql = made_below(node)
    pairs = [f"{sql.get(left, left)} = {right}" for left, right in zip(spec.left_keys, spec.right_keys, strict=True)]
    bounds = [trace_bound(life, child) for life, child in zip(spec.windows_us, node.inputs, strict=True)]
    return title, [
        ("passes", PASSES[spec.rule] + ("; NULL is equal to NULL" if spec.nulls_match else "; NULL equals nothing")),
        ("keys", ", ".join(spec.columns if spec.nulls_match else pairs) or "none"),
        ("expiry", expiry_text(spec.windows_us, spec.expires_by_negatives)),
        ("state", f"left: {bounds[0]}; right: of the keys, {bounds[1]}"),
        ("emission", "a tuple as soon as it passes, and a -1 for one that passes no more"),
    ]


@describe.register
def _(spec: AsofJoinSpec, node: Node, plan: QueryPlan) -> Description:
    bounds = [trace_bound(life, child) for life, child in zip(spec.windows_us, node.inputs, strict=True)]
    return "AsofJoin", [
        ("finds", asof_rule(spec, *map(made_by_child, node.inputs))),
        ("keeps", "every row of the left side: one without a partner has NULLs" if spec.keeps_all else ""),
        ("ties", f"between partners of one time, the greatest row by {', '.join(spec.deciding)}"),
        ("expiry", expiry_text(spec.windows_us, spec.expires_by_negatives)),
        ("state", f"left: {bounds[0]}; right: {bounds[1]}"),
        (
            "emission",
            "a row when it comes, with its partner then, for ever"
            if spec.is_final
            else "a row as soon as it has its partner, and a -1 for one that gets another",
        ),
    ]


def asof_rule(spec: AsofJoinSpec, left: dict[str, str], right: dict[str, str]) -> str:
    """`A.k = B.k, the greatest B.ts <= A.ts`, columns by what they mean on their side."""
    keys = [f"{left.get(one, one)} = {right.get(other, other)}" for one, other in spec.keys]
    time, partner = left.get(spec.times[0], spec.times[0]), right.get(spec.times[1], spec.times[1])
    word, turned = ("greatest", "<") if spec.comparison.startswith(">") else ("least", ">")
    return ", ".join([*keys, f"the {word} {partner} {turned}{spec.comparison[1:]} {time}"])


@describe.register
def _(spec: UnmetSpec, node: Node, plan: QueryPlan) -> Description:
    sql = made_below(node)
    pairs = [f"{sql.get(left, left)} = {right}" for left, right in zip(spec.left_keys, spec.right_keys, strict=True)]
    bounds = [trace_bound(life, child) for life, child in zip((spec.windows_us[0], sum(spec.windows_us)), node.inputs)]
    return "Unmet", [
        ("passes", "left tuples that no right one with the same key has met, each when it leaves, for ever"),
        ("keys", ", ".join(pairs) or "none"),
        ("state", f"left: {bounds[0]}; right: of the keys, {bounds[1]}"),
        ("emission", "when the clock, the slowest stream less its slack, reaches the end of a tuple's window"),
    ]
