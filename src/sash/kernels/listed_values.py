"""All values of groups in their order, before and after each run of events."""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Int64s
from sash.kernels.jit import kernel
from sash.kernels.running_sums import GroupRuns
from sash.kernels.treaps import LEFT, MULTIPLICITY, RIGHT, ROOT, VALUE, Treaps, insert, remove, size


class Listed(NamedTuple):
    """Lists one behind the other: of each run that before it and that after it; `ends` has one item more, a 0 first."""

    members: Int64s
    ends: Int64s


@kernel
def follow_list(
    first_run: int, runs: GroupRuns, values: Int64s, is_distinct: bool, treaps: Treaps, path: Int64s, out: Listed
) -> int:
    """Lists from `first_run` on, and returns the first run for which there is no room.

    Of equal members there is one if `is_distinct`. `path` is room for as many nodes as there are.
    """
    (starts, groups, signs, valid), (roots, nodes, pool, words) = runs, treaps
    for run in range(first_run, groups.shape[0]):
        group = groups[run]
        n_most = 2 * size(group, roots, nodes) + starts[run + 1] - starts[run]
        if out.ends[2 * run] + n_most > out.members.shape[0]:
            return run
        out.ends[2 * run + 1] = _write(group, is_distinct, roots, nodes, path, out.ends[2 * run], out.members)
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            if signs[event] > 0:
                insert(group, values[event], roots, nodes, pool, words)
            else:
                remove(group, values[event], roots, nodes, pool, words)
        out.ends[2 * run + 2] = _write(group, is_distinct, roots, nodes, path, out.ends[2 * run + 1], out.members)
    return groups.shape[0]


@kernel
def _write(group: int, is_distinct: bool, roots: Int64s, nodes: Int64s, path: Int64s, at: int, out: Int64s) -> int:
    """Writes the members of a group from `at` on, and returns where they end."""
    n_path = 0
    node = roots[group, ROOT]
    while node or n_path:
        while node:
            path[n_path] = node
            n_path += 1
            node = nodes[node, LEFT]
        n_path -= 1
        node = path[n_path]
        for _ in range(1 if is_distinct else nodes[node, MULTIPLICITY]):
            out[at] = nodes[node, VALUE]
            at += 1
        node = nodes[node, RIGHT]
    return at
