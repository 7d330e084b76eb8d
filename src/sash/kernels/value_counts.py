"""Which events bring the first of equal values into a group, or take the last one out of it."""

from __future__ import annotations

from sash.kernels.arrays import Bools, Int64s
from sash.kernels.jit import kernel
from sash.kernels.running_sums import GroupRuns
from sash.kernels.treaps import Treaps, insert, n_distinct, remove


@kernel
def find_first_and_last(runs: GroupRuns, values: Int64s, treaps: Treaps, passes: Bools) -> None:
    """`passes` becomes True where the number of different values of the group changes; False where not valid."""
    (starts, groups, signs, valid), (roots, nodes, pool, words) = runs, treaps
    for run in range(groups.shape[0]):
        group = groups[run]
        for event in range(starts[run], starts[run + 1]):
            passes[event] = False
            if valid.shape[0] and not valid[event]:
                continue
            n_before = n_distinct(group, roots)
            if signs[event] > 0:
                insert(group, values[event], roots, nodes, pool, words)
            else:
                remove(group, values[event], roots, nodes, pool, words)
            passes[event] = n_distinct(group, roots) != n_before
