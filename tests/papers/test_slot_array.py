"""Range partitions: no tree is asked, every key has one segment, and segments have θ to 2θ rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.papers.exact.slot_array import NO_SEGMENT, make_slot_array
from support.profiles import volume

MANY = st.lists(st.integers(-50, 300), min_size=1, max_size=120)


@settings(max_examples=volume(dev=30, ci=100, deep=1000))
@given(MANY, st.integers(1, 30))
def test_segments_are_ranges_of_theta_to_twice_as_many_rows(keys: list[int], theta: int) -> None:
    slots = make_slot_array(np.array(keys), theta, 16)
    segments = slots.segments_of(np.sort(np.array(keys)))
    assert (np.diff(segments) >= 0).all(), "neighbours in keys are neighbours in segments"
    sizes = np.bincount(segments, minlength=slots.n_parts)
    assert sizes.sum() == len(keys)
    if len(keys) >= theta:
        assert (sizes >= theta).all()
    if not slots.n_overfull:
        assert (sizes[:-1] < 2 * theta).all()
        assert sizes[-1] < 3 * theta, "what is left over at the right has joined it"


@settings(max_examples=volume(dev=30, ci=100, deep=1000))
@given(MANY, st.integers(1, 30))
def test_there_are_as_few_slots_as_can_be(keys: list[int], theta: int) -> None:
    slots = make_slot_array(np.array(keys), theta, 16)
    n_slots, domain = len(slots.entries), max(keys) - min(keys) + 1
    assert n_slots & (n_slots - 1) == 0
    assert slots.length == -(-domain // n_slots)
    if n_slots > 1:
        wider = (np.array(keys) - min(keys)) // -(-domain // (n_slots // 2))
        assert np.bincount(wider).max() > theta


@settings(max_examples=volume(dev=30, ci=100, deep=1000))
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40), st.integers(1, 9), st.integers(0, 12))
def test_every_number_of_64_bits_has_a_place(keys: list[int], theta: int, max_levels: int) -> None:
    slots = make_slot_array(np.array(keys, np.int64), theta, max_levels)
    segments = slots.segments_of(np.array(keys, np.int64))
    assert set(segments.tolist()) == set(range(slots.n_parts))
    assert len(slots.entries) <= 2**max_levels


def test_the_whole_range_of_64_bits_may_be_one_slot() -> None:
    keys = np.array([-(2**63), 2**63 - 1])
    slots = make_slot_array(keys, 2, 12)
    assert (slots.length, slots.entries.tolist(), slots.segments_of(keys).tolist()) == (2**64, [0], [0, 0])


def test_figure_6_4() -> None:
    """Slots of length 4, at most 5 rows each, together until there are 5 or more."""
    counts = [3, 1, 4, 0, 2, 5, 1, 5]
    keys = np.repeat(4 * np.arange(8), counts)
    keys[0], keys[-1] = 0, 31
    slots = make_slot_array(keys, 5, 16)
    assert slots.length == 4
    assert slots.entries.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert slots.segments_of(np.array([0, 11, 12, 23, 24, 31])).tolist() == [0, 0, 1, 1, 2, 2]
    assert [slots.span(each) for each in range(3)] == [12, 12, 8]


def test_a10_what_is_left_over_joins_its_left_neighbour() -> None:
    keys = np.array([0, 1, 2, 3, 4])
    assert make_slot_array(keys, 2, 16).segments_of(keys).tolist() == [0, 0, 1, 1, 1]


def test_a10_a_key_that_is_too_frequent_has_a_slot_that_is_too_full() -> None:
    keys = np.array([0] + 9 * [1] + [2, 3])
    slots = make_slot_array(keys, 2, 16)
    assert slots.length == 1
    assert slots.n_overfull == 1
    assert slots.segments_of(np.arange(4)).tolist() == [0, 0, 1, 1]


def test_a_key_outside_the_domain_is_in_no_segment() -> None:
    slots = make_slot_array(np.array([10, 20]), 1, 16)
    assert slots.segments_of(np.array([9, 10, 20, 21])).tolist() == [NO_SEGMENT, 0, 1, NO_SEGMENT]
    assert make_slot_array(np.zeros(0, np.int64), 1, 16).segments_of(np.array([9])).tolist() == [NO_SEGMENT]
