"""EXPLAIN: a plan as text, for someone who has not read the code. The same plan always gives the same text."""

from __future__ import annotations

import re
from functools import singledispatch

from sash.operators.count_window import CountWindowSpec
from sash.operators.expire import ExpireSpec
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.pipeline import ExchangeSpec, InputSpec, Node, RelationSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.fragment import Fragment
from sash.plan.physical import ALGORITHMS, SIGNED, Plan, Slot
from sash.sql.query import CountWindow, SinceWindow, TimeWindow, Window
from sash.store.batch import ID_PREFIX
from sash.store.window_buffer import CUTS

UNITS = (
    ("week", 604_800_000_000),
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


def explain_plan(plan: Plan) -> str:
    """The plan as a tree, the answer first, with what each operator does, keeps and waits for."""
    lines = [f"Answer: {', '.join(name for name, _ in plan.outputs)}", *_answer_facts(plan)]
    lines += _tree(plan.root, plan, "", "")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def format_duration(us: int) -> str:
    """A length of time in the largest units that say it exactly."""
    parts = []
    for unit, size in UNITS:
        count, us = divmod(us, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 seconds"


def _answer_facts(plan: Plan) -> list[str]:
    leaving = (
        "every row that leaves is written as a -1 row (EMIT CHANGES)"
        if plan.emit_changes
        else "a row leaves by itself at its _expires; a -1 row takes it back earlier"
    )
    at_once = "at once, in order within a group's batch" if not plan.is_ordered else "likewise"
    order = f"in this process by _ts, as the clock (the slowest stream less its slack) passes; on Spark {at_once}"
    return _facts([("changes", leaving), ("order", order), *_fragment_facts(plan)], "  ")


def _fragment_facts(plan: Plan) -> list[tuple[str, str]]:
    if len(plan.fragments) == 1:
        return [("on Spark", _spread(plan.fragments[0], "the query"))]
    number = f"{len(plan.fragments)} fragments, one after the other in every batch, with a shuffle between them"
    spreads = [(f"fragment {fragment.number}", _spread(fragment, "it")) for fragment in plan.fragments]
    return [("on Spark", number), *spreads]


def _spread(fragment: Fragment, whole: str) -> str:
    if not fragment.is_partitioned:
        return f"one partition group: nothing in {whole} lets its tuples be spread"
    return "partition groups by the hash of " + ", ".join(name for input in fragment.inputs for name in input.partition)


def _tree(node: Node, plan: Plan, first: str, rest: str) -> list[str]:
    """A node's lines: `first` leads its title, `rest` everything below it."""
    title, facts = _describe(node.spec, node, plan)
    lines = [first + title, *_facts(facts, rest + ("│    " if node.inputs else "     "))]
    for idx, child in enumerate(node.inputs):
        is_last = idx == len(node.inputs) - 1
        lines += _tree(child, plan, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))
    return lines


def _facts(facts: list[tuple[str, str]], indent: str) -> list[str]:
    return [f"{indent}{name:<10} {text}" for name, text in facts if text]


@singledispatch
def _describe(spec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    raise AssertionError(f"EXPLAIN does not know {type(spec).__name__}")


@_describe.register
def _(spec: InputSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    slot = plan.slots[spec.slot]
    info = slot.info
    project = slot.ingest.project
    tie = f", ties by {', '.join(info.tie)}" if info.tie else ""
    slack = f"rows up to {format_duration(info.slack_us)} late" if info.slack_us else "rows in order"
    return f"Stream {slot.source.name} AS {slot.source.alias}", [
        ("time", f"{info.time}, {slack}; later ones go to the late output{tie}"),
        ("window", _format_window(slot.source.window)),
        ("columns", _column_list(slot)),
        ("filter", _plain(project.predicate)),
        ("computes", _computed(project)),
    ]


@_describe.register
def _(spec: ExchangeSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    source = next(fragment for fragment in plan.fragments if fragment.feeds == spec.slot)
    target, _ = plan.reader(spec.slot)
    where = f"the group of the hash of {', '.join(spec.partition)}" if spec.partition else "its one group"
    return "Exchange", [
        ("does", f"on Spark: sends tuples from fragment {source.number} to fragment {target.number}, to {where}"),
        ("state", "none"),
    ]


@_describe.register
def _(spec: RelationSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    lookup = next(lookup for lookup in plan.lookups if lookup.source.alias == spec.alias)
    project = lookup.ingest.project
    columns = [name for name in project.passed if name not in SIGNED]
    return f"Relation {lookup.source.name} AS {spec.alias}", [
        ("columns", ", ".join(columns)),
        ("filter", _plain(project.predicate)),
        ("computes", _computed(project)),
        ("state", "the whole relation, in memory"),
    ]


@_describe.register
def _(spec: ProjectSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    return "Project", [("columns", _computed(spec)), ("filter", _plain(spec.predicate)), ("state", "none")]


@_describe.register
def _(spec: ReorderSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    ties = "; rows of one instant by their content" if spec.is_total else ""
    return "Reorder", [
        ("does", f"puts tuples in order of time{ties}"),
        ("state", "the batches with tuples newer than the slowest stream, less its slack"),
        ("emission", "when no older tuple can still come"),
    ]


@_describe.register
def _(spec: CountWindowSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    per = f" per {', '.join(spec.partition_by)}" if spec.partition_by else ""
    each = f" for each distinct {', '.join(spec.partition_by)}" if spec.partition_by else ""
    return "CountWindow", [
        ("window", f"last {spec.n_rows} rows{per}"),
        ("state", f"at most {2 * spec.n_rows} rows{each}, half of them already left"),
        ("emission", "a tuple as it comes, and a -1 for the tuple that it pushes out"),
    ]


@_describe.register
def _(spec: WindowJoinSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    name = ALGORITHMS[spec.algorithm]
    how = "circular buckets by key" if spec.algorithm == "whj" else "every tuple of the other window is looked at"
    bounds = [_state_bound(side, life) for side, life in zip(("left", "right"), spec.windows_us, strict=True)]
    return "WindowJoin", [
        ("algorithm", f"{name} ({spec.algorithm.upper()}): {how}"),
        ("keys", ", ".join(f"{left} = {right}" for left, right in spec.keys) or "none"),
        ("residual", _plain(spec.residual) or "none"),
        ("state", "; ".join(bounds)),
        ("emission", "a pair as soon as its second tuple is there"),
    ]


@_describe.register
def _(spec: LookupJoinSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    return "LookupJoin", [
        ("algorithm", "hash index over the relation" if spec.keys else "every row of the relation is looked at"),
        ("keys", ", ".join(f"{left} = {right}" for left, right in spec.keys) or "none"),
        ("residual", _plain(spec.residual) or "none"),
        ("state", "none beside the relation"),
        ("emission", "at once"),
    ]


@_describe.register
def _(spec: RunningGroupBySpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    calls = [f"{call.function}({call.argument or '*'}) AS {call.name}" for call in spec.calls]
    rows = "as many rows as there are groups since the window's begin" if spec.keys else "one row"
    return "RunningGroupBy", [
        ("keys", ", ".join(spec.keys) or "none: one group"),
        ("computes", ", ".join(calls)),
        ("having", _plain(spec.having)),
        ("state", f"{rows}, for ever: what the aggregates have come to, and no tuple"),
        ("emission", "a group's row when it changes; what happens at one instant changes it once"),
    ]


@_describe.register
def _(spec: ExpireSpec, node: Node, plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    life = "of the answer" if spec.window_us is None else f"of the answer's last {format_duration(spec.window_us)}"
    return "Expire", [
        ("does", "writes a -1 row for every row that leaves by itself"),
        ("state", f"the rows {life}, and up to 1/{CUTS} more"),
        ("emission", "when the clock, the slowest stream less its slack, reaches _expires"),
    ]


def _state_bound(side: str, life_us: int | None) -> str:
    if life_us is None:
        return f"{side}: the tuples in its window of rows, and as many that have left"
    return f"{side}: the tuples of {format_duration(life_us)} before the clock, and up to 1/{CUTS} more"


def _format_window(window: Window | None) -> str:
    match window:
        case TimeWindow(length_us):
            return "the present instant" if length_us == 1 else f"the last {format_duration(length_us)}"
        case CountWindow(n_rows, by):
            return f"the last {n_rows} rows" + (f" for each {', '.join(by)}" if by else "")
        case SinceWindow():
            return "everything since a fixed time"
    return "everything"


def _column_list(slot: Slot) -> str:
    prefix = f"{slot.source.alias}."
    passed = [name for name in slot.ingest.project.passed if name.startswith(prefix)]
    return ", ".join(name.removeprefix(prefix) for name in passed)


def _computed(project: ProjectSpec) -> str:
    items = [(name, _plain(sql)) for name, sql in project.columns if not name.startswith(ID_PREFIX)]
    return ", ".join(f"{sql} AS {name}" if sql != name else name for name, sql in items)


def _plain(sql: str | None) -> str:
    """SQL as the user would write it: `A.value` for the quoted name under which it travels, no outer brackets."""
    text = re.sub(r'"([A-Za-z_][\w.]*)"', r"\1", sql or "")
    while _is_bracketed(text):
        text = text[1:-1]
    return text


def _is_bracketed(sql: str) -> bool:
    """Whether the bracket that opens the text closes at its very end; brackets in strings do not count."""
    depth = 0
    for idx, char in enumerate(re.sub(r"'[^']*'", lambda string: "'" * len(string[0]), sql)):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return char == ")" and idx == len(sql) - 1
    return False
