"""Which identities the groups of a branch give, whatever their columns are called."""

from __future__ import annotations

from sash.operators.distinct import DistinctSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.union import UnionSpec
from sash.plan.own_identities import own_identities

BROUGHT = Node(ExchangeSpec(0, ("v",)))
"""Has `_id._row` and `_id._expires`, from another branch."""
DISTINCT = DistinctSpec(("v",), None, False, ("_id._row", "_id._expires"))
RENAMED = ProjectSpec((("_id.d._row", '"_id._row"'), ("_id.d._expires", '"_id._expires"')), ("v",))


def test_what_an_exchange_brings_is_of_others() -> None:
    assert own_identities(BROUGHT) == set()
    assert own_identities(Node(RENAMED, (BROUGHT,))) == set()


def test_what_has_the_name_of_what_was_brought_may_be_of_its_own() -> None:
    distinct = Node(DISTINCT, (BROUGHT,))
    assert own_identities(distinct) == {"_id._row"}
    assert own_identities(Node(RENAMED, (distinct,))) == {"_id.d._row"}


def test_a_column_that_two_sides_share_is_its_own_if_one_of_them_is() -> None:
    stream = Node(ReorderSpec(False, id_column="_id.A"), (Node(InputSpec(1)),))
    spec = UnionSpec(("v",), ("_id.A",), ("_id._row", "_id.B"))
    assert own_identities(Node(spec, (stream, BROUGHT))) == {"_id.of._row"}
