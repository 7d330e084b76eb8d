"""FROM as joins of many streams: which inputs one operator joins, by which keys, and how far apart in time.

    A, B, C by k                 one MultiwayJoin
    A, B by k, C, D by j         MultiwayJoin of A and B; what it puts out goes through an exchange and is an input of a
                                 MultiwayJoin with C and D. With windows of pairs it carries the times of A and B along.

A relation is looked up by the input it has all its conditions with, before that is joined; else after the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from sash.cost.choose_join import NO_HINT
from sash.errors import PlanError
from sash.operators.combination_checks import Condition
from sash.operators.evaluator import quote
from sash.plan.column_names import columns_of
from sash.plan.distribution import LEFT, choose_partitioning, equal_columns, own_columns
from sash.plan.flow import Flow
from sash.plan.hints import Hints
from sash.plan.logical import Join, Relational, Scan, Select, scans_of
from sash.sql.expressions import to_duckdb
from sash.sql.join_trees import INNER
from sash.sql.window_graph import FAR
from sash.sql.window_kinds import TimeWindow

TIME_PREFIX = "_time."
"""Of columns with the time of a stream's tuple in what it was joined to."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How much newer a tuple of one stream may be than one of another, by alias."""

    aliases: tuple[str, ...]
    us: tuple[tuple[int, ...], ...]

    def between(self, older: Sequence[str], newer: Sequence[str]) -> int:
        """How much newer than a combination of some streams, which is as old as its newest tuple, another may be."""
        return max(min(self._of(one, other) for one in older) for other in newer)

    def condition(self, one: str, other: str) -> str:
        """The same of two tuples, as SQL over the columns with their times."""
        names = [quote(TIME_PREFIX + alias) for alias in (one, other)]
        return f"{names[1]} - {names[0]} BETWEEN {-self._of(other, one)} AND {self._of(one, other)}"

    def _of(self, older: str, newer: str) -> int:
        return self.us[self.aliases.index(older)][self.aliases.index(newer)]


@dataclass(slots=True)
class JoinInput:
    """An input of a join of many: a stream, perhaps with relations looked up, or streams that are joined already."""

    flow: Flow
    streams: tuple[str, ...]
    """Their aliases."""


@dataclass(slots=True)
class JoinDraft:
    """What is joined in one operator: its inputs so far, and what connects them."""

    inputs: list[JoinInput]
    joins: list[Join] = field(default_factory=list[Join])
    """What brought in each input but the first."""
    keys: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    conditions: list[tuple[str, set[str]]] = field(default_factory=list[tuple[str, set[str]]])
    """SQL, and the columns that it reads."""
    known: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Columns that are equal in the inputs already, by joins below."""

    def add(self, input: JoinInput, join: Join) -> None:
        self.inputs.append(input)
        self.joins.append(join)
        self.keys += join.keys
        self.conditions += [(to_duckdb(conjunct), columns_of(conjunct)) for conjunct in join.conjuncts]

    def key_columns(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The keys of the inputs: columns that are equal in all of them that have one, by input.

        Keys that the same inputs have are one key of several columns.
        """
        merged: dict[tuple[bool, ...], list[list[str]]] = {}
        is_known = {name: number for number, members in enumerate(equal_columns(self.known)) for name in members}
        for members in equal_columns([*self.known, *self.keys]):
            own = [sorted(members.intersection(input.flow.columns)) for input in self.inputs]
            if sum(map(bool, own)) < 2:
                continue
            for first, *others in filter(None, own):
                # Two columns of one input that must be equal: the first stands for both.
                for name in others:
                    if first not in is_known or is_known[first] != is_known.get(name):
                        self.conditions.append((f"{quote(name)} = {quote(first)}", {name}))
            columns = merged.setdefault(tuple(map(bool, own)), [[] for _ in self.inputs])
            for names, found in zip(columns, own, strict=True):
                names += found[:1]
        return tuple(tuple(map(tuple, columns)) for columns in merged.values())

    @property
    def has_joins(self) -> bool:
        """Whether an input is itself a join."""
        return any(len(input.streams) > 1 for input in self.inputs)

    def stream_reach_us(self, reach: Reach) -> tuple[tuple[int, ...], ...]:
        """How much newer a tuple of each stream of any input may be than one of each input."""
        streams = [alias for input in self.inputs for alias in input.streams]
        return tuple(
            tuple(0 if alias in input.streams else reach.between(input.streams, (alias,)) for alias in streams)
            for input in self.inputs
        )

    def conditions_read(self) -> Iterator[Condition]:
        """The conditions with the inputs that they read."""
        for sql, columns in self.conditions:
            readers = [number for number, input in enumerate(self.inputs) if columns.intersection(input.flow.columns)]
            yield Condition(sql, tuple(readers))


