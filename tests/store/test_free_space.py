"""What is written anew finds room where something was before, and never where something is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sash.store.free_space import FreeSpace


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_nothing_lies_on_anything_else(steps):
    space, used = FreeSpace(), []
    for takes, number in steps:
        if takes or not used:
            first = space.take(number)
            assert all(first + number <= low or high <= first for low, high in used if low < high and number)
            used.append((first, first + number))
        else:
            space.give_back(*used.pop(number % len(used)))
        assert max((last for first, last in used if first < last), default=0) <= space.end
        assert space.end == space.n_bytes + sum(last - first for first, last in used)


def test_the_smallest_part_that_is_large_enough_is_taken():
    space = FreeSpace()
    places = [(space.take(size), size) for size in (5, 1, 3, 1)]
    for first, size in (places[0], places[2]):
        space.give_back(first, first + size)
    assert space.take(3) == places[2][0]
    assert space.take(4) == places[0][0]
    assert space.n_bytes == 1
