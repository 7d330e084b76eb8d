"""Checksums of pages: every single damage is noticed, and says where it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.kernels.page_checksums import find_damage, sum_pages

WORDS_PER_PAGE = 7
"""Not a multiple of the lanes."""


def sums_of(words: np.ndarray) -> np.ndarray:
    sums = np.empty(-(-len(words) // WORDS_PER_PAGE), np.uint64)
    sum_pages(words, WORDS_PER_PAGE, sums)
    return sums


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40), st.data())
def test_a_flipped_bit_is_found_in_its_page(items: list[int], data: st.DataObject) -> None:
    words = np.array(items, np.uint64)
    sums = sums_of(words)
    assert find_damage(words, WORDS_PER_PAGE, sums, 0) == -1
    place, bit = data.draw(st.integers(0, len(words) - 1)), data.draw(st.integers(0, 63))
    words[place] ^= np.uint64(1) << np.uint64(bit)
    assert find_damage(words, WORDS_PER_PAGE, sums, 0) == place // WORDS_PER_PAGE


def test_words_that_change_places_are_noticed() -> None:
    words = np.arange(1, 15, dtype=np.uint64)
    sums = sums_of(words)
    for one in range(WORDS_PER_PAGE):
        for other in range(one):
            swapped = words.copy()
            swapped[[one, other]] = swapped[[other, one]]
            assert find_damage(swapped, WORDS_PER_PAGE, sums, 0) == 0


@pytest.mark.parametrize("n_words", [1, 6, 7, 8, 13])
def test_zeros_too_many_or_too_few_are_noticed(n_words: int) -> None:
    words = np.zeros(n_words, np.uint64)
    assert sums_of(words)[-1] != sums_of(np.zeros(n_words + 1, np.uint64))[-1]


def test_pages_are_found_where_they_begin() -> None:
    words = np.arange(5 * WORDS_PER_PAGE, dtype=np.uint64)
    sums = sums_of(words)
    part = words[2 * WORDS_PER_PAGE : 4 * WORDS_PER_PAGE].copy()
    assert find_damage(part, WORDS_PER_PAGE, sums, 2) == -1
    part[-1] += np.uint64(1)
    assert find_damage(part, WORDS_PER_PAGE, sums, 2) == 3
