"""Where a plan is cut into fragments, and which columns decide the partition group of a tuple in each.

Tuples that can meet must be in one group. Two join columns that must be equal are in one class; a class with a column
of every input of a fragment, over windows that do not look across groups, partitions that fragment:

    A ⋈ B on k, ⋈ C on k          one fragment, by k
    A ⋈ B on k, ⋈ C on j          A ⋈ B by k; its tuples go through an exchange and meet C by j
    A ⋈ B on k, ⋈ C on v < w      A ⋈ B by k; its tuples meet C in one group

A class holds in every answer, so it may come from a join above the fragment: what it keeps apart would not survive that
join. Of all ways to cut, the one is chosen that runs the fewest joins in one group, and of these one with the fewest
fragments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sash.plan.logical import Join, Relational, Scan, scans_of
from sash.sql.join_trees import INNER
from sash.sql.window_kinds import RowsWindow, SessionWindow
from sash.store.keys import is_hashable

Columns = tuple[str, ...]
LEFT, RIGHT = 0, 1
BELOW = ""
"""Stands for an alias where what is meant is the result of the joins below a fragment."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Columns whose hash is the group, in the order in which they are hashed; none where all tuples meet in one."""

    streams: dict[str, Columns]
    """Of each stream's rows, by alias."""
    exchanges: dict[tuple[str, int], Columns]
    """Of what an exchange brings into the join with a stream, by the stream's alias and the side."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A way to run streams that follow each other."""

    cost: tuple[int, int]
    """How many joins run in one group, and how many fragments there are."""
    partitioning: Partitioning

    def then(self, next: _Choice) -> _Choice:
        streams = self.partitioning.streams | next.partitioning.streams
        exchanges = self.partitioning.exchanges | next.partitioning.exchanges
        cost = self.cost[0] + next.cost[0], self.cost[1] + next.cost[1]
        return _Choice(cost, Partitioning(streams, exchanges))


def choose_partitioning(node: Relational) -> Partitioning:
    """The cheapest way to cut a plan, found for its first stream, then for the first two, and so on."""
    chain = _Chain(node)
    best = [_Choice((0, 0), Partitioning({}, {}))]
    for last in range(len(chain.streams)):
        choices = [best[first].then(chain.fragment(first, last)) for first in range(last, -1, -1)]
        best.append(min(choices, key=lambda choice: choice.cost))
    return best[-1].partitioning


class _Chain:
    """The streams of a plan in the order in which they are joined."""

    def __init__(self, node: Relational):
        self.streams = [scan for scan in scans_of(node) if scan.source.is_stream]
        self._joins = {join.right.source.alias: join for join in _joins_of(node)}
        self._classes = _classes(node)

    def fragment(self, first: int, last: int) -> _Choice:
        """Streams that run together; an exchange brings in the result of those before them."""
        streams = self.streams[first : last + 1]
        if first == last == 0:
            return self._lone_fragment(streams[0])
        below = self._columns_below(streams[0]) if first else None
        found = [cover for members in self._classes if (cover := _cover(members, below, streams))]
        if not found:
            aliases = [*([BELOW] if first else []), *(scan.source.alias for scan in streams)]
            return _Choice((len(aliases) - 1, 1), _place(dict.fromkeys(aliases, ()), streams, frozenset()))
        cut = min((cut for _, cut in found), key=len)
        chosen = [columns for columns, needed in found if needed <= cut]
        columns = {alias: tuple(one[alias] for one in chosen) for alias in chosen[0]}
        return _Choice((0, 1 + len(cut)), _place(columns, streams, cut))

    def _lone_fragment(self, scan: Scan) -> _Choice:
        """Alone in one group, a stream that others follow would only cost an exchange: dearer than any other way."""
        columns = own_partition(scan)
        return _Choice((0 if columns else len(self.streams), 1), Partitioning({scan.source.alias: columns}, {}))

    def _columns_below(self, scan: Scan) -> set[str]:
        """What the tuples have that meet a stream."""
        join = self._joins[scan.source.alias]
        computed = [name for one in (join, *_joins_of(join.left)) for name, _ in one.computed]
        return {*computed, *(name for one in scans_of(join.left) for name in own_columns(one))}


def _cover(
    members: set[str], below: set[str] | None, streams: list[Scan]
) -> tuple[dict[str, str], frozenset[str]] | None:
    """By alias, the columns of a class, if it has one of every input; and the streams whose windows it does not suit.

    Such a window may run in a fragment of its own, if its rows can be spread there in another way. The first stream of
    a plan is not among them: without it the others are a fragment to look at, too.
    """
    columns = {} if below is None else {BELOW: min(members & below, default="")}
    unsuited: set[str] = set()
    for scan in streams:
        own = sorted(members.intersection(own_columns(scan)), key=lambda name: (not _may_partition(scan, name), name))
        columns[scan.source.alias] = own[0] if own else ""
        if own and not _may_partition(scan, own[0]):
            if not own_partition(scan) or (below is None and scan is streams[0]):
                return None
            unsuited.add(scan.source.alias)
    return (columns, frozenset(unsuited)) if all(columns.values()) else None


def _place(columns: Mapping[str, Columns], streams: list[Scan], cut: frozenset[str]) -> Partitioning:
    """Which columns spread what: the rows of a stream, or the tuples of an exchange."""
    exchanges = {(alias, RIGHT): columns[alias] for alias in sorted(cut)}
    if BELOW in columns:
        exchanges[streams[0].source.alias, LEFT] = columns[BELOW]
    by_alias = {scan.source.alias: scan for scan in streams}
    rows = {alias: own_partition(scan) if alias in cut else columns[alias] for alias, scan in by_alias.items()}
    return Partitioning(rows, exchanges)


def _joins_of(node: Relational) -> Iterator[Join]:
    """The outermost first."""
    while isinstance(node, Join):
        yield node
        node = node.left


def _classes(node: Relational) -> list[set[str]]:
    """Sets of key columns that are equal in every answer, in order of their least member.

    Beside a row without a partner they are not.
    """
    return equal_columns([pair for join in _joins_of(node) if join.kind == INNER for pair in join.keys])


def equal_columns(pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
    """Sets of columns that are equal if those of each pair are, in order of their least member."""
    classes: list[set[str]] = []
    for pair in pairs:
        merged = set(pair)
        for other in [known for known in classes if known & merged]:
            classes.remove(other)
            merged |= other
        classes.append(merged)
    return sorted(classes, key=min)


def own_columns(scan: Scan) -> list[str]:
    """What is read of an item of FROM or computed from it."""
    return [f"{scan.source.alias}.{name}" for name in scan.columns] + [name for name, _ in scan.computed]


def _may_partition(scan: Scan, name: str) -> bool:
    window = scan.source.window
    return not isinstance(window, RowsWindow | SessionWindow) or name in {
        f"{scan.source.alias}.{column}" for column in window.partition_by
    }


def own_partition(scan: Scan) -> Columns:
    """A stream by itself may be spread as its window allows: by anything, unless the window goes by all rows."""
    window, schema = scan.source.window, scan.source.schema
    columns = window.partition_by if isinstance(window, RowsWindow | SessionWindow) else scan.columns
    shown = [name for name in columns if name not in scan.source.hidden]  # others are not known before it is spread
    return tuple(f"{scan.source.alias}.{name}" for name in shown if is_hashable(schema.field(name).type))
