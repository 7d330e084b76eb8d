"""Many ordered multisets of integers, one per owner, as treaps in one pool of nodes (Seidel and Aragon 1996).

    roots[owner]   ROOT, N_DISTINCT            node 0 is no node: an owner that is all zero has no members
    nodes[node]    VALUE, LEFT, RIGHT, SIZE, MULTIPLICITY
    pool           FREE (a list of freed nodes, linked by LEFT), TOP (nodes from here on were never used)

A node comes before its children by the hash of its number, so that the depth is logarithmic whatever the order of the
insertions. SIZE counts the members below and in a node, with their multiplicities.

`words` is the pair (offsets, data). Without offsets values are ordered as integers; else value v stands for the bytes
`data[offsets[v]:offsets[v + 1]]`, different values for different bytes, and is ordered by them.

The caller has made room: no function checks whether `nodes` is used up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s, Words
from sash.kernels.hashing import mix64
from sash.kernels.jit import inlined_kernel, kernel

ROOT, N_DISTINCT = 0, 1
VALUE, LEFT, RIGHT, SIZE, MULTIPLICITY = 0, 1, 2, 3, 4
FREE, TOP = 0, 1
ROOT_WIDTH, NODE_WIDTH, POOL_WIDTH = 2, 5, 2


class Treaps(NamedTuple):
    """The multisets of all owners, for a kernel that changes them."""

    roots: Int64s
    nodes: Int64s
    pool: Int64s
    words: Words


@kernel
def compare(a: int, b: int, words: Words) -> int:
    """Below 0, 0 or above 0 as value `a` is less than, equal to or greater than `b`."""
    if a == b:
        return 0
    offsets, data = words
    if offsets.shape[0] == 0:
        return -1 if a < b else 1
    n_a, n_b = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
    for i in range(min(n_a, n_b)):
        byte_a, byte_b = data[offsets[a] + i], data[offsets[b] + i]
        if byte_a != byte_b:
            return -1 if byte_a < byte_b else 1
    return -1 if n_a < n_b else 1


@inlined_kernel
def size(owner: int, roots: Int64s, nodes: Int64s) -> int:
    """How many members there are, with multiplicity."""
    return nodes[roots[owner, ROOT], SIZE]


@inlined_kernel
def n_distinct(owner: int, roots: Int64s) -> int:
    """How many different members there are."""
    return roots[owner, N_DISTINCT]


@kernel
def multiplicity(owner: int, value: int, roots: Int64s, nodes: Int64s, words: Words) -> int:
    """How often a value is a member."""
    node = roots[owner, ROOT]
    while node:
        order = compare(value, nodes[node, VALUE], words)
        if order == 0:
            return nodes[node, MULTIPLICITY]
        node = nodes[node, LEFT if order < 0 else RIGHT]
    return 0


@kernel
def rank(owner: int, value: int, roots: Int64s, nodes: Int64s, words: Words) -> int:
    """How many members are less than a value."""
    n_less = 0
    node = roots[owner, ROOT]
    while node:
        order = compare(value, nodes[node, VALUE], words)
        if order >= 0:
            n_less += nodes[nodes[node, LEFT], SIZE]
        if order == 0:
            return n_less
        if order > 0:
            n_less += nodes[node, MULTIPLICITY]
        node = nodes[node, LEFT if order < 0 else RIGHT]
    return n_less


@kernel
def kth(owner: int, k: int, roots: Int64s, nodes: Int64s) -> int:
    """The member with `k` members before it, in order and with multiplicity; `k` is below the size."""
    node = roots[owner, ROOT]
    while True:
        n_before = nodes[nodes[node, LEFT], SIZE]
        if k < n_before:
            node = nodes[node, LEFT]
        elif k < n_before + nodes[node, MULTIPLICITY]:
            return nodes[node, VALUE]
        else:
            k -= n_before + nodes[node, MULTIPLICITY]
            node = nodes[node, RIGHT]


@kernel
def least(owner: int, roots: Int64s, nodes: Int64s) -> int:
    """The first member; there must be one."""
    node = roots[owner, ROOT]
    while nodes[node, LEFT]:
        node = nodes[node, LEFT]
    return nodes[node, VALUE]


@kernel
def greatest(owner: int, roots: Int64s, nodes: Int64s) -> int:
    """The last member; there must be one."""
    node = roots[owner, ROOT]
    while nodes[node, RIGHT]:
        node = nodes[node, RIGHT]
    return nodes[node, VALUE]


@kernel
def insert(owner: int, value: int, roots: Int64s, nodes: Int64s, pool: Int64s, words: Words) -> None:
    """Adds a member."""
    new = pool[FREE] if pool[FREE] else pool[TOP]
    parent, side, node = np.int64(0), LEFT, roots[owner, ROOT]
    # Where the new node will be: below `place` on `place_side`, above `below`, if the walk does not find the value.
    place, place_side, below = np.int64(0), LEFT, np.int64(0)
    n_less = 0
    # 1. Down to where the value is, or to a leaf. Every node passed has one member more below it, found or not.
    while node:
        if not below and _precedes(new, node):
            place, place_side, below = parent, side, node
        nodes[node, SIZE] += 1
        order = compare(value, nodes[node, VALUE], words)
        if order == 0:
            nodes[node, MULTIPLICITY] += 1
            return
        if below and order > 0:
            n_less += nodes[nodes[node, LEFT], SIZE] + nodes[node, MULTIPLICITY]
        parent, side = node, LEFT if order < 0 else RIGHT
        node = nodes[parent, side]
    # 2. The value is new. Its node hangs where the walk met the first node that comes after it by hash.
    if not below:
        place, place_side = parent, side
    _take_node(nodes, pool)
    roots[owner, N_DISTINCT] += 1
    _link(owner, place, place_side, new, roots, nodes)
    nodes[new, VALUE], nodes[new, MULTIPLICITY] = value, 1
    nodes[new, SIZE] = max(nodes[below, SIZE], 1)
    # 3. What was there goes to both sides of it.
    _split(below, new, n_less, nodes, words)


@kernel
def remove(owner: int, value: int, roots: Int64s, nodes: Int64s, pool: Int64s, words: Words) -> None:
    """Takes one member away, which must be there."""
    parent, side, node = np.int64(0), LEFT, roots[owner, ROOT]
    # 1. Every node on the way has one member less below it.
    while True:
        if node == 0:
            raise KeyError("a member is taken away that is not there")
        nodes[node, SIZE] -= 1
        order = compare(value, nodes[node, VALUE], words)
        if order == 0:
            break
        parent, side = node, LEFT if order < 0 else RIGHT
        node = nodes[parent, side]
    # 2. The last of equal members takes its node along.
    nodes[node, MULTIPLICITY] -= 1
    if nodes[node, MULTIPLICITY] == 0:
        roots[owner, N_DISTINCT] -= 1
        _merge(owner, parent, side, node, roots, nodes)
        nodes[node, LEFT] = pool[FREE]
        pool[FREE] = node


@inlined_kernel
def _precedes(a: int, b: int) -> bool:
    return mix64(a) > mix64(b)


@inlined_kernel
def _link(owner: int, parent: int, side: int, child: int, roots: Int64s, nodes: Int64s) -> None:
    if parent:
        nodes[parent, side] = child
    else:
        roots[owner, ROOT] = child


@inlined_kernel
def _take_node(nodes: Int64s, pool: Int64s) -> None:
    if pool[FREE]:
        pool[FREE] = nodes[pool[FREE], LEFT]
    else:
        pool[TOP] += 1


@kernel
def _split(node: int, new: int, n_less: int, nodes: Int64s, words: Words) -> None:
    """Hangs what is under `node` under `new`, on the side where it belongs; top down.

    `n_less` members under `node` are less than the new one. So every node on the way gets its new SIZE before what is
    below it is known. Their old SIZE counts the new member already.
    """
    value = nodes[new, VALUE]
    low, low_side, high, high_side = new, LEFT, new, RIGHT
    while node:
        # 1. A node that is less goes to the left of the new one with all that is left of it, and so on the other side.
        n_all = nodes[node, SIZE] - 1
        if compare(nodes[node, VALUE], value, words) < 0:
            nodes[low, low_side] = node
            low, low_side = node, RIGHT
            nodes[node, SIZE] = n_less
            n_less -= nodes[nodes[node, LEFT], SIZE] + nodes[node, MULTIPLICITY]
            node = nodes[node, RIGHT]
        else:
            nodes[high, high_side] = node
            high, high_side = node, LEFT
            nodes[node, SIZE] = n_all - n_less
            node = nodes[node, LEFT]
    # 2. The last ones on either side have nothing more below them.
    nodes[low, low_side] = 0
    nodes[high, high_side] = 0


@kernel
def _merge(owner: int, parent: int, side: int, node: int, roots: Int64s, nodes: Int64s) -> None:
    """Puts the two subtrees of `node` in its place; top down."""
    low, high = nodes[node, LEFT], nodes[node, RIGHT]
    while low and high:
        if _precedes(low, high):
            _link(owner, parent, side, low, roots, nodes)
            nodes[low, SIZE] += nodes[high, SIZE]
            parent, side, low = low, RIGHT, nodes[low, RIGHT]
        else:
            _link(owner, parent, side, high, roots, nodes)
            nodes[high, SIZE] += nodes[low, SIZE]
            parent, side, high = high, LEFT, nodes[high, LEFT]
    _link(owner, parent, side, low if low else high, roots, nodes)
