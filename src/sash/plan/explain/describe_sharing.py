"""EXPLAIN of many queries: what they share, how that runs, and what runs alone and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sash.operators.evaluator import quote
from sash.operators.pipeline import Node
from sash.plan.explain.describe import Fact
from sash.plan.explain.tap import TapSpec
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.wording import format_duration, plain
from sash.plan.physical import SHARED_SCHEDULES, Plan, Slot
from sash.plan.sharing.shared_plan import SharedPlan, shared_plan
from sash.plan.sharing.who_shares import SIDES, Signature, renamed, share_groups
from sash.store.block_window import CUTS


def explain_sharing(plans: Mapping[str, Plan], is_spark: bool = False, verbose: bool = False) -> str:
    """How a set of queries would run: first those that share a join, then the others."""
    groups, reasons = share_groups(plans)
    shared = [shared_plan({name: plans[name] for name in names}) for names in groups.values() if len(names) > 1]
    parts = [_explain_verbosely(group, is_spark) if verbose else _explain_shortly(group) for group in shared]
    alone = {names[0]: f"has its join for itself: {_join(each)}" for each, names in groups.items() if len(names) == 1}
    alone |= {name: f"runs alone: {reason}" for name, reason in reasons.items()}
    parts += [f"Query {name} {why}\n{explain_plan(plans[name], verbose=verbose)}" for name, why in alone.items()]
    return "\n".join(parts)


def shares_any(plans: Mapping[str, Plan]) -> bool:
    """Whether any two of these queries have a join in common."""
    return any(len(names) > 1 for names in share_groups(plans)[0].values())


def _explain_shortly(group: SharedPlan) -> str:
    """The join in one line, who shares it in another, then each query."""
    kept = [f"{_name(group.signature, side)} {format_duration(group.windows_us[side])}" for side in (0, 1)]
    lines = [
        f"Shared join: {_join(group.signature)}  keeps {', '.join(kept)}",
        f"  once for {len(group.plans)} queries: {_listed(list(group.plans))}",
    ]
    queries = [f"Query {name}\n{explain_plan(_tapped(plan, group, name))}" for name, plan in group.plans.items()]
    return "\n".join(["\n".join(lines) + "\n", *queries])


def _explain_verbosely(group: SharedPlan, is_spark: bool) -> str:
    lines = [f"Shared join: {_join(group.signature)}", *_facts(_group_facts(group, is_spark))]
    parts = ["\n".join(lines) + "\n"]
    for name, plan in group.plans.items():
        shared = f"shares its join with {_listed([each for each in group.plans if each != name])}"
        parts.append(f"Query {name} {shared}\n{explain_plan(_tapped(plan, group, name), verbose=True)}")
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
