"""Which columns may decide the partition group of a tuple.

Tuples that can meet must be in one group. Two join columns that must be equal are in one class; a class with a column
of every stream, over windows that do not look across groups, partitions the whole plan. Without such a class the
plan runs in one group.
"""

from __future__ import annotations

from sash.operators.keys import is_hashable
from sash.plan.logical import Join, Relational, Scan, scans_of
from sash.sql.query import CountWindow


def choose_partition(node: Relational) -> dict[str, tuple[str, ...]]:
    """By alias of each stream, its columns whose hash is the partition; empty if there is no such choice."""
    streams = [scan for scan in scans_of(node) if scan.source.is_stream]
    owners = {name: scan for scan in streams for name in _own_columns(scan)}
    chosen: dict[str, list[str]] = {scan.source.alias: [] for scan in streams}
    for members in _classes(node):
        by_alias = {owners[name].source.alias: name for name in sorted(members) if name in owners}
        if all(_may_partition(scan, by_alias.get(scan.source.alias)) for scan in streams):
            for alias, name in by_alias.items():
                chosen[alias].append(name)
    if len(streams) == 1:
        return _lone_partition(streams[0])
    return {alias: tuple(names) for alias, names in chosen.items() if names}


def _classes(node: Relational) -> list[set[str]]:
    """Sets of key columns that are equal in every answer, in order of their least member."""
    classes: list[set[str]] = []
    while isinstance(node, Join):
        for pair in node.keys:
            merged = set(pair)
            for other in [known for known in classes if known & merged]:
                classes.remove(other)
                merged |= other
            classes.append(merged)
        node = node.left
    return sorted(classes, key=min)


def _own_columns(scan: Scan) -> list[str]:
    return [f"{scan.source.alias}.{name}" for name in scan.columns] + [name for name, _ in scan.computed]


def _may_partition(scan: Scan, name: str | None) -> bool:
    if name is None:
        return False
    window = scan.source.window
    if not isinstance(window, CountWindow):
        return True
    return name in {f"{scan.source.alias}.{column}" for column in window.partition_by}


def _lone_partition(scan: Scan) -> dict[str, tuple[str, ...]]:
    """A single stream may be spread as its window allows: by anything, unless the window counts rows."""
    window, schema = scan.source.window, scan.source.info.schema
    columns = window.partition_by if isinstance(window, CountWindow) else scan.columns
    spread = tuple(f"{scan.source.alias}.{name}" for name in columns if is_hashable(schema.field(name).type))
    return {scan.source.alias: spread} if spread else {}
