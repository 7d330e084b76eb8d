"""EXPLAIN: a plan as text, for someone who has not read the code. The same plan always gives the same text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sash.operators.close import CloseSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.expire import ExpireSpec
from sash.operators.grouping import Grouping
from sash.operators.node import Node, operator_nodes
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.sessions import SessionsSpec
from sash.operators.slide import SlideSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.explain.analysis import Measure, measure_facts
from sash.plan.explain.describe import Description, Fact, describe
from sash.plan.explain.describe_memory import memory_facts
from sash.plan.explain.describe_multiway import pictures
from sash.plan.explain.shared_names import SharedNames
from sash.plan.explain.short_tree import short_text
from sash.plan.fragment import Fragment
from sash.plan.memory_forecast import MemoryForecast
from sash.plan.physical import Plan
from sash.plan.query_plan import EXPIRY_SCHEDULES, QueryPlan

SCAN = InputSpec | SlideSpec | CloseSpec | ReorderSpec | CountWindowSpec | SessionsSpec | ProjectSpec | ExchangeSpec
"""What may stand between a stream and the first operator that has something to do with others."""
Tell: TypeAlias = Callable[[Node], Description]
"""What there is to say of a node."""
REASONS = {
    "tpa": "operators expire their own tuples by the clock",
    "nta": "operators are told by a -1 tuple of everything that expires",
    "hybrid": "joins and all below them expire their own tuples by the clock; operators above are told by -1 tuples",
}


def explain_plan(
    plan: QueryPlan,
    measures: Mapping[str, Measure] | None = None,
    verbose: bool = False,
    fragments: Sequence[Fragment] | None = None,
    forecast: MemoryForecast | None = None,
) -> str:
    """The plan as a tree, the answer first: a line for each operator, or all that there is to say of it if `verbose`.

    With measures, by the names of operators in the tree, also what each has done: EXPLAIN ANALYZE. `fragments` are
    those of the query, where its tree has taps in it. `forecast` is for a limit on memory, if there is one.
    """
    named = {id(node): name.operator for name, node in operator_nodes(plan.root)}
    by_node = {node: measures[name] for node, name in named.items() if measures and name in measures}
    fragments = fragments or Plan.alone(plan).fragments
    if verbose:
        return _verbose_text(plan, by_node, fragments, forecast)
    return short_text(plan, by_node, fragments)


def _verbose_text(
    plan: QueryPlan, measures: Mapping[int, Measure], fragments: Sequence[Fragment], forecast: MemoryForecast | None
) -> str:
    """What each operator does, keeps and waits for; then windows of pairs as pictures."""
    lines = [f"Answer: {', '.join(name for name, _ in plan.outputs)}", *_answer_facts(plan, fragments)]

    def tell(node: Node) -> Description:
        title, facts = describe(node.spec, node, plan)
        if forecast is not None:
            facts = _amended(facts, memory_facts(forecast, node.spec))
        if id(node) in measures:
            choice = node.spec.choice if isinstance(node.spec, WindowJoinSpec) else None
            facts = facts + measure_facts(measures[id(node)], choice)
        return title, facts

    lines += [*_tree(plan.root, tell, SharedNames(plan.root), "", ""), *pictures(plan.graphs)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _amended(facts: list[Fact], more: list[Fact]) -> list[Fact]:
    """With what is known better, in its place, and with what is new behind."""
    known, better = {name for name, _ in facts}, dict(more)
    return [(name, better.get(name, text)) for name, text in facts] + [each for each in more if each[0] not in known]


def _answer_facts(plan: QueryPlan, fragments: Sequence[Fragment]) -> list[str]:
    at_once = "at once, in order within a group's batch" if not plan.is_ordered else "likewise"
    order = f"in this process by _ts, as the clock (the slowest stream less its slack) passes; on Spark {at_once}"
    facts = [("changes", _reading(plan)), ("order", order), ("schedule", _schedule(plan))]
    facts += [("state", "may grow for ever with its streams, as asked for (WITH UNBOUNDED STATE)")] * plan.may_grow
    return _facts([*facts, *_fragment_facts(fragments)], "  ")


def _reading(plan: QueryPlan) -> str:
    """What a reader of the changes has to know."""
    if plan.emits_once:
        return "rows are final, and stay: each comes once, when nothing to come can change it (EMIT FINAL)"
    if any(slot.source.is_final for slot in plan.slots):
        return "rows are final, and stay: each comes when its window is over (EMIT ON WINDOW CLOSE)"
    grouping = next((node.spec for node in plan.root.walk() if _is_replacing(node)), None)
    if isinstance(grouping, Grouping):
        if not grouping.keys:
            gone = "; a -1 row says that HAVING does not hold any more" if grouping.having else ""
            return f"the newest row replaces the older one{gone}"
        reason = "is gone, or that HAVING does not hold for it any more" if grouping.having else "is gone"
        return (
            "the newest row of a group replaces the older one; "
            f"a -1 row, with NULL for its aggregates, says that a group {reason}"
        )
    if plan.emit_changes:
        return "rows are counted: every one that leaves is written as a -1 row (EMIT CHANGES)"
    return "rows are counted: one leaves by itself at its _expires; a -1 row takes one back earlier"


def _is_replacing(node: Node) -> bool:
    return isinstance(node.spec, Grouping) and not node.spec.retracts


def _schedule(plan: QueryPlan) -> str:
    """How operators learn that tuples expire, why so, and where W-EXPIRE stands."""
    schedule = plan.expiry_schedule
    name = EXPIRY_SCHEDULES[schedule] + (f" ({schedule.upper()})" if schedule != "hybrid" else "")
    reason = REASONS[schedule]
    why = f"by hint: {reason}" if plan.is_expiry_hinted else f"chosen: {reason}; least work"
    places = sorted({_place(node, plan) for node in plan.root.walk() if isinstance(node.spec, ExpireSpec)})
    return f"{name}, {why}; W-EXPIRE stands {' and '.join(places) or 'nowhere'}"


def _place(expire: Node, plan: QueryPlan) -> str:
    if expire is plan.root and plan.expiry_schedule == "tpa":
        return "at the top, for EMIT CHANGES"
    node = expire.inputs[0]
    while isinstance(node.spec, SCAN) and node.inputs:
        node = node.inputs[0]
    if not isinstance(node.spec, InputSpec):
        return "above the topmost joins"
    return "after each scan" if plan.expiry_schedule == "nta" else "after scans that are not joined"


def _fragment_facts(fragments: Sequence[Fragment]) -> list[Fact]:
    if len(fragments) == 1:
        return [("on Spark", _spread(fragments[0], "the query"))]
    number_of_them = f"{len(fragments)} fragments, one after the other in every batch, with a shuffle between them"
    spreads = [(f"fragment {fragment.number}", _spread(fragment, "it")) for fragment in fragments]
    return [("on Spark", number_of_them), *spreads]


def _spread(fragment: Fragment, whole: str) -> str:
    """How tuples are spread; what is equal for several branches is said once."""
    told = [
        "partition groups by the hash of " + ", ".join(name for input in each.inputs for name in input.partition)
        if each.is_partitioned
        else f"one partition group: nothing in {whole} lets its tuples be spread"
        for each in fragment.branches
    ]
    return "; ".join(dict.fromkeys(told))


def _tree(node: Node, tell: Tell, names: SharedNames, first: str, rest: str) -> list[str]:
    """A node's lines: `first` leads its title, `rest` everything below it. What stands there already is only named."""
    if names.is_told(node):
        return [f"{first}{names.again(node)}"]
    title, facts = tell(node)
    lines = [first + names.beginning(node) + title, *_facts(facts, rest + ("│    " if node.inputs else "     "))]
    for idx, child in enumerate(node.inputs):
        is_last = idx == len(node.inputs) - 1
        lines += _tree(child, tell, names, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))
    return lines


def _facts(facts: list[Fact], indent: str) -> list[str]:
    return [f"{indent}{name:<10} {text}" for name, text in facts if text]
