"""EXPLAIN in short: a plan that fits on a screen, a line for each operator.

Answer: location, celsius; a row leaves at its _expires, or earlier by a -1 row
On Spark: groups by the hash of A.location, B.location
Project  A.location, A.value AS celsius            keeps nothing
└─ WindowJoin  A.location = B.location, by hash    keeps A 1 minute, B 1 minute
   ├─ Stream temperature AS A  last 1 minute       keeps nothing
   └─ Stream humidity AS B  last 1 minute          keeps nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sash.operators.grouping import Grouping
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec
from sash.plan.explain.analysis import Measure, measure_text
from sash.plan.explain.meanings import made_by, meanings
from sash.plan.explain.shared_names import SharedNames
from sash.plan.explain.summarize import Summary, summarize
from sash.plan.fragment import BranchPlan, Fragment
from sash.plan.query_plan import QueryPlan

WIDTH = 120
"""Longer lines are cut where they say what an operator does; what it keeps is always there."""
COLUMN = 72
"""What is kept stands in one column, no further to the right than here unless a line is longer."""
LEAST = 24
"""So much of what an operator does is shown however deep it stands."""
ELLIPSIS = " …"


@dataclass(frozen=True, slots=True)
class _Row:
    """A line before it is put together."""

    branch: str
    summary: Summary
    measured: str

    @property
    def kept(self) -> str:
        return f"keeps {self.summary.keeps}"

    @property
    def left(self) -> str:
        """What stands before what is kept."""
        head = self.branch + self.summary.title
        room = WIDTH - len(head) - len(self.kept) - 4
        return f"{head}  {_cut(self.summary.does, max(room, LEAST))}".rstrip()


def short_text(plan: QueryPlan, measures: Mapping[int, Measure], fragments: Sequence[Fragment]) -> str:
    """The plan as a tree, the answer first; with measures, by the `id` of nodes, also what each operator has done."""
    columns, reading = ", ".join(name for name, _ in plan.outputs), _read_answer(plan)
    answer = f"Answer: {_cut(columns, WIDTH - len(reading) - len('Answer: ; '))}; {reading}"
    rows = list(_Rows(plan, measures, SharedNames(plan.root)).of(plan.root, "", ""))
    answer += "\nState: may grow for ever with its streams, as asked for" if plan.may_grow else ""
    return "\n".join([answer, _cut(f"On Spark: {_spread(plan, fragments)}", WIDTH), *_aligned(rows)]) + "\n"


def _read_answer(plan: QueryPlan) -> str:
    """What a reader of the changes has to know, in short."""
    if plan.emits_once or any(slot.source.is_final for slot in plan.slots):
        return "rows are final, and stay"
    replacing = [node.spec for node in plan.root.walk() if isinstance(node.spec, Grouping) and not node.spec.retracts]
    if replacing:
        return f"the newest row{' of a group' if replacing[0].keys else ''} replaces the older one"
    if plan.emit_changes:
        return "every row that leaves is written as a -1 row"
    return "a row leaves at its _expires, or earlier by a -1 row"


def _cut(text: str, width: int) -> str:
    """As many words as fit; that there are more is said by dots."""
    if len(text) <= width:
        return text
    room = width - len(ELLIPSIS)
    return (text[: room + 1].rpartition(" ")[0] or text[:room]) + ELLIPSIS


@dataclass(frozen=True, slots=True)
class _Rows:
    """The lines of a plan."""

    plan: QueryPlan
    measures: Mapping[int, Measure]
    names: SharedNames

    def of(self, node: Node, first: str, rest: str) -> Iterator[_Row]:
        """A node's line and those below it: `first` leads its own, `rest` all others. What stands there already is only
        named.
        """
        if self.names.is_told(node):
            yield _Row(first, Summary(self.names.again(node), ""), "")
            return
        measured = measure_text(self.measures[id(node)]) if id(node) in self.measures else ""
        yield _Row(first + self.names.beginning(node), summarize(node.spec, node, self.plan), measured)
        for idx, child in enumerate(node.inputs):
            is_last = idx == len(node.inputs) - 1
            yield from self.of(child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))


def _aligned(rows: list[_Row]) -> Iterator[str]:
    column = max((len(row.left) for row in rows if len(row.left) <= COLUMN), default=COLUMN)
    lines = [f"{row.left:<{column}}  {row.kept}" for row in rows]
    widest = max(map(len, lines))
    for line, row in zip(lines, rows):
        yield f"{line:<{widest}}  {row.measured}".rstrip()


def _spread(plan: QueryPlan, fragments: Sequence[Fragment]) -> str:
    """Where tuples are, from the streams to the answer; between two fragments there is a shuffle."""
    groups = [dict.fromkeys(_groups(branch, plan) for branch in fragment.branches) for fragment in fragments]
    return "; then ".join(" and ".join(each) for each in groups)


def _groups(branch: BranchPlan, plan: QueryPlan) -> str:
    if not branch.is_partitioned:
        return "one group"
    names = [_slot_meanings(each.slot, plan).get(name, name) for each in branch.inputs for name in each.partition]
    return f"groups by the hash of {', '.join(dict.fromkeys(names))}"


def _slot_meanings(slot: int, plan: QueryPlan) -> dict[str, str]:
    """What columns mean that come in at a slot: from an exchange or, else, from a stream."""
    for node in plan.root.walk():
        if isinstance(node.spec, ExchangeSpec) and node.spec.slot == slot:
            return meanings(node, plan)
    return made_by(plan.slots[slot].ingest.project)
