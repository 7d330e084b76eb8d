"""What EXPLAIN says of each operator: its title, and facts about what it does, keeps and waits for."""

from __future__ import annotations

from functools import singledispatch

from sash.operators.asof_join import AsofJoinSpec
from sash.operators.close import CloseSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.distinct import DistinctSpec
from sash.operators.evaluator import quote
from sash.operators.expire import ExpireSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.membership import MembershipSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.operator_tree import ExchangeSpec, InputSpec, Node, RelationSpec
from sash.operators.partial_aggregate import PartialAggregateSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.slide import SlideSpec
from sash.operators.top_k import TopKSpec
from sash.operators.union import UnionSpec
from sash.operators.unmet import UnmetSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.explain.describe_join import lookup_facts, method_facts
from sash.plan.explain.describe_multiway import multiway_facts
from sash.plan.explain.describe_top_k import kept_text, ties_text
from sash.plan.explain.meanings import call_text, meanings
from sash.plan.explain.table_meaning import relation_meaning, relation_state
from sash.plan.explain.wording import computed, format_duration, format_window, is_last_word, plain
from sash.plan.fragment import find_fragments
from sash.plan.query_plan import SIGNED, Lookup, QueryPlan, Slot
from sash.sql.bound_query import JOINED, RANKED, UNNESTED, RelationInfo
from sash.store.batch import ID_PREFIX
from sash.store.block_window import CUTS
from sash.store.trace import MIN_STRUCK_OUT

Fact = tuple[str, str]
EVERYTHING = "all tuples, for ever"
Description = tuple[str, list[Fact]]

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


@singledispatch
def describe(spec: object, node: Node, plan: QueryPlan) -> Description:
    """The title of an operator, and its facts; those without a text are left out."""
    raise AssertionError(f"EXPLAIN does not know {type(spec).__name__}")


@describe.register
def _(spec: InputSpec, node: Node, plan: QueryPlan) -> Description:
    slot = plan.slots[spec.slot]
    info = slot.info
    project = slot.ingest.project
    tie = f", ties by {', '.join(info.tie)}" if info.tie else ""
    slack = f"rows up to {format_duration(info.slack_us)} late" if info.slack_us else "rows in order"
    return f"Stream {slot.source.name} AS {slot.source.alias}", [
        ("time", f"{info.time}, {slack}; later ones go to the late output{tie}"),
        ("window", format_window(slot.source.window)),
        ("columns", _column_list(slot)),
        ("filter", plain(project.predicate)),
        ("computes", computed(project)),
    ]


@describe.register
def _(spec: ExchangeSpec, node: Node, plan: QueryPlan) -> Description:
    source, target = find_fragments(plan.root, node)
    where = f"the group of the hash of {', '.join(spec.partition)}" if spec.partition else "its one group"
    return "Exchange", [
        ("does", f"on Spark: sends tuples from fragment {source} to fragment {target}, to {where}"),
        ("state", "none"),
    ]


def relation_title(lookup: Lookup) -> str:
    is_table = not asked_of_tables(lookup)
    name = f"{lookup.source.name} AS {lookup.source.alias}" if is_table else subquery_title(lookup.source.alias)
    return f"Relation {name}" if is_table else name


def asked_of_tables(lookup: Lookup) -> str:
    """What the rows of a relation are the answer of, if it is no table of the catalog."""
    info = lookup.source.info
    return info.query.sql if isinstance(info, RelationInfo) and info.query else ""


@describe.register
def _(spec: RelationSpec, node: Node, plan: QueryPlan) -> Description:
    lookup = next(lookup for lookup in plan.lookups if lookup.label == spec.alias)
    project = lookup.ingest.project
    hidden = {f"{lookup.source.alias}.{name}" for name in lookup.source.hidden}
    columns = [name for name in project.passed if name not in SIGNED and name not in hidden]
    return relation_title(lookup), [
        ("asks", asked_of_tables(lookup)),
        ("meaning", relation_meaning(lookup)),
        ("columns", ", ".join(columns)),
        ("filter", plain(project.predicate)),
        ("computes", computed(project)),
        ("state", relation_state(lookup)),
    ]


