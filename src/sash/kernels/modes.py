"""The most frequent values of groups, before and after each run of events; of equally frequent ones the least.

Beside the tree of a group's values stands, for each node, how often the most frequent value of its subtree occurs. An
insertion or removal changes subtrees only along the path to the value: from its end upwards they are looked at anew.
"""

from __future__ import annotations

from sash.kernels.arrays import Int64s
from sash.kernels.jit import kernel
from sash.kernels.running_sums import BeforeAfter, GroupRuns
from sash.kernels.treaps import LEFT, MULTIPLICITY, RIGHT, ROOT, VALUE, Treaps, compare, insert, remove


@kernel
def follow_mode(
    runs: GroupRuns, values: Int64s, treaps: Treaps, most: Int64s, path: Int64s, results: Int64s, out: BeforeAfter
) -> None:
    """Writes the mode of the group for each side of each run. `path` is room for as many nodes as there are."""
    (starts, groups, signs, valid), (roots, nodes, pool, words), (out_values, out_valid) = runs, treaps, out
    for run in range(groups.shape[0]):
        group = groups[run]
        out_values[0, run, 0], out_valid[0, run] = results[group, 0], roots[group, ROOT] > 0
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            if signs[event] > 0:
                insert(group, values[event], roots, nodes, pool, words)
            else:
                remove(group, values[event], roots, nodes, pool, words)
            _refresh(group, values[event], treaps, most, path)
        if roots[group, ROOT]:
            results[group, 0] = _mode(group, roots, nodes, most)
        out_values[1, run, 0], out_valid[1, run] = results[group, 0], roots[group, ROOT] > 0


@kernel
def _refresh(group: int, value: int, treaps: Treaps, most: Int64s, path: Int64s) -> None:
    """Corrects `most` after the value has come or gone."""
    roots, nodes, _, words = treaps
    # 1. Down to the value, or to where it was: a removal has merged two subtrees along this path.
    n_path = 0
    node = roots[group, ROOT]
    while node:
        path[n_path] = node
        n_path += 1
        order = compare(value, nodes[node, VALUE], words)
        if order == 0:
            break
        node = nodes[node, LEFT if order < 0 else RIGHT]
    # 2. If it is there, its insertion may have split what is below it: the inner edges of both sides are new.
    if node:
        for side, inward in ((LEFT, RIGHT), (RIGHT, LEFT)):
            first = n_path
            below = nodes[node, side]
            while below:
                path[n_path] = below
                n_path += 1
                below = nodes[below, inward]
            while n_path > first:
                n_path -= 1
                _look(path[n_path], nodes, most)
    # 3. Upwards.
    while n_path:
        n_path -= 1
        _look(path[n_path], nodes, most)


@kernel
def _look(node: int, nodes: Int64s, most: Int64s) -> None:
    below = max(most[nodes[node, LEFT]], most[nodes[node, RIGHT]])
    most[node] = max(nodes[node, MULTIPLICITY], below)


@kernel
def _mode(group: int, roots: Int64s, nodes: Int64s, most: Int64s) -> int:
    node = roots[group, ROOT]
    n_times = most[node]
    while True:
        if most[nodes[node, LEFT]] == n_times:
            node = nodes[node, LEFT]
        elif nodes[node, MULTIPLICITY] == n_times:
            return nodes[node, VALUE]
        else:
            node = nodes[node, RIGHT]