def joins_many(query: Select, hints: Hints) -> bool:
    """Whether the streams of a SELECT are joined many at a time.

    That needs windows of time on all of them, and operators that look at the clock themselves. Two inputs have a join
    of their own, unless a hint asks for this one; and a hint for that one gets it.
    """
    if has_pair_bounds(query):
        return True
    streams = [scan for scan in scans_of(query.input) if scan.source.is_stream]
    if hints.multiway:
        for scan in streams if len(streams) > 1 else ():
            _require_time_window(scan, hints.multiway.algorithm, query)
        return len(streams) > 1
    is_free = hints.method == NO_HINT and hints.expiry_schedule != "nta"
    return is_free and len(streams) > 2 and all(map(_is_plain, streams)) and _most_inputs(query) > 2


def has_pair_bounds(query: Select) -> bool:
    """Whether windows of pairs, or the conditions of an interval join, say how far apart tuples may be."""
    return query.bound.window_graph is not None or query.bound.interval_graph is not None


def reach_of(query: Select) -> Reach:
    """From the graph of pairs, or from the window of each stream: the older tuple must still be in its own."""
    graph = query.bound.window_graph or query.bound.interval_graph
    if graph is not None:
        return Reach(graph.aliases, graph.reach_us)
    windows = {scan.source.alias: scan.source.window for scan in scans_of(query.input) if scan.source.is_stream}
    lengths = [window.length_us if isinstance(window, TimeWindow) else FAR for window in windows.values()]
    us = tuple(tuple(0 if i == j else own - 1 for j in range(len(lengths))) for i, own in enumerate(lengths))
    return Reach(tuple(windows), us)


def joins_in(node: Relational) -> tuple[Scan, list[Join]]:
    """The first item of FROM, and the joins with the others in their order."""
    joins: list[Join] = []
    while isinstance(node, Join):
        joins.insert(0, node)
        node = node.left
    return node, joins


def cut_points(first: Scan, joins: Sequence[Join], exchanges: Mapping[tuple[str, int], tuple[str, ...]]) -> set[int]:
    """Before which joins what is joined so far is put out: where it changes groups, where a key is computed of it all,
    and where streams are joined by a relation that is looked up by several of them.
    """
    owners = dict.fromkeys(own_columns(first), first.source.alias)
    found: set[int] = set()
    for number, join in enumerate(joins):
        alias = join.right.source.alias
        if join.right.source.is_stream:
            if (alias, LEFT) in exchanges or join.computed:
                found.add(number)
                owners = dict.fromkeys([*owners, *(name for name, _ in join.computed)], alias)
            owners |= dict.fromkeys(own_columns(join.right), alias)
            continue
        if join.kind != INNER:
            continue
        readers = {owners.get(name) for name in read_by_lookup(join)}
        if len(readers) == 1 and None not in readers:
            owners |= dict.fromkeys([*own_columns(join.right), *(name for name, _ in join.computed)], readers.pop())
        elif is_read_later(join.right, joins[number + 1 :]):
            found.add(number)
            owners = dict.fromkeys([*owners, *own_columns(join.right), *(name for name, _ in join.computed)], alias)
    return found


def read_by_lookup(join: Join) -> set[str]:
    """What the join with a relation reads of the other side."""
    read = {left for left, _ in join.keys} - {name for name, _ in join.computed}
    read = read.union(*(columns_of(expr) for _, expr in join.computed), *map(columns_of, join.conjuncts))
    return read - set(own_columns(join.right))


def is_read_later(scan: Scan, joins: Sequence[Join]) -> bool:
    """Whether what follows is joined by what a relation says."""
    own = set(own_columns(scan))
    for join in joins:
        read = {left for left, _ in join.keys}.union(*map(columns_of, join.conjuncts))
        if own & read.union(*(columns_of(expr) for _, expr in join.computed)):
            return True
    return False


def _most_inputs(query: Select) -> int:
    """How many inputs can be joined in one place, at most."""
    first, joins = joins_in(query.input)
    cut_at = cut_points(first, joins, choose_partitioning(query.input).exchanges)
    most = n_inputs = 1
    for number, join in enumerate(joins):
        if join.right.source.is_stream:
            n_inputs = 2 if number in cut_at else n_inputs + 1
            most = max(most, n_inputs)
    return most


def time_conditions(joining: JoinDraft, reach: Reach) -> Iterator[tuple[str, set[str]]]:
    """What is left to check of the times of streams that were joined at different places."""
    for first, one in enumerate(joining.inputs):
        for other in joining.inputs[first + 1 :]:
            if len(one.streams) + len(other.streams) > 2:
                for pair in product(one.streams, other.streams):
                    yield reach.condition(*pair), {TIME_PREFIX + alias for alias in pair}


def _require_time_window(scan: Scan, algorithm: str, query: Select) -> None:
    if not _is_plain(scan):
        raise PlanError(
            f"the hint `{algorithm}` needs a window of time without `SLIDE` on every stream, and `{scan.source.title}` "
            "has none; give it one such as [RANGE 1 HOUR], or leave the hint out",
            query.bound.text,
            scan.source.span,
        )


def _is_plain(scan: Scan) -> bool:
    window = scan.source.window
    return scan.body is None and isinstance(window, TimeWindow) and not window.slide_us