@describe.register
def _(spec: ProjectSpec, node: Node, plan: QueryPlan) -> Description:
    alias = alias_given(spec)
    if alias is not None:
        columns = [name.removeprefix(f"{alias}.") for name, _ in spec.columns if not name.startswith(ID_PREFIX)]
        return subquery_title(alias), [("columns", ", ".join(columns)), ("state", "none")]
    if is_last_word(spec):
        return "Project", [("filter", "what enters; it stays for ever"), ("state", "none")]
    return "Project", [("columns", computed(spec)), ("filter", plain(spec.predicate)), ("state", "none")]


@describe.register
def _(spec: SlideSpec, node: Node, plan: QueryPlan) -> Description:
    slide = format_duration(spec.slide_us)
    return "Slide", [
        ("does", f"lets tuples enter and leave at multiples of {slide} only, each at the next one"),
        ("state", "none"),
    ]


@describe.register
def _(spec: CloseSpec, node: Node, plan: QueryPlan) -> Description:
    return "Close", [("does", "lets tuples enter when their window is over, for that instant"), ("state", "none")]


@describe.register
def _(spec: ReorderSpec, node: Node, plan: QueryPlan) -> Description:
    ties = "; rows of one instant by their content" if spec.is_total else ""
    return "Reorder", [
        ("does", f"puts tuples in order of time{ties}"),
        ("state", "the batches with tuples newer than the slowest stream, less its slack"),
        ("emission", "when no older tuple can still come"),
    ]


@describe.register
def _(spec: CountWindowSpec, node: Node, plan: QueryPlan) -> Description:
    per = f" per {', '.join(spec.partition_by)}" if spec.partition_by else ""
    each = f" for each distinct {', '.join(spec.partition_by)}" if spec.partition_by else ""
    return "CountWindow", [
        ("window", f"last {spec.n_rows} rows{per}"),
        ("state", f"at most {2 * spec.n_rows} rows{each}, half of them already left"),
        ("emission", "a tuple as it comes, and a -1 for the tuple that it pushes out"),
    ]


@describe.register
def _(spec: MultiwayJoinSpec, node: Node, plan: QueryPlan) -> Description:
    return "MultiwayJoin", multiway_facts(spec, plan.graphs)


