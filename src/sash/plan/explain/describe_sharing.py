"""EXPLAIN of many queries: what they share, how that runs, and what runs alone and why."""

from __future__ import annotations

from dataclasses import replace

from sash.operators.evaluator import quote
from sash.operators.node import Node, map_nodes
from sash.operators.trunk import SIDES
from sash.plan.explain.describe_memory import memory_facts
from sash.plan.explain.description import Fact
from sash.plan.explain.tap import TapSpec
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.wording import format_duration, plain
from sash.plan.memory_forecast import MemoryForecast
from sash.plan.physical import Plan
from sash.plan.query_plan import SERVING_ORDERS, QueryPlan, Slot
from sash.plan.sharing.join_sites import Signature, renamed, signature_of
from sash.plan.sharing.trunk_plan import TrunkPlan
from sash.plan.sharing.who_shares import Sharing
from sash.store.block_window import CUTS


def explain_sharing(
    sharing: Sharing, is_spark: bool = False, verbose: bool = False, forecast: MemoryForecast | None = None
) -> str:
    """How a set of queries would run: first those that share a join, then the others."""
    return "\n".join(explain_together(plan, sharing, is_spark, verbose, forecast) for plan in sharing.plans)


def explain_together(
    plan: Plan, sharing: Sharing, is_spark: bool = False, verbose: bool = False, forecast: MemoryForecast | None = None
) -> str:
    """How those of a set of queries would run that run as one plan: a join and who shares it, or one query alone."""
    if plan.trunk is not None:
        going_on = _going_on(plan) if plan.trunk.signature in sharing.gone_on else ""
        if verbose:
            return "\n".join(_explain_verbosely(plan.trunk, is_spark, forecast, going_on))
        return "\n".join(_explain_shortly(plan.trunk, going_on))
    ((name, query),) = plan.queries.items()
    its_join = f"has its join for itself: {_join(signature_of(query))}" if name not in sharing.reasons else ""
    why = its_join or f"runs alone: {sharing.reasons[name]}"
    return f"Query {name} {why}\n{explain_plan(query, verbose=verbose, forecast=forecast)}"


def _going_on(plan: Plan) -> str:
    """What a join keeps of an earlier run, whoever shares it now."""
    n_stages = len(plan.fragments)
    return f"goes on from its checkpoint, with {n_stages} stage{'s' if n_stages > 1 else ''}"


def _explain_shortly(trunk: TrunkPlan, going_on: str) -> list[str]:
    """The join in one line, who shares it in another, then each query."""
    kept = [f"{_name(trunk.signature, side)} {format_duration(trunk.windows_us[side])}" for side in (0, 1)]
    lines = [f"Shared join: {_join(trunk.signature)}  keeps {', '.join(kept)}", f"  {_shared_by(list(trunk.queries))}"]
    lines += [f"  {going_on}"] if going_on else []
    queries = [f"Query {name}\n{_explain_query(query, trunk, name)}" for name, query in trunk.queries.items()]
    return ["\n".join(lines) + "\n", *queries]


def _shared_by(names: list[str]) -> str:
    if len(names) == 1:
        return f"so far for {names[0]} alone: whoever comes with the same join shares it"
    return f"once for {len(names)} queries: {_listed(names)}"


def _explain_query(
    query: QueryPlan, trunk: TrunkPlan, name: str, verbose: bool = False, forecast: MemoryForecast | None = None
) -> str:
    """It is spread over groups as it would be alone: that is a part of the signature."""
    fragments = Plan.alone(query).fragments
    return explain_plan(_tapped(query, trunk, name), verbose=verbose, fragments=fragments, forecast=forecast)


