"""What EXPLAIN says of where tuples come from, and of operators that pass them on one by one."""

from __future__ import annotations

from sash.operators.close import CloseSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.evaluator import quote
from sash.operators.expire import ExpireSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.sessions import SessionsSpec
from sash.operators.slide import SlideSpec
from sash.operators.union import UnionSpec
from sash.plan.explain.description import Description, describe
from sash.plan.explain.state_bounds import taken_back
from sash.plan.explain.table_meaning import relation_meaning, relation_state
from sash.plan.explain.wording import computed, format_duration, format_window, is_last_word, plain
from sash.plan.fragment import find_fragments
from sash.plan.query_plan import SIGNED, Lookup, QueryPlan, Slot
from sash.sql.bound_query import RANKED
from sash.sql.catalog import JOINED, UNNESTED, RelationInfo
from sash.store.batch import ID_PREFIX
from sash.store.block_window import CUTS


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
def _(spec: SessionsSpec, node: Node, plan: QueryPlan) -> Description:
    gap, per = format_duration(spec.gap_us), f" per {', '.join(spec.partition_by)}" if spec.partition_by else ""
    emission = "a tuple as it comes, and a -1 for it when its session is over"
    if spec.is_final:
        emission = "a tuple when its session is over, for that instant"
    elif spec.has_versions:
        emission = "a tuple as it comes; when a session becomes longer, a -1 for each of its tuples, and it again"
    return "Sessions", [
        ("window", f"tuples{per} that follow each other by less than {gap}"),
        ("state", f"twice the tuples of sessions that are not over; one without a pause of {gap} is kept whole"),
        ("emission", emission),
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
        ("state", f"{bound}, and up to 1/{CUTS} more{taken_back(node.inputs[0])}"),
        ("emission", "when the clock, the slowest stream less its slack, reaches _expires"),
    ]


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
