"""Which identities of a branch's tuples were given in the branch: on Spark every group of it gives them from 0 on.

    exchange: _id._row ─ Distinct: _id._row ─ Project: _id.d._row      given here, whatever it is called
    exchange: _id._row ─ Project: _id.d._row                           brought, from another branch

Names do not tell: equal operators of two branches call theirs alike, and what an exchange brings has the names that it
had there.
"""

from __future__ import annotations

from sash.operators.node import Node
from sash.operators.project import ProjectSpec
from sash.operators.union import UnionSpec
from sash.store.batch import EXPIRES, ID_PREFIX


def own_identities(top: Node) -> set[str]:
    """Of the columns of what a branch puts out, those with such identities."""
    own: dict[int, set[str]] = {}
    for node in top.walk():
        own[id(node)] = _own(node, [own[id(each)] for each in node.inputs])
    return {name for name in own[id(top)] if not name.endswith(EXPIRES)}


def _own(node: Node, below: list[set[str]]) -> set[str]:
    """What a node puts out, where its inputs have put out these."""
    spec = node.spec
    if isinstance(spec, ProjectSpec):
        return {name for name, old in spec.names_below.items() if old in below[0]}
    if isinstance(spec, UnionSpec):
        return {new for new, *olds in spec.id_sources if any(old in own for old, own in zip(olds, below))}
    return _given(spec).union(*below)


def _given(spec: object) -> set[str]:
    """The columns that an operator puts identities into."""
    names = [*getattr(spec, "id_columns", ()), getattr(spec, "id_column", None), getattr(spec, "copy_column", None)]
    return {name for name in names if name is not None and name.startswith(ID_PREFIX)}
