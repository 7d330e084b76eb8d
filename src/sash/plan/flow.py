"""What is known, while a plan is built, of the tuples that a part of it puts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from sash.operators.node import Node
from sash.operators.operator_kinds import Spec


@dataclass(frozen=True, slots=True)
class Distribution:
    """How tuples are spread over partition groups.

    `classes` are what is hashed, in this order, each with the columns that hold it; () if there is one group, None if
    nothing can be said. A stream that goes straight to where it is needed can be spread as it is needed there: its
    `slot` is not None, and `origins` gives the columns to hash by the names that they have now. One that counts rows by
    partition has both: it is spread by all columns of its partitions, unless fewer are needed.
    """

    classes: tuple[frozenset[str], ...] | None
    slot: int | None = None
    origins: Mapping[str, str] | None = None

    def renamed(self, names: Mapping[str, Sequence[str]]) -> Distribution:
        """After columns got new names; those without one are gone."""
        origins = {new: old for name, old in (self.origins or {}).items() for new in names.get(name, ())}
        if self.classes is None:
            return replace(self, origins=origins)
        classes = tuple(frozenset(new for name in each for new in names.get(name, ())) for each in self.classes)
        return Distribution(classes if all(classes) else None, self.slot, origins)

    def fixed(self) -> Distribution:
        """As it is, from now on."""
        return Distribution(self.classes)

    def co_locates(self, columns: Sequence[str]) -> bool:
        """Whether tuples that agree in these columns are in one group."""
        return self.classes is not None and all(each & set(columns) for each in self.classes)

    def is_hash_of(self, columns: Sequence[str]) -> bool:
        """Whether a tuple is in the group that the hash of these columns, in this order, says."""
        if self.classes is None or len(self.classes) != len(columns):
            return False
        return all(name in each for name, each in zip(columns, self.classes))

    def with_equal(self, pairs: Sequence[tuple[str, str]]) -> Distribution:
        """Where tuples are joined: columns that are equal in each of them hold the same."""
        classes = self.classes
        for pair in pairs if classes else ():
            classes = tuple(each | set(pair) if each & set(pair) else each for each in classes or ())
        return Distribution(classes)


ONE_GROUP = Distribution(())
SCATTERED = Distribution(None)


def distributed_by(columns: Sequence[str]) -> Distribution:
    return Distribution(tuple(frozenset([name]) for name in columns))


class FlowChanges(TypedDict, total=False):
    """What an operator changes of the flow that it is put on; all else stays."""

    columns: tuple[str, ...]
    ids: tuple[str, ...]
    life_us: int | None
    expires_by_negatives: bool
    retracts: bool
    distribution: Distribution


@dataclass(frozen=True, slots=True)
class Flow:
    """A part of the plan, and its tuples."""

    node: Node
    columns: tuple[str, ...]
    """Beside those that every tuple has and the identities."""
    ids: tuple[str, ...]
    life_us: int | None
    """The longest life of a tuple; None if tuples do not expire."""
    expires_by_negatives: bool
    """Whether what expires comes as a negative tuple, so that nobody above has to look at the clock."""
    retracts: bool
    """Whether tuples may be taken back before they expire."""
    distribution: Distribution

    def then(self, spec: Spec, *others: Flow, **changes: Unpack[FlowChanges]) -> Flow:
        """An operator on this flow, and on others."""
        return replace(self, node=Node(spec, (self.node, *(other.node for other in others))), **changes)
