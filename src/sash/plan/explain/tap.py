"""What EXPLAIN says of the place where a query takes what is its own out of a join that it shares."""

from __future__ import annotations

from dataclasses import dataclass

from sash.operators.node import Node
from sash.plan.explain.aliases import aliases_in
from sash.plan.explain.describe import Description, describe
from sash.plan.explain.summarize import Summary, summarize
from sash.plan.explain.wording import format_duration, plain
from sash.plan.query_plan import QueryPlan, Slot
from sash.plan.sharing.join_sites import Site


@dataclass(frozen=True, slots=True)
class TapSpec:
    """Stands in the tree of a query for the join that it shares."""

    site: Site

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The streams, in the order in which the query names them."""
        return self.site.slots[::-1] if self.site.is_swapped else self.site.slots

    @property
    def filter(self) -> str:
        """What tuples must satisfy one by one."""
        return plain(" AND ".join(sql for slot in self.slots if (sql := slot.ingest.project.predicate)))

    @property
    def residual(self) -> str:
        """What a pair must satisfy beside the keys of the shared join."""
        return plain(self.site.spec.residual)


@describe.register
def _(spec: TapSpec, node: Node, plan: QueryPlan) -> Description:
    windows = [f"{slot.source.alias}: the {_window(slot)}" for slot in spec.slots]
    return "Tap of the shared join", [
        ("streams", ", ".join(_source(slot) for slot in spec.slots)),
        ("windows", "; ".join(windows)),
        ("filter", spec.filter or "none: it gets every tuple"),
        ("residual", spec.residual or "none"),
        ("state", "none beside the shared join's"),
    ]


@summarize.register
def _(spec: TapSpec, node: Node, plan: QueryPlan) -> Summary:
    streams, windows = [_source(slot) for slot in spec.slots], [_window(slot) for slot in spec.slots]
    if len(set(windows)) == 1:
        does = f"{', '.join(streams)}, {windows[0]}"
    else:
        does = ", ".join(f"{stream} {window}" for stream, window in zip(streams, windows))
    conditions = " and ".join(text for text in (spec.filter, spec.residual) if text)
    return Summary("Tap", does + (f", where {conditions}" if conditions else ""))


@aliases_in.register
def _(spec: TapSpec, node: Node, plan: QueryPlan) -> list[str]:
    return [slot.source.alias for slot in spec.slots]


def _source(slot: Slot) -> str:
    return f"{slot.source.name} AS {slot.source.alias}"


def _window(slot: Slot) -> str:
    return f"last {format_duration(slot.ingest.life_us or 0)}"
