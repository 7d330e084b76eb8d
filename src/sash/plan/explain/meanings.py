"""What columns mean that travel under names of Sash's own, as the user would write it.

    _agg.10         sum(A.x + 10)
    _group.0        A.location // 100
    _key0.B.left    CAST(A.k AS DOUBLE)

A name means what was made under it nearest below: a GROUP BY of a subquery has a `_group.0`, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from sash.operators.expire import ExpireSpec
from sash.operators.grouping import Call, Grouping
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec
from sash.operators.over import OverSpec
from sash.operators.partial_aggregate import ROWS, PartialAggregateSpec, count_name, sum_name
from sash.operators.project import ProjectSpec
from sash.operators.row_frames import AGGREGATES, ALL_BEFORE, NEIGHBOURS, Frame, OverCall
from sash.plan.explain.wording import plain
from sash.plan.query_plan import QueryPlan
from sash.sql.bound_query import RANKED
from sash.sql.catalog import UNNESTED
from sash.sql.durations import format_duration
from sash.store.batch import ID_PREFIX


def meanings(node: Node, plan: QueryPlan) -> dict[str, str]:
    """By name, what the columns mean that a node puts out."""
    known: dict[Node, dict[str, str]] = {}
    for each in node.walk():
        below = {name: sql for child in each.inputs for name, sql in known[child].items()}
        known[each] = _meanings_of(each, below, plan)
    return known[node]


def _meanings_of(node: Node, below: dict[str, str], plan: QueryPlan) -> dict[str, str]:
    match node.spec:
        case InputSpec(slot=slot):
            return made_by(plan.slots[slot].ingest.project)
        case RelationSpec(alias=label):
            return made_by(next(each for each in plan.lookups if each.label == label).ingest.project)
        case ProjectSpec() as project:
            return {name: below[name] for name in project.passed if name in below} | made_by(project, below)
        case PartialAggregateSpec() as partial:
            return part_meanings(partial, below)
        case OverSpec() as over:
            return below | {call.name: over_text(call, below) for call in over.calls}
        case Grouping() as grouping:
            calls = call_meanings(grouping, below)
            keys = {key: below[key] for key in grouping.keys if key in below}
            return keys | (result_meanings(grouping, calls) or calls)
        case _:
            return below


def made_by(project: ProjectSpec, below: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a projection computes under names of Sash's own; what it computes for the user has a name already."""
    named = (ID_PREFIX, UNNESTED)
    made = [(name, sql) for name, sql in project.columns if name.startswith("_") and not name.startswith(named)]
    return {name: plain(sql, below) for name, sql in made}


def part_meanings(partial: PartialAggregateSpec, below: Mapping[str, str]) -> dict[str, str]:
    """The counts and sums to which every partition group adds its part."""
    known = {ROWS: "count(*)"}
    for name in partial.arguments:
        argument = below.get(name, name)
        known |= {count_name(name): f"count({argument})", sum_name(name): f"sum({argument})"}
    return known


def call_meanings(grouping: Grouping, below: Mapping[str, str]) -> dict[str, str]:
    """The aggregates of a grouping; a sum of parts means what they are parts of."""
    return {call.name: below[part] if (part := part_of(call)) else call_text(call, below) for call in grouping.calls}


def result_meanings(grouping: Grouping, calls: Mapping[str, str]) -> dict[str, str]:
    """What is put out in place of aggregates, of which it is made."""
    return {name: plain(sql, calls) for name, sql in grouping.results}


def part_of(call: Call) -> str | None:
    """What an aggregate adds up, if a PartialAggregate has made it."""
    return call.argument if call.argument and call.argument.startswith("_part.") else None


def call_text(call: Call, sql: Mapping[str, str]) -> str:
    """An aggregate as it was written; `sql` is what its argument may mean."""
    function, manner = call.function.removesuffix("_distinct"), call.manner
    argument = "*" if call.argument is None else sql.get(call.argument, call.argument)
    word = "DISTINCT " if function != call.function or manner.is_distinct else ""
    passes = f" FILTER (WHERE {sql.get(call.filter, call.filter)})" if call.filter else ""
    return f"{function}({word}{argument}{_further(call, sql)}){passes}"


def column_text(name: str, known: Mapping[str, str]) -> str:
    """A column as the user knows it."""
    inner = name.removeprefix(f"{RANKED}.")
    return known.get(name) or known.get(inner) or inner


def over_text(call: OverCall, known: Mapping[str, str]) -> str:
    """A function OVER rows, with its frame if it is another than all functions have."""
    arguments = [] if call.argument is None else [column_text(call.argument, known)]
    if call.function in NEIGHBOURS:
        arguments += [str(call.n_rows)] if call.n_rows != 1 or call.default else []
        arguments += [column_text(call.default, known)] if call.default else []
    if call.function in AGGREGATES and call.argument is None:
        arguments = ["*"]
    frame = f" {_frame_text(call.frame)}" if call.frame != ALL_BEFORE else ""
    return f"{call.function}({', '.join(arguments)}){frame}"


def _frame_text(frame: Frame) -> str:
    start, end = (_bound_text(frame, bound, is_end) for bound, is_end in ((frame.start, False), (frame.end, True)))
    return f"{'range' if frame.is_range else 'rows'} between {start} and {end}"


def _bound_text(frame: Frame, bound: int | None, is_end: bool) -> str:
    if bound is None:
        return f"unbounded {'following' if is_end else 'preceding'}"
    if bound == 0:
        return "current row"
    amount = format_duration(abs(bound)) if frame.is_time else str(abs(bound))
    return f"{amount} {'preceding' if bound < 0 else 'following'}"


def _further(call: Call, sql: Mapping[str, str]) -> str:
    """What stands in an aggregate behind its first argument."""
    manner, keys = call.manner, [sql.get(key, key) for key in call.keys]
    if manner.fraction is not None:
        text = f", {manner.fraction[0] / manner.fraction[1]!r}"
        return text + (" from the greatest on" if manner.is_descending else "")
    if call.function in ("arg_min", "arg_max"):
        return f", {keys[0]}"
    text = f", '{manner.separator}'" if call.function == "string_agg" else ""
    order = (
        f"{key}{' DESC' if each.is_descending else ''}{' NULLS FIRST' if each.nulls_first else ''}"
        for key, each in zip(keys, manner.keys, strict=True)
    )
    return f"{text} ORDER BY {', '.join(order)}" if keys else text


def made_below(node: Node) -> dict[str, str]:
    """The SQL of the columns that the projection below an operator makes for it."""
    return made_by_child(node.inputs[0])


def made_by_child(child: Node) -> dict[str, str]:
    """The SQL of the columns that a projection makes, if the node is one but for how its tuples travel."""
    while isinstance(child.spec, ExchangeSpec | ExpireSpec):
        child = child.inputs[0]
    if not isinstance(child.spec, ProjectSpec):
        return {}
    return {name: plain(sql) for name, sql in child.spec.columns if not name.startswith(ID_PREFIX)}
