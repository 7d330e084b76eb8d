"""What EXPLAIN says of functions OVER rows: which, over which rows in which order."""

from __future__ import annotations

from collections.abc import Mapping

from sash.operators.node import Node
from sash.operators.over import OverSpec
from sash.plan.explain.describe_top_k import sort_text
from sash.plan.explain.description import Description, describe
from sash.plan.explain.meanings import column_text, meanings, over_text
from sash.plan.explain.state_bounds import expiry_text, trace_bound
from sash.plan.query_plan import QueryPlan


@describe.register
def _(spec: OverSpec, node: Node, plan: QueryPlan) -> Description:
    known = meanings(node.inputs[0], plan)
    return "Over", [
        ("functions", ", ".join(f"{over_text(call, known)} AS {call.name}" for call in spec.calls)),
        ("over", rows_text(spec, known)),
        ("ties", f"by {_ties_text(spec, known)}"),
        ("cost", _cost_text(spec)),
        ("expiry", expiry_text((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {trace_bound(spec.window_us, node.inputs[0])}"),
        ("emission", "each row with what is said of it; when that changes, the row again, and a -1 for the older one"),
    ]


def summary_text(spec: OverSpec, known: Mapping[str, str]) -> str:
    """`row_number(), sum(v) over the rows of each k, by ts`."""
    return f"{', '.join(over_text(call, known) for call in spec.calls)} over {rows_text(spec, known)}"


def rows_text(spec: OverSpec, known: Mapping[str, str]) -> str:
    each = ", ".join(column_text(name, known) for name in spec.partition_by)
    rows = f"the rows of each {each}" if each else "all rows"
    return f"{rows}, by {sort_text(spec.order, known)}" if spec.order else rows


def _ties_text(spec: OverSpec, known: Mapping[str, str]) -> str:
    ordered = [name for name, _ in spec.order]
    names = [column_text(name, known) for name in spec.ties if name not in (*ordered, *spec.partition_by)]
    return ", then ".join([*names, "when they expire"])


def _cost_text(spec: OverSpec) -> str:
    if spec.reach is None:
        return "for a row that comes or goes, its partition is gone through as it was and as it is"
    return f"for a row that comes or goes, up to {2 * spec.reach} rows on either side of it are looked at"
