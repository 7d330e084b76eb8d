"""What the short EXPLAIN says of each operator: one line, with what it does, and what it keeps for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch

from sash.cost.multiway_cost import PROBE
from sash.operators.asof_join import AsofJoinSpec
from sash.operators.close import CloseSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.distinct import DistinctSpec
from sash.operators.evaluator import quote
from sash.operators.expire import ExpireSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.grouping import Grouping
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.membership import MembershipSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec
from sash.operators.over import OverSpec
from sash.operators.partial_aggregate import PartialAggregateSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.sessions import SessionsSpec
from sash.operators.slide import SlideSpec
from sash.operators.top_k import TopKSpec
from sash.operators.union import UnionSpec
from sash.operators.unmet import UnmetSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.explain.aliases import aliases_in
from sash.plan.explain.describe_algorithm import short_choice
from sash.plan.explain.describe_flow import alias_given, asked_of_tables, relation_title, subquery_title
from sash.plan.explain.describe_join import arrival_stream, method_name
from sash.plan.explain.describe_multiway import conditions_text, key_texts, spans_us
from sash.plan.explain.describe_over import summary_text
from sash.plan.explain.describe_partners import LOOKUP_KINDS, ROW_RULES, TEST_RULES, asof_rule
from sash.plan.explain.describe_top_k import kept_text
from sash.plan.explain.meanings import call_meanings, meanings, part_meanings, part_of, result_meanings
from sash.plan.explain.wording import format_duration, format_window, is_last_word, plain
from sash.plan.query_plan import QueryPlan
from sash.store.batch import ID_PREFIX, OP

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Summary:
    """An operator in one line: `WindowJoin  A.k = B.k, by hash  keeps A 1 minute, B 1 minute`."""

    title: str
    does: str
    keeps: str = NOTHING


@singledispatch
def summarize(spec: object, node: Node, plan: QueryPlan) -> Summary:
    """The line of an operator."""
    raise AssertionError(f"EXPLAIN does not know {type(spec).__name__}")


@summarize.register
def _(spec: InputSpec, node: Node, plan: QueryPlan) -> Summary:
    slot = plan.slots[spec.slot]
    slack = f"up to {format_duration(slot.info.slack_us)} late" if slot.info.slack_us else ""
    window = format_window(slot.source.window).removeprefix("the ")
    where = _where(slot.ingest.project.predicate)
    return Summary(f"Stream {slot.source.name} AS {slot.source.alias}", _listed(window, slack, where))


@summarize.register
def _(spec: RelationSpec, node: Node, plan: QueryPlan) -> Summary:
    lookup = next(lookup for lookup in plan.lookups if lookup.label == spec.alias)
    asked = asked_of_tables(lookup)
    what = _listed(f"once: {asked}" if asked else "", _where(lookup.ingest.project.predicate))
    kept = "its versions, in memory" if lookup.source.is_arrival else "all of it, in memory"
    return Summary(relation_title(lookup), what, kept)


@summarize.register
def _(spec: ExchangeSpec, node: Node, plan: QueryPlan) -> Summary:
    known = meanings(node, plan)
    by = ", ".join(known.get(name, name) for name in spec.partition)
    return Summary("Exchange", f"on Spark: to groups by the hash of {by}" if by else "on Spark: to one group")


@summarize.register
def _(spec: ProjectSpec, node: Node, plan: QueryPlan) -> Summary:
    alias = alias_given(spec)
    names = [name for name, _ in spec.columns if not name.startswith(ID_PREFIX)]
    if alias is not None:
        return Summary(subquery_title(alias), ", ".join(name.removeprefix(f"{alias}.") for name in names))
    if is_last_word(spec):
        return Summary("Project", "what enters, for ever")
    known = meanings(node.inputs[0], plan)
    made = [_made(name, sql, plain(sql, known)) for name, sql in spec.columns if sql != quote(name) and name in names]
    return Summary("Project", _listed(", ".join(made or names), _where(spec.predicate, known)))


@summarize.register
def _(spec: SlideSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("Slide", f"every {format_duration(spec.slide_us)}")


@summarize.register
def _(spec: CloseSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("Close", "when windows are over")


@summarize.register
def _(spec: ReorderSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary(
        "Reorder", f"by time{' and content' if spec.is_total else ''}", "rows until every stream is past them"
    )


@summarize.register
def _(spec: SessionsSpec, node: Node, plan: QueryPlan) -> Summary:
    per = f" for each {', '.join(spec.partition_by)}" if spec.partition_by else ""
    gap = format_duration(spec.gap_us)
    return Summary("Sessions", f"by pauses of {gap}{per}", f"rows until a pause of {gap}")


@summarize.register
def _(spec: CountWindowSpec, node: Node, plan: QueryPlan) -> Summary:
    per = f" for each {', '.join(spec.partition_by)}" if spec.partition_by else ""
    return Summary("CountWindow", f"last {spec.n_rows} rows{per}", f"{2 * spec.n_rows} rows{per}")


@summarize.register
def _(spec: WindowJoinSpec, node: Node, plan: QueryPlan) -> Summary:
    sides = [" ⋈ ".join(aliases_in(child.spec, child, plan)) for child in node.inputs]
    lives = [f"{name} {_life(life_us)}" for name, life_us in zip(sides, spec.windows_us, strict=True)]
    return Summary("WindowJoin", f"{_matched(spec, node, plan)}, by {method_name(spec.method)}", ", ".join(lives))


@summarize.register
def _(spec: MultiwayJoinSpec, node: Node, plan: QueryPlan) -> Summary:
    known = _meanings_below(node, plan)
    keys = [[tuple(known.get(name, name) for name in names) for names in key] for key in spec.keys]
    does = " and ".join(text for key in keys for text in key_texts(key)) or "every combination"
    conditions = f", where {text}" if (text := conditions_text(spec.conditions)) else ""
    inside = f"({spec.inner})" if spec.inner else ""
    hinted = f"by {spec.algorithm}{inside}" if spec.algorithm != PROBE else ""
    method = f", {how}" if (how := hinted or short_choice(spec.choice)) else ""
    lives = [f"{name} {_life(us)}" for name, us in zip(spec.names, spans_us(spec), strict=True)]
    return Summary("MultiwayJoin", f"{does}{method}{conditions}", ", ".join(lives))


@summarize.register
def _(spec: LookupJoinSpec, node: Node, plan: QueryPlan) -> Summary:
    kept = LOOKUP_KINDS.get(spec.kind)
    return Summary("LookupJoin", _matched(spec, node, plan) + (f"; {kept}" if kept else ""))


@summarize.register
def _(spec: DistinctSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("Distinct", ", ".join(spec.columns), _rows(spec.window_us))


@summarize.register
def _(spec: GroupBySpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("GroupBy", _grouped(spec, node, plan), _rows(spec.window_us))


@summarize.register
def _(spec: RunningGroupBySpec, node: Node, plan: QueryPlan) -> Summary:
    kept = "a row for each group, for ever" if spec.keys else "one row"
    return Summary("RunningGroupBy", _grouped(spec, node, plan), kept)


@summarize.register
def _(spec: PartialAggregateSpec, node: Node, plan: QueryPlan) -> Summary:
    made = part_meanings(spec, meanings(node.inputs[0], plan))
    return Summary("PartialAggregate", f"in each group: {', '.join(made.values())}", _rows(spec.window_us))


@summarize.register
def _(spec: MembershipSpec, node: Node, plan: QueryPlan) -> Summary:
    left, right = (meanings(child, plan) for child in node.inputs)
    pairs = [
        f"{left.get(one, one)} = {right.get(other, other)}"
        for one, other in zip(spec.left_keys, spec.right_keys, strict=True)
    ]
    does = ", ".join(spec.columns) if spec.nulls_match else " and ".join(pairs)
    lives = [f"{side} {_life(life)}" for side, life in zip(("left", "right"), spec.windows_us, strict=True)]
    return Summary((ROW_RULES if spec.nulls_match else TEST_RULES)[spec.rule], does, ", ".join(lives))


@summarize.register
def _(spec: AsofJoinSpec, node: Node, plan: QueryPlan) -> Summary:
    lives = [f"{side} {_life(life)}" for side, life in zip(("left", "right"), spec.windows_us, strict=True)]
    kept = "; every row of the left side" if spec.keeps_all else ""
    left, right = (meanings(child, plan) for child in node.inputs)
    return Summary("AsofJoin", asof_rule(spec, left, right) + kept, ", ".join(lives))


@summarize.register
def _(spec: UnmetSpec, node: Node, plan: QueryPlan) -> Summary:
    left, right = (meanings(child, plan) for child in node.inputs)
    pairs = [
        f"{left.get(one, one)} = {right.get(other, other)}"
        for one, other in zip(spec.left_keys, spec.right_keys, strict=True)
    ]
    kept = f"left {_life(spec.windows_us[0])}, right {_life(sum(spec.windows_us))}"
    return Summary("Unmet", " and ".join(pairs), kept)


@summarize.register
def _(spec: TopKSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("TopK", kept_text(spec, meanings(node, plan)), _rows(spec.window_us))


@summarize.register
def _(spec: OverSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("Over", summary_text(spec, meanings(node.inputs[0], plan)), _rows(spec.window_us))


@summarize.register
def _(spec: UnionSpec, node: Node, plan: QueryPlan) -> Summary:
    return Summary("Union", ", ".join(spec.columns))


@summarize.register
def _(spec: ExpireSpec, node: Node, plan: QueryPlan) -> Summary:
    kept = "rows until they expire" if spec.window_us is None else _rows(spec.window_us)
    return Summary("Expire", "a -1 for every row that leaves by itself", kept)


def _grouped(spec: Grouping, node: Node, plan: QueryPlan) -> str:
    """`by A.s having sum(A.x) > 3: sum(A.x), count(*)`."""
    known = meanings(node.inputs[0], plan)
    calls = call_meanings(spec, known)
    groups = f"by {', '.join(known.get(key, key) for key in spec.keys)}" if spec.keys else "all rows"
    if any(map(part_of, spec.calls)):
        groups = "all groups"
    having = f" having {plain(spec.having, known | calls | result_meanings(spec, calls))}" if spec.having else ""
    return f"{groups}{having}" + (f": {', '.join(calls.values())}" if calls else "")


def _matched(spec: WindowJoinSpec | LookupJoinSpec, node: Node, plan: QueryPlan) -> str:
    """What a pair must satisfy."""
    known = _meanings_below(node, plan)
    keys = [f"{known.get(left, left)} = {known.get(right, right)}" for left, right in spec.keys]
    residual = [plain(spec.residual, known)] if spec.residual else []
    period = [_period(spec)] if isinstance(spec, LookupJoinSpec) and spec.period else []
    return " and ".join([*keys, *period, *residual]) or "every pair"


def _period(spec: LookupJoinSpec) -> str:
    stream = arrival_stream(spec.period)
    return f"as of the arrival of {stream}" if stream else str(spec.period)


def _meanings_below(node: Node, plan: QueryPlan) -> dict[str, str]:
    return {name: sql for child in node.inputs for name, sql in meanings(child, plan).items()}


def _made(name: str, sql: str, text: str) -> str:
    """A column that a projection makes: `A.location`, `A.value AS celsius`, and by its name alone if it is NULL in a
    row that says that a group is gone.
    """
    if quote(OP) in sql:
        return name
    return text if name.startswith("_") or text == name or text.endswith(f".{name}") else f"{text} AS {name}"


def _life(us: int | None) -> str:
    """For how long tuples are kept."""
    if us is None:
        return "until taken back"
    return "this instant" if us == 1 else format_duration(us)


def _rows(life_us: int | None) -> str:
    """What is kept of the rows that come from below."""
    return "rows until taken back" if life_us is None else f"{_life(life_us)} of rows"


def _where(condition: str | None, known: Mapping[str, str] | None = None) -> str:
    return f"where {plain(condition, known)}" if condition else ""


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
