"""Which method looks up in a relation: what fits is in memory, and of the rest the cheapest is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.cost.disk_prices import SHIPPED_DISK, DiskPrices
from sash.cost.lookup_cost import (
    INL,
    MESH,
    PARTITIONED_HASH,
    PARTITIONED_RANGE,
    REPLICATED,
    LookupLoad,
    choose_lookup,
    relation_room,
)

MIB = 1 << 20


def load(n_bytes: int = 400 * MIB, step_rows: float | None = None, has_order: bool = True) -> LookupLoad:
    return LookupLoad(n_bytes // 100, n_bytes, step_rows, has_order)


@given(st.integers(0, 10**10), st.one_of(st.none(), st.floats(0, 1e6)), st.booleans(), st.integers(1, 10**9))
def test_what_fits_is_in_memory_and_of_the_rest_nothing_is_cheaper_than_what_is_taken(n_bytes, rows, order, room):
    asked = load(n_bytes, rows, order)
    choice = choose_lookup(asked, room, SHIPPED_DISK)
    assert (choice.method == REPLICATED) == (asked.whole_bytes <= room) == choice.fits
    costs = [each.seconds for each in choice.estimates]
    assert costs == sorted(costs)
    if not choice.fits:
        assert choice.method == choice.estimates[0].method
        assert {each.method for each in choice.estimates} == {PARTITIONED_HASH, PARTITIONED_RANGE, MESH, INL}


def test_without_a_limit_it_is_in_memory():
    assert choose_lookup(load(10**12), None, SHIPPED_DISK).method == REPLICATED


@pytest.mark.parametrize("hint", [REPLICATED, PARTITIONED_HASH, MESH, INL])
def test_a_hint_counts_whatever_it_costs(hint):
    choice = choose_lookup(load(), 20 * MIB, SHIPPED_DISK, hint)
    assert (choice.method, choice.is_hinted) == (hint, True)


def test_few_tuples_search_and_many_share_reads():
    methods = [choose_lookup(load(step_rows=rows), 20 * MIB, SHIPPED_DISK).method for rows in (1, 10, 10_000, 1e5)]
    assert methods == [INL, INL, PARTITIONED_RANGE, PARTITIONED_RANGE]


def test_where_it_takes_long_to_find_a_place_all_of_it_is_read_in_order():
    """As on disks that turn: once nearly all segments are needed, going from one to the next costs more."""
    turning = DiskPrices(write=5e-8, read=5e-8, access=10e-3)
    methods = [choose_lookup(load(step_rows=rows), 20 * MIB, turning).method for rows in (10, 300, 3000, 1e6)]
    assert methods == [INL, INL, MESH, PARTITIONED_RANGE]


def test_where_the_system_has_the_file_in_its_cache_a_search_is_the_cheapest():
    for rows in (1, 100, 10_000):
        cached = LookupLoad(4_000_000, 400 * MIB, rows, True, cacheable_bytes=1 << 40)
        assert choose_lookup(cached, 20 * MIB, SHIPPED_DISK).method == INL
    partly = LookupLoad(4_000_000, 400 * MIB, 10_000, True, cacheable_bytes=100 * MIB)
    assert partly.cached_part == 0.25
    assert choose_lookup(partly, 20 * MIB, SHIPPED_DISK).method == PARTITIONED_RANGE


def test_keys_without_neighbours_are_cut_by_hash():
    assert choose_lookup(load(has_order=False), 20 * MIB, SHIPPED_DISK).method == PARTITIONED_HASH


def test_copies_of_several_processes_count():
    one = LookupLoad(0, MIB, None, True)
    assert choose_lookup(one, 3 * MIB, SHIPPED_DISK).fits
    assert not choose_lookup(LookupLoad(0, MIB, None, True, n_copies=4), 3 * MIB, SHIPPED_DISK).fits


def test_a_relation_has_a_quarter_of_what_is_for_state():
    assert relation_room(32 * MIB) == 8 * MIB