@describe.register
def _(spec: WindowJoinSpec, node: Node, plan: QueryPlan) -> Description:
    bounds = [_buffer_bound(*each) for each in zip(("left", "right"), spec.windows_us, node.inputs, strict=True)]
    return "WindowJoin", [
        *method_facts(spec.method, spec.choice, spec.has_identities),
        ("keys", ", ".join(f"{left} = {right}" for left, right in spec.keys) or "none"),
        ("residual", plain(spec.residual) or "none"),
        ("expiry", _expiry(spec.windows_us, spec.expires_by_negatives)),
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
def _(spec: DistinctSpec, node: Node, plan: QueryPlan) -> Description:
    held = _trace_bound(spec.window_us, node)
    return "Distinct", [
        ("columns", ", ".join(spec.columns)),
        ("expiry", _expiry((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"{held}; and, within the same bound, the times of those that are shown"),
        ("emission", "the first of equal tuples; when it leaves, the one that expires last of those left"),
    ]


@describe.register
def _(spec: GroupBySpec, node: Node, plan: QueryPlan) -> Description:
    sql = _made_below(node)
    calls = {call.name: call_text(call, sql) for call in spec.calls}
    replaced = "and a -1 for the older one" if spec.retracts else "which replaces the older one"
    gone = "; a -1 when the group is gone" if spec.keys and not spec.retracts else ""
    return "GroupBy", [
        ("groups", ", ".join(sql.get(key, key) for key in spec.keys) or "one, which is always there"),
        ("aggregates", ", ".join(f"{call} AS {name}" for name, call in calls.items()) or "none"),
        ("having", plain(spec.having, sql | calls)),
        ("expiry", _expiry((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {_trace_bound(spec.window_us, node)}"),
        ("emission", f"at every instant at which a group's row changes: the new row, {replaced}{gone}"),
    ]


@describe.register
def _(spec: RunningGroupBySpec, node: Node, plan: QueryPlan) -> Description:
    sql = _made_below(node)
    calls = {call.name: call_text(call, sql) for call in spec.calls}
    rows = "as many rows as there are groups since the window's begin" if spec.keys else "one row"
    return "RunningGroupBy", [
        ("groups", ", ".join(sql.get(key, key) for key in spec.keys) or "one, which is always there"),
        ("aggregates", ", ".join(f"{call} AS {name}" for name, call in calls.items()) or "none"),
        ("having", plain(spec.having)),
        ("state", f"{rows}, for ever: what the aggregates have come to, and no tuple"),
        ("emission", "a group's row when it changes; what happens at one instant changes it once"),
    ]


@describe.register
def _(spec: PartialAggregateSpec, node: Node, plan: QueryPlan) -> Description:
    return "PartialAggregate", [
        ("does", "adds up, in each partition group, what comes and goes at an instant"),
        ("sums", ", ".join(_made_below(node).get(name, name) for name in spec.arguments) or "none: rows are counted"),
        ("expiry", _expiry((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {_trace_bound(spec.window_us, node)}"),
        ("emission", "one row for every instant at which something comes or goes"),
    ]


@describe.register
def _(spec: MembershipSpec, node: Node, plan: QueryPlan) -> Description:
    title = (ROW_RULES if spec.nulls_match else TEST_RULES)[spec.rule]
    sql = _made_below(node)
    pairs = [f"{sql.get(left, left)} = {right}" for left, right in zip(spec.left_keys, spec.right_keys, strict=True)]
    bounds = [_trace_bound(life, child) for life, child in zip(spec.windows_us, node.inputs, strict=True)]
    return title, [
        ("passes", PASSES[spec.rule] + ("; NULL is equal to NULL" if spec.nulls_match else "; NULL equals nothing")),
        ("keys", ", ".join(spec.columns if spec.nulls_match else pairs) or "none"),
        ("expiry", _expiry(spec.windows_us, spec.expires_by_negatives)),
        ("state", f"left: {bounds[0]}; right: of the keys, {bounds[1]}"),
        ("emission", "a tuple as soon as it passes, and a -1 for one that passes no more"),
    ]


@describe.register
def _(spec: AsofJoinSpec, node: Node, plan: QueryPlan) -> Description:
    bounds = [_trace_bound(life, child) for life, child in zip(spec.windows_us, node.inputs, strict=True)]
    return "AsofJoin", [
        ("finds", asof_rule(spec, *map(_made_by, node.inputs))),
        ("keeps", "every row of the left side: one without a partner has NULLs" if spec.keeps_all else ""),
        ("ties", f"between partners of one time, the greatest row by {', '.join(spec.deciding)}"),
        ("expiry", _expiry(spec.windows_us, spec.expires_by_negatives)),
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
    sql = _made_below(node)
    pairs = [f"{sql.get(left, left)} = {right}" for left, right in zip(spec.left_keys, spec.right_keys, strict=True)]
    bounds = [_trace_bound(life, child) for life, child in zip((spec.windows_us[0], sum(spec.windows_us)), node.inputs)]
    return "Unmet", [
        ("passes", "left tuples that no right one with the same key has met, each when it leaves, for ever"),
        ("keys", ", ".join(pairs) or "none"),
        ("state", f"left: {bounds[0]}; right: of the keys, {bounds[1]}"),
        ("emission", "when the clock, the slowest stream less its slack, reaches the end of a tuple's window"),
    ]


@describe.register
def _(spec: TopKSpec, node: Node, plan: QueryPlan) -> Description:
    known = meanings(node, plan)
    return "TopK", [
        ("keeps", kept_text(spec, known)),
        ("ties", f"by {ties_text(spec, known)}"),
        ("expiry", _expiry((spec.window_us,), spec.expires_by_negatives)),
        ("state", f"of its columns, {_trace_bound(spec.window_us, node)}"),
        ("emission", "a row as soon as it is among the first, and a -1 for one that is so no more"),
    ]


@describe.register
def _(spec: UnionSpec, node: Node, plan: QueryPlan) -> Description:
    return "Union", [("columns", ", ".join(spec.columns)), ("state", "none"), ("emission", "at once")]


@describe.register
def _(spec: ExpireSpec, node: Node, plan: QueryPlan) -> Description:
    what = "answer's rows" if node is plan.root else "tuples"
    bound = f"the {what}" if spec.window_us is None else f"the {what} of the last {format_duration(spec.window_us)}"
    return "Expire", [
        ("does", "W-EXPIRE: writes a -1 tuple for every tuple that leaves by itself"),
        ("state", f"{bound}, and up to 1/{CUTS} more{_taken_back(node)}"),
        ("emission", "when the clock, the slowest stream less its slack, reaches _expires"),
    ]


def _expiry(lives_us: tuple[int | None, ...], expires_by_negatives: bool) -> str:
    """How an operator learns that a tuple has left its window."""
    if all(life_us is None for life_us in lives_us):
        return "none: a tuple leaves when a -1 tuple takes it back"
    return (
        "told by the -1 tuples of W-EXPIRE below"
        if expires_by_negatives
        else "by the clock, the slowest stream less its slack"
    )


def _buffer_bound(side: str, life_us: int | None, below: Node) -> str:
    if life_us is None:
        if not _lets_go(below):
            return f"{side}: {EVERYTHING}"
        return f"{side}: the tuples in its window of rows, and as many that have left"
    return f"{side}: the tuples of {format_duration(life_us)} before the clock, and up to 1/{CUTS} more"


def _trace_bound(life_us: int | None, below: Node) -> str:
    """What a trace holds of the tuples that come from below."""
    if life_us is None and not _lets_go(below):
        return EVERYTHING
    if life_us is None:
        return f"the tuples that are there, and as many that were taken back, and {MIN_STRUCK_OUT}"
    return f"the tuples of {format_duration(life_us)} before the clock, and up to 1/{CUTS} more{_taken_back(below)}"


def _taken_back(below: Node) -> str:
    """What a trace holds beside the tuples that count, if some may be taken back: they wait to be struck out."""
    is_taken_back = any(
        isinstance(node.spec, CountWindowSpec | GroupBySpec | MembershipSpec | AsofJoinSpec | TopKSpec)
        for node in _feeding(below)
    )
    return f", and as many that were taken back, and {MIN_STRUCK_OUT}" if is_taken_back else ""


def _lets_go(below: Node) -> bool:
    """Whether tuples that do not expire are taken back."""
    taking_back = CountWindowSpec | GroupBySpec | RunningGroupBySpec | MembershipSpec | AsofJoinSpec | DistinctSpec
    return any(isinstance(node.spec, taking_back) for node in below.walk())


def _feeding(node: Node) -> list[Node]:
    return [each for child in node.inputs for each in child.walk()]


def _made_below(node: Node) -> dict[str, str]:
    """The SQL of the columns that the projection below an operator makes for it."""
    return _made_by(node.inputs[0])


def _made_by(child: Node) -> dict[str, str]:
    while isinstance(child.spec, ExchangeSpec | ExpireSpec):
        child = child.inputs[0]
    if not isinstance(child.spec, ProjectSpec):
        return {}
    return {name: plain(sql) for name, sql in child.spec.columns if not name.startswith(ID_PREFIX)}


def subquery_title(alias: str) -> str:
    """What a subquery is called, or a part of a query which is one for Sash alone: of FROM with an outer join, or all
    that rows are chosen from.
    """
    if alias == RANKED:
        return "Rows"
    if alias.startswith(UNNESTED):
        return f"Subquery{alias.removeprefix(UNNESTED)}"
    return f"Joined {alias.removeprefix(JOINED).strip()}" if alias.startswith(JOINED) else f"Subquery AS {alias}"


def alias_given(spec: ProjectSpec) -> str | None:
    """The alias of a subquery, if a projection does nothing but give its columns the names that they have outside."""
    columns = [(name, sql) for name, sql in spec.columns if not name.startswith(ID_PREFIX)]
    aliases = {name.split(".", 1)[0] for name, _ in columns}
    if spec.passed != SIGNED or len(aliases) != 1 or spec.predicate:
        return None
    (alias,) = aliases
    return alias if all(quote(name.removeprefix(f"{alias}.")) == sql for name, sql in columns) else None


def _column_list(slot: Slot) -> str:
    prefix = f"{slot.source.alias}."
    passed = [name for name in slot.ingest.project.passed if name.startswith(prefix)]
    names = (name.removeprefix(prefix) for name in passed)
    return ", ".join(name for name in names if name not in slot.source.hidden)
