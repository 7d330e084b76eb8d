"""What the cost model is told of a join of many streams before anything is known of its streams."""

from __future__ import annotations

from sash.operators.multiway_shape import USUAL_SHARE, shape_of

KEYS = ((("A.k",), ("B.k",), ()), ((), ("B.s", "B.t"), ("C.s", "C.t")))
REACH_US = ((0, 1_000_000, -5), (250_000, 0, 3), (0, 0, 0))


def test_windows_are_in_seconds_and_what_must_be_older_is_not_there() -> None:
    assert shape_of(KEYS, REACH_US, ()).reach_s == ((0.0, 1.0, 0.0), (0.25, 0.0, 3e-6), (0.0, 0.0, 0.0))


def test_who_has_which_key() -> None:
    assert shape_of(KEYS, REACH_US, ()).has_key == ((True, False), (True, True), (False, True))


def test_conditions_on_a_single_input_are_filters() -> None:
    shape = shape_of((), REACH_US, [(0, 1), (2,), (0, 1, 2)])
    assert [(each.inputs, each.share) for each in shape.conditions] == [((0, 1), USUAL_SHARE), ((0, 1, 2), USUAL_SHARE)]
    assert not shape.is_product
