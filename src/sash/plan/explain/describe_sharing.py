"""EXPLAIN of many queries: what they share, how that runs, and what runs alone and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sash.operators.evaluator import quote
from sash.operators.pipeline import Node
from sash.plan.explain.describe import Description, Fact, describe
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.wording import format_duration, plain
from sash.plan.physical import SHARED_SCHEDULES, Plan, Slot
from sash.plan.sharing.shared_plan import SharedPlan, shared_plan
from sash.plan.sharing.who_shares import SIDES, Signature, Site, renamed, share_groups
from sash.store.block_window import CUTS


@dataclass(frozen=True, slots=True)
class TapSpec:
    """Stands in the tree of a query for the join that it shares."""

    site: Site


def explain_sharing(plans: Mapping[str, Plan], is_spark: bool = False) -> str:
    """How a set of queries would run: first those that share a join, then the others."""
    groups, reasons = share_groups(plans)
    shared = {signature: names for signature, names in groups.items() if len(names) > 1}
    parts = [_explain_group({name: plans[name] for name in names}, is_spark) for names in shared.values()]
    for signature, names in groups.items():
        if len(names) == 1:
            (name,) = names
            parts.append(f"Query {name} has its join for itself: {_join(signature)}\n{explain_plan(plans[name])}")
    parts += [f"Query {name} runs alone: {reason}\n{explain_plan(plans[name])}" for name, reason in reasons.items()]
    return "\n".join(parts)


def shares_any(plans: Mapping[str, Plan]) -> bool:
    """Whether any two of these queries have a join in common."""
    return any(len(names) > 1 for names in share_groups(plans)[0].values())


def _explain_group(plans: Mapping[str, Plan], is_spark: bool) -> str:
    group = shared_plan(plans)
    lines = [f"Shared join: {_join(group.signature)}", *_facts(_group_facts(group, is_spark))]
    parts = ["\n".join(lines) + "\n"]
    for name, plan in plans.items():
        others = [each for each in plans if each != name]
        parts.append(f"Query {name} shares its join with {_listed(others)}\n{explain_plan(_tapped(plan, group, name))}")
    return "\n".join(parts)


def _group_facts(group: SharedPlan, is_spark: bool) -> list[Fact]:
    sides = [fact for side in (0, 1) for fact in _side_facts(group, side)]
    return [
        ("queries", f"{len(group.plans)}: {_listed(list(group.plans))}"),
        ("schedule", _schedule(group, is_spark)),
        *sides,
        (
            "emission",
            "a pair as soon as its second tuple is there, to every query whose windows and conditions admit it",
        ),
    ]


def _schedule(group: SharedPlan, is_spark: bool) -> str:
    """Which, and why."""
    name = f"{SHARED_SCHEDULES[group.schedule]} ({group.schedule.upper()})"
    if is_spark:
        asked = f"; the hint `{group.schedule}` has no effect" if group.schedule != "lwo" else ""
        return f"{SHARED_SCHEDULES['lwo']} (LWO): on Spark all answers leave with their batch{asked}"
    if group.is_hinted:
        asking = sorted(query for query, plan in group.plans.items() if plan.sharing)
        return f"{name}, by hint of {_listed(asking)}"
    if len(group.spec.classes_us) == 1:
        return f"{name}, as all windows are equal"
    return f"{name} at first; in this process by how many tuples come at once, where changes are taken as they come"


def _side_facts(group: SharedPlan, side: int) -> list[Fact]:
    slot, window_us = group.slots[side], group.windows_us[side]
    largest = [name for name, site in group.sites.items() if site.windows_us[side] == window_us]
    owners = list(dict.fromkeys(name.rpartition("#")[0] for name in largest))
    kept = f"the tuples of {format_duration(window_us)} before the clock, and up to 1/{CUTS} more, once for all queries"
    return [
        (_name(group.signature, side), f"{kept}: the largest window is that of {_listed(owners)}"),
        ("", f"columns: {_columns(slot)}"),
        ("", _filters(group, side)),
    ]


def _filters(group: SharedPlan, side: int) -> str:
    """Where conditions are applied, and why, in numbers."""
    selection = group.selections[side]
    n_labels = len(group.conditions[side])
    which = (
        f"which of {n_labels} conditions a tuple satisfies"
        if n_labels > 1
        else "whether a tuple satisfies the one condition"
    )
    labels = f"labels say {which}"
    if not n_labels:
        return "filters: none"
    if not selection.n_conditions:
        return f"filters: above the join, as some query wants every row; {labels}"
    left_out = f"{1 - selection.wanted:.0%} of the rows are expected to be wanted by nobody"
    weighed = f"{selection.gain_ns:.0f} ns a row, against {selection.cost_ns:.0f} ns to find out"
    if selection.is_below:
        return f"filters: below the join, as {left_out}: saves {weighed}; {labels}"
    return f"filters: above the join; below it would save {weighed}, as {left_out}; {labels}"


def _tapped(plan: Plan, group: SharedPlan, name: str) -> Plan:
    """The query's own plan with taps in place of its joins."""
    sites = {id(site.node): site for tap, site in group.sites.items() if tap.rpartition("#")[0] == name}

    def graft(node: Node) -> Node:
        if id(node) in sites:
            return Node(TapSpec(sites[id(node)]))  # pyright: ignore[reportArgumentType]
        return Node(node.spec, tuple(graft(child) for child in node.inputs))

    return replace(plan, root=graft(plan.root))


