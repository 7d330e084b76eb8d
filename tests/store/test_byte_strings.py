"""Byte strings under numbers, against a dictionary."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.store.byte_strings import ByteStrings
from sash.store.directory import Directory
from sash.store.vector import Memory, dump, load

ALL_VALID = np.empty(0, np.bool_)


def intern(strings: ByteStrings, values: list[bytes], sign: int = 1) -> list[int]:
    """Behind a byte of no meaning, as offsets need not begin with 0."""
    offsets = np.cumsum([1, *map(len, values)])
    data = np.frombuffer(b"-" + b"".join(values), np.uint8)
    return strings.intern(offsets, data, ALL_VALID, np.full(len(values), sign, np.int8)).tolist()


def take(strings: ByteStrings, numbers: list[int], skip: int = 0) -> list[bytes]:
    offsets, data = strings.take(np.array(numbers, np.int64), skip)
    return [data[first:last].tobytes() for first, last in pairwise(offsets)]


@given(st.lists(st.lists(st.binary(max_size=3), max_size=30), max_size=4))
def test_equal_numbers_mean_equal_bytes(batches: list[list[bytes]]):
    strings, known = ByteStrings(Memory()), {}
    for batch in batches:
        for value, number in zip(batch, intern(strings, batch), strict=True):
            assert known.setdefault(value, number) == number
    assert sorted(known.values()) == list(range(len(known)))
    assert take(strings, list(known.values())) == list(known)


def test_strings_that_begin_alike_are_told_apart():
    values = [b"x" * length for length in range(300)]
    for ordered in (values, values[::-1]):
        strings = ByteStrings(Memory())
        assert intern(strings, ordered) == list(range(300))
        assert intern(strings, ordered) == list(range(300))


def test_not_all_are_valid_and_prefixes_can_be_skipped():
    strings = ByteStrings(Memory())
    data = np.frombuffer(b"abcdef", np.uint8)
    numbers = strings.intern(np.array([0, 3, 4, 6]), data, np.array([True, False, True]), np.ones(3, np.int8))
    assert numbers.tolist() == [0, -1, 1]
    assert take(strings, [1, -1, 0], skip=1) == [b"f", b"", b"bc"]


@given(st.sets(st.integers(0, 299)), st.booleans(), st.integers(1, 2))
def test_strings_without_a_use_are_forgotten_when_they_are_the_most(few: set[int], do_few_leave: bool, n_uses: int):
    leaving = few if do_few_leave else set(range(300)) - few
    strings = ByteStrings(Memory())
    values = [str(number).encode() for number in range(300)]
    for _ in range(n_uses):
        intern(strings, values)
    intern(strings, [values[number] for number in sorted(leaving)], -1)
    in_use = Counter(dict.fromkeys(values, n_uses))
    in_use.subtract(values[number] for number in leaving)
    staying = [value for value in values if in_use[value]]
    mapping = strings.compact()
    if 2 * len(staying) >= len(values):
        assert mapping is None
        return
    assert mapping is not None
    assert [values[old] for old in np.flatnonzero(mapping >= 0)] == staying
    assert mapping[mapping >= 0].tolist() == list(range(len(staying)))
    assert take(strings, list(range(len(staying)))) == staying
    assert intern(strings, [*staying, b"new"]) == list(range(len(staying) + 1))


def test_another_process_goes_on_with_them(tmp_path: Path):
    arena = Directory(tmp_path)
    strings = ByteStrings(arena)
    intern(strings, [b"a", b"bc"])
    data = dump(strings, arena)
    del strings
    strings = load(data, Directory(tmp_path))
    assert intern(strings, [b"bc", b"d"]) == [1, 2]
    assert take(strings, [0, 1, 2]) == [b"a", b"bc", b"d"]
