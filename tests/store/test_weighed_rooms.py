"""What is counted of vectors is what those have that somebody holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.store.weighed_rooms import WeighedRooms

NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(st.just("put"), NAMES, st.integers(1, 9)) | st.tuples(st.sampled_from(("drop", "let go")), NAMES)
)


@given(STEPS)
def test_the_sum_is_that_of_what_is_held(steps: list[tuple]) -> None:
    rooms, held, counted = WeighedRooms[np.ndarray](), dict[str, np.ndarray](), set[str]()
    for what, name, *size in steps:
        if what == "put":
            held[name] = np.empty(size[0], np.uint8)
            rooms.put(name, held[name])
            counted.add(name)
        elif what == "drop":
            rooms.drop(name)
            counted.discard(name)
        else:
            held.pop(name, None)
            counted.discard(name)
        assert rooms.n_bytes == sum(len(held[each]) for each in counted)
        assert sorted(map(id, rooms.alive())) == sorted(id(held[each]) for each in counted)
        assert len(rooms) == len(counted)
        assert {each for each in "abc" if each in rooms} == counted


def test_the_end_of_an_older_one_says_nothing_of_a_newer_one() -> None:
    rooms = WeighedRooms[np.ndarray]()
    older, newer = np.empty(3, np.uint8), np.empty(5, np.uint8)
    rooms.put("a", older)
    rooms.put("a", newer)
    del older
    assert rooms.n_bytes == 5