@describe.register
def _(spec: TapSpec, node: Node, plan: Plan) -> Description:
    site = spec.site
    slots = site.slots[::-1] if site.is_swapped else site.slots
    windows = [f"{slot.source.alias}: the last {format_duration(slot.ingest.life_us or 0)}" for slot in slots]
    conditions = [slot.ingest.project.predicate for slot in slots if slot.ingest.project.predicate]
    return "Tap of the shared join", [
        ("streams", ", ".join(f"{slot.source.name} AS {slot.source.alias}" for slot in slots)),
        ("windows", "; ".join(windows)),
        ("filter", plain(" AND ".join(conditions)) or "none: it gets every tuple"),
        ("residual", plain(site.spec.residual) or "none"),
        ("state", "none beside the shared join's"),
    ]


def _join(signature: Signature) -> str:
    on = [f"{_key(signature, 0, left)} = {_key(signature, 1, right)}" for left, right in signature.keys]
    left, right = signature.streams
    streams = f"{left} AS left ⋈ {right} AS right" if left == right else f"{left} ⋈ {right}"
    return f"{streams} ON {' AND '.join(on) or _worded(signature, signature.condition or 'TRUE')}"


def _key(signature: Signature, side: int, name: str) -> str:
    computed = name.removeprefix(f"{SIDES[side]}=")
    return _worded(signature, computed if computed != name else quote(name))


def _worded(signature: Signature, sql: str) -> str:
    """An expression of the shared join with streams called by their names."""
    names = {}
    for side, alias in enumerate(SIDES):
        stream = _name(signature, side)
        names |= {found: f"{stream}.{found.removeprefix(f'{alias}.')}" for found in _quoted(sql, f"{alias}.")}
    return plain(renamed(sql, names))


def _quoted(sql: str, prefix: str) -> list[str]:
    return [part for part in sql.split('"') if part.startswith(prefix)]


def _name(signature: Signature, side: int) -> str:
    """What a stream is called: by its name, unless the stream is joined with itself."""
    left, right = signature.streams
    return SIDES[side] if left == right else signature.streams[side]


def _columns(slot: Slot) -> str:
    prefix = f"{slot.source.alias}."
    named = {name: name.removeprefix(prefix) for name in slot.ingest.project.passed if "." in name}
    made = [plain(sql, named) for _, sql in slot.ingest.project.columns]
    return ", ".join([*named.values(), *made]) or "none"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _facts(facts: list[Fact]) -> list[str]:
    return [f"  {name:<10} {text}" for name, text in facts]