def _explain_verbosely(trunk: TrunkPlan, is_spark: bool, forecast: MemoryForecast | None, going_on: str) -> list[str]:
    facts = [*_group_facts(trunk, is_spark, forecast is not None), ("earlier run", going_on)]
    if forecast is not None:
        facts += memory_facts(forecast, trunk)
    lines = [f"Shared join: {_join(trunk.signature)}", *_facts([fact for fact in facts if fact[1]])]
    parts = ["\n".join(lines) + "\n"]
    for name, query in trunk.queries.items():
        others = [each for each in trunk.queries if each != name]
        shared = f"shares its join with {_listed(others)}" if others else "has a join that others can share"
        parts.append(f"Query {name} {shared}\n{_explain_query(query, trunk, name, True, forecast)}")
    return parts


def _group_facts(group: TrunkPlan, is_spark: bool, is_limited: bool) -> list[Fact]:
    sides = [fact for side in (0, 1) for fact in _side_facts(group, side)]
    return [
        ("queries", f"{len(group.queries)}: {_listed(list(group.queries))}"),
        ("schedule", _schedule(group, is_spark, is_limited)),
        *sides,
        (
            "emission",
            "a pair as soon as its second tuple is there, to every query whose windows and conditions admit it",
        ),
    ]


def _schedule(group: TrunkPlan, is_spark: bool, is_limited: bool) -> str:
    """Which, and why."""
    name = f"{SERVING_ORDERS[group.serving_order]} ({group.serving_order.upper()})"
    largest = f"{SERVING_ORDERS['lwo']} (LWO)"
    asked = f"; the hint `{group.serving_order}` has no effect" if group.serving_order != "lwo" else ""
    if is_spark:
        return f"{largest}: on Spark all answers leave with their batch{asked}"
    if is_limited and len(group.spec.classes_us) > 1:
        return f"{largest}, as memory is limited: the others find rows in memory alone{asked}"
    if group.is_hinted:
        asking = sorted(query for query, plan in group.queries.items() if plan.serving_order)
        return f"{name}, by hint of {_listed(asking)}"
    if len(group.spec.classes_us) == 1:
        return f"{name}, as all windows are equal"
    return f"{name} at first; in this process by how many tuples come at once, where changes are taken as they come"


def _side_facts(group: TrunkPlan, side: int) -> list[Fact]:
    slot, window_us = group.slots[side], group.windows_us[side]
    largest = [tap for tap, site in group.sites.items() if site.windows_us[side] == window_us]
    owners = list(dict.fromkeys(tap.query for tap in largest))
    kept = f"the tuples of {format_duration(window_us)} before the clock, and up to 1/{CUTS} more, once for all queries"
    return [
        (_name(group.signature, side), f"{kept}: the largest window is that of {_listed(owners)}"),
        ("", f"columns: {_columns(slot)}"),
        ("", _filters(group, side)),
    ]


def _filters(group: TrunkPlan, side: int) -> str:
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


def _tapped(plan: QueryPlan, group: TrunkPlan, name: str) -> QueryPlan:
    """The query's own plan with taps in place of its joins."""
    sites = {id(site.node): site for tap, site in group.sites.items() if tap.query == name}

    def graft(node: Node, inputs: tuple[Node, ...]) -> Node:
        if id(node) in sites:
            return Node(TapSpec(sites[id(node)]))  # pyright: ignore[reportArgumentType]
        return Node(node.spec, inputs)

    return replace(plan, root=map_nodes(plan.root, graft))


def _join(signature: Signature) -> str:
    on = [f"{_key(signature, left)} = {_key(signature, right)}" for left, right in signature.keys]
    left, right = signature.streams
    streams = f"{left} AS left ⋈ {right} AS right" if left == right else f"{left} ⋈ {right}"
    return f"{streams} ON {' AND '.join(on) or _worded(signature, signature.condition or 'TRUE')}"


def _key(signature: Signature, name: str) -> str:
    return _worded(signature, signature.columns[name].sql or quote(name))


def _worded(signature: Signature, sql: str) -> str:
    """An expression of the shared join with streams called by their names."""
    names = {name: f"{_name(signature, each.side)}.{each.column}" for name, each in signature.columns.items()}
    return plain(renamed(sql, names))


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
