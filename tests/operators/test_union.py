"""The tuples of both inputs, with identities that keep the two sides apart."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.operators.union import Union, UnionSpec
from sash.store.batch import SIGNED_FIELDS
from support.steps import changes_of, signed

COLUMNS = pa.schema([("v", pa.string())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])


def with_ids(*names: str) -> pa.Schema:
    return pa.schema([*COLUMNS, *((name, pa.int64()) for name in names)])


def test_every_tuple_of_both_sides_passes_as_often_as_it_comes() -> None:
    """
    left    +a at 1, -a at 4          right   +a at 1, +a at 2         out   all of them, signs and lives as they are
    """
    operator = Union(UnionSpec(("v",)), SCHEMA, SCHEMA)
    left, right = [(1, 1, 9, ("a",)), (-1, 4, 9, ("a",))], [(1, 1, 5, ("a",)), (1, 2, 6, ("a",))]
    assert changes_of(operator.process([signed(left, COLUMNS), signed(right, COLUMNS)], 4)) == [
        (1, 1, 5, ("a",)),
        (1, 1, 9, ("a",)),
        (1, 2, 6, ("a",)),
        (-1, 4, 9, ("a",)),
    ]


def test_identities_of_one_side_never_equal_those_of_the_other() -> None:
    """Both sides have a tuple with identity 0: a join above must be able to tell which of them is taken back."""
    spec = UnionSpec(("v",), ("_id.A",), ("_id.A", "_id.B"))
    assert spec.ids == ("_id.of", "_id.of.A", "_id.of.B")
    left, right = with_ids("_id.A"), with_ids("_id.A", "_id.B")
    operator = Union(spec, pa.schema([*left, *SIGNED_FIELDS]), pa.schema([*right, *SIGNED_FIELDS]))
    batches = [signed([(1, 1, 9, ("a", 0))], left), signed([(1, 1, 9, ("a", 0, 7)), (-1, 3, 9, ("a", 0, 7))], right)]
    out = operator.process(batches, 3)
    assert out.schema == operator.schema
    assert changes_of(out) == [
        (1, 1, 9, ("a", 0, 0, -1)),
        (1, 1, 9, ("a", 1, 0, 7)),
        (-1, 3, 9, ("a", 1, 0, 7)),
    ]


def test_times_share_no_column_with_numbers() -> None:
    """Where groups keep their numbers apart, times stay as they are."""
    spec = UnionSpec(("v",), ("_id._row", "_id._expires"), ("_id.B", "_id._row"))
    assert spec.id_sources == [
        ("_id.of.B", "_id._row", "_id.B"),
        ("_id.of._row", None, "_id._row"),
        ("_id.of._expires", "_id._expires", None),
    ]


def test_a_union_of_unions_is_wider_by_one_identity() -> None:
    below = UnionSpec(("v",), ("_id.A",), ("_id.A", "_id.B"))
    spec = UnionSpec(("v",), below.ids, below.ids)
    assert len(spec.ids) == len(set(spec.ids)) == len(below.ids) + 1


def test_columns_are_taken_by_name_and_others_left_out() -> None:
    wide = pa.schema([("x", pa.int64()), *COLUMNS])
    operator = Union(UnionSpec(("v",)), SCHEMA, pa.schema([*wide, *SIGNED_FIELDS]))
    out = operator.process([signed([], COLUMNS), signed([(1, 1, 9, (5, "a"))], wide)], 1)
    assert changes_of(out) == [(1, 1, 9, ("a",))]


def test_nothing_comes_of_nothing() -> None:
    operator = Union(UnionSpec(("v",)), SCHEMA, SCHEMA)
    assert operator.process([signed([], COLUMNS), signed([], COLUMNS)], 4).num_rows == 0
    assert (operator.logs(), operator.registers()) == ({}, {})


def test_sides_of_different_types_are_a_mistake_of_the_planner() -> None:
    other = pa.schema([("v", pa.int64()), *SIGNED_FIELDS])
    with pytest.raises(AssertionError):
        Union(UnionSpec(("v",)), SCHEMA, other)
