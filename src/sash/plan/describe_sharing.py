"""EXPLAIN of many queries: what they share, how that runs, and what runs alone and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sash.plan.explain import explain_plan
from sash.plan.physical import SHARED_SCHEDULES, Plan
from sash.plan.shared_plan import SharedPlan, shared_plan
from sash.plan.sharing import SIDES, share_groups
from sash.sql.durations import format_duration


def explain_sharing(plans: Mapping[str, Plan]) -> str:
    """How a set of queries would run."""
    groups, reasons = share_groups(plans)
    lines: list[str] = []
    for names in groups.values():
        lines += [*_describe_group(shared_plan({name: plans[name] for name in names})), ""]
    for name, reason in reasons.items():
        lines += [f"{name} runs alone: {reason}", explain_plan(plans[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _describe_group(plan: SharedPlan) -> Iterator[str]:
    yield f"Shared join  {plan.signature}"
    yield f"  schedule   {SHARED_SCHEDULES[plan.schedule]}"
    for side, slot in enumerate(plan.slots):
        window = format_duration(plan.windows_us[side])
        below = "rows that no query wants are left out below the join" if plan.is_kept_below(side) else "every row"
        yield f"  {SIDES[side]:<9}  {slot.source.name}: {below}, kept once for {window}"
    for name in sorted(plan.plans):
        yield f"  {name}"
        for tap in plan.spec.taps:
            if tap.name.rpartition("#")[0] == name:
                yield f"    {_describe_tap(plan, tap.name)}"


def _describe_tap(plan: SharedPlan, name: str) -> str:
    site = plan.sites[name]
    windows = sorted({format_duration(window) for window in site.windows_us})
    conditions = [each for side in (0, 1) if (each := site.condition(side))]
    residual = [] if site.spec.residual is None else [site.spec.residual]
    filters = " AND ".join(each.replace('"', "") for each in [*conditions, *residual])
    return f"window {' and '.join(windows)}" + (f", {filters}" if filters else "")
