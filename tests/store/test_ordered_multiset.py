"""Ordered multisets against sorted lists, with integers and with byte strings."""

from __future__ import annotations

import math
from bisect import bisect_left
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from sash.kernels import treaps as kernel
from sash.store.directory import Directory
from sash.store.ordered_multiset import NO_WORDS, OrderedMultiset, Words
from sash.store.vector import Memory, dump, load

N_OWNERS = 3
STRINGS = [b"b", b"", b"a\xff", b"ab", b"a", b"a\x00", b"\x80", b"abc"]
STRING_WORDS = np.cumsum([0, *map(len, STRINGS)]), np.frombuffer(b"".join(STRINGS), np.uint8)

Step = tuple[int, int, int]
"""Owner, value, and which member to remove instead if there is one (-1: none)."""


@njit
def insert_all(owner, values, roots, nodes, pool, words):
    for value in values:
        kernel.insert(owner, value, roots, nodes, pool, words)


@njit
def remove_all(owner, values, roots, nodes, pool, words):
    for value in values:
        kernel.remove(owner, value, roots, nodes, pool, words)


def change(multiset: OrderedMultiset, owner: int, value: int, sign: int, words: Words) -> None:
    multiset.reserve(N_OWNERS, 1)
    (insert_all if sign > 0 else remove_all)(owner, np.array([value]), *multiset.treaps(words))


def check(multiset: OrderedMultiset, owner: int, held: list[int], words: Words, key) -> None:
    """Compares everything that can be asked."""
    roots, nodes, _, _ = multiset.treaps()
    assert kernel.size(owner, roots, nodes) == len(held)
    assert kernel.n_distinct(owner, roots) == len(set(held))
    assert [kernel.kth(owner, k, roots, nodes) for k in range(len(held))] == held
    if held:
        assert (kernel.least(owner, roots, nodes), kernel.greatest(owner, roots, nodes)) == (held[0], held[-1])
    for value in {*held, 0, 3}:
        assert kernel.multiplicity(owner, value, roots, nodes, words) == held.count(value)
        assert kernel.rank(owner, value, roots, nodes, words) == bisect_left(held, key(value), key=key)


def follow(steps: list[Step], words: Words, key) -> None:
    multiset, held = OrderedMultiset(Memory()), [[] for _ in range(N_OWNERS)]
    for owner, value, leaving in steps:
        if held[owner] and leaving >= 0:
            change(multiset, owner, held[owner].pop(leaving % len(held[owner])), -1, words)
        else:
            held[owner] = sorted([*held[owner], value], key=key)
            change(multiset, owner, value, 1, words)
        check(multiset, owner, held[owner], words, key)


def steps(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.integers(0, N_OWNERS - 1), values, st.integers(-2, 5)), max_size=60)


@pytest.mark.slow
@given(steps(st.integers(-(2**63), 2**63 - 1) | st.integers(-4, 4)))
def test_integers(steps: list[Step]):
    follow(steps, NO_WORDS, lambda value: value)


@pytest.mark.slow
@given(steps(st.integers(0, len(STRINGS) - 1)))
def test_byte_strings(steps: list[Step]):
    follow(steps, STRING_WORDS, lambda value: STRINGS[value])


def depth(nodes: np.ndarray, node: int) -> int:
    deepest, level = 0, [node] if node else []
    while level:
        deepest += 1
        level = [child for each in level for child in nodes[each, [kernel.LEFT, kernel.RIGHT]].tolist() if child]
    return deepest


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, -1])
def test_the_depth_stays_logarithmic_when_values_come_in_order(step: int):
    n_values = 100_000
    multiset = OrderedMultiset(Memory())
    multiset.reserve(1, n_values)
    insert_all(0, np.arange(n_values)[::step], *multiset.treaps())
    roots, nodes, _, _ = multiset.treaps()
    assert depth(nodes, roots[0, kernel.ROOT]) < 4 * math.log2(n_values)
    assert [kernel.kth(0, k, roots, nodes) for k in (0, 777, n_values - 1)] == [0, 777, n_values - 1]


@pytest.mark.slow
def test_nodes_are_used_again():
    multiset = OrderedMultiset(Memory())
    for _ in range(5):
        multiset.reserve(1, 100)
        insert_all(0, np.arange(100), *multiset.treaps())
        remove_all(0, np.arange(100), *multiset.treaps())
    assert multiset.treaps().pool[kernel.TOP] == 101


def test_owners_can_be_renumbered():
    multiset = OrderedMultiset(Memory())
    change(multiset, 0, 7, 1, NO_WORDS)
    change(multiset, 2, 9, 1, NO_WORDS)
    multiset.compact(np.array([1, -1, 0]))
    check(multiset, 0, [9], NO_WORDS, int)
    check(multiset, 1, [7], NO_WORDS, int)
    multiset.clear()
    change(multiset, 0, 1, 1, NO_WORDS)
    check(multiset, 0, [1], NO_WORDS, int)
    check(multiset, 1, [], NO_WORDS, int)


@pytest.mark.slow
def test_values_can_be_renumbered_when_nodes_are_free():
    multiset = OrderedMultiset(Memory())
    for value in (4, 8, 9):
        change(multiset, 0, value, 1, NO_WORDS)
    change(multiset, 0, 9, -1, NO_WORDS)
    multiset.renumber(np.array([-1, -1, -1, -1, 0, -1, -1, -1, 1]))
    check(multiset, 0, [0, 1], NO_WORDS, int)


def test_another_process_goes_on_with_it(tmp_path: Path):
    arena = Directory(tmp_path)
    multiset = OrderedMultiset(arena)
    for value in (5, 3, 5):
        change(multiset, 1, value, 1, NO_WORDS)
    data = dump(multiset, arena)
    del multiset
    multiset = load(data, Directory(tmp_path))
    change(multiset, 1, 5, -1, NO_WORDS)
    change(multiset, 1, 4, 1, NO_WORDS)
    check(multiset, 1, [3, 4, 5], NO_WORDS, int)
