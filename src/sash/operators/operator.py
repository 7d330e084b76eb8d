"""What every operator offers, and what it relies on.

An operator is called once per step with everything its inputs produced in that step and with the clock: the promise
that every tuple with `ts <= clock` has come. It answers with what these tuples and the progress of the clock bring
about. What it returns depends on the tuples and the clock alone, never on how they were cut into steps.

State is a set of logs (`logs`) and a few integers (`registers`); nothing else survives a restart. All that an operator
keeps from step to step, indexes included, is in the attributes that `STATE` names, so that one operator can serve many
partition groups in turn: `export_live` takes the state of a group out, `import_live` puts it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa

from sash.store.block_log import BlockLog
from sash.store.vector import Arena


class Stateful(Protocol):
    """What keeps state from step to step: every node of a running plan, and the join that queries share."""

    STATE: ClassVar[tuple[str, ...]]
    """The attributes that change from step to step."""

    def pace(self, clock: int, n_max: int) -> int:
        """The latest time up to which at most about `n_max` of its tuples expire, or are let go; `clock` at most."""
        ...

    def reset(self, arena: Arena) -> None:
        """Forgets everything. What it keeps from now on has its vectors in `arena`."""
        ...

    def logs(self) -> dict[str, BlockLog]:
        """The logs that hold its state, by name."""
        ...

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, Any]) -> None:
        """Becomes what it was when these entries (by log) and registers were taken."""
        ...

    def registers(self) -> dict[str, Any]:
        """What has to survive beside the logs: integers, or what else can be written as JSON."""
        ...


class Operator(Stateful, Protocol):
    """One node of a running plan."""

    schema: pa.Schema
    """Of the batches it returns."""

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        """What follows from these tuples, one batch per input, and from the clock's progress."""
        ...


@runtime_checkable
class PartGiver(Protocol):
    """An operator that may put out far more than comes in."""

    def parts(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        """What `process` returns, in parts that have no order, made as they are asked for. To be exhausted."""
        ...


@runtime_checkable
class PartTaker(Protocol):
    """An operator that takes the tuples of one instant in parts, where they are too many for memory."""

    def take(self, inputs: Sequence[pa.Table], instant: int) -> None:
        """Some tuples that enter at an instant, one batch per input. The clock was moved to just before it; more of
        them, if there are, and all that leaves at the instant come then, and at last `process` is called with the
        instant as the clock.
        """
        ...


@runtime_checkable
class RoomMaker(Protocol):
    """An operator that puts on disk what finds no room in memory."""

    def make_room(self, n_bytes: int = 0) -> None:
        """Between steps: puts there what should have been there already, and what would be in the way of so much more.
        If there is no room, the budget knows why.
        """
        ...


@runtime_checkable
class FrontierReader(Protocol):
    """An operator that wants to know how far each of its inputs has come; streams may be far ahead of the clock.

    The frontier of a stream is the least `_ts` of a tuple that may still come in a later step. It is beyond the clock.
    An input that is itself a join of many streams has one for each of them, as new tuples of any make new ones of it.
    """

    def hear(self, frontiers: Sequence[tuple[int, ...]]) -> None:
        """Tells the frontiers of each input, once the input has been run; `process` of the same step follows at once.

        Whoever runs operators one by one may leave it out: then all frontiers are just beyond the clock.
        """
        ...


@runtime_checkable
class FrontierKeeper(Protocol):
    """An operator of one stream that leaves `_ts` as it is, so that its frontier follows from that of its input."""

    def frontier(self, below: int) -> int:
        """The least `_ts` that it may put out in a later step, if its input puts out nothing before `below`."""
        ...


def hears_frontiers(operator: object) -> TypeGuard[FrontierReader]:
    """Asked in every step, in which a look at a protocol would take longer than much that operators do."""
    return _offers(type(operator), FrontierReader)


def keeps_frontiers(operator: object) -> TypeGuard[FrontierKeeper]:
    return _offers(type(operator), FrontierKeeper)


@cache
def _offers(kind: type, protocol: type) -> bool:
    return issubclass(kind, protocol)


class TimeKeeping:
    """Of an operator that puts tuples out in the step in which they come, at the time at which they come."""

    def frontier(self, below: int) -> int:
        return below


class Unpaced:
    """Of an operator that puts nothing out when its tuples expire."""

    def pace(self, clock: int, n_max: int) -> int:
        return clock


class Stateless(Unpaced):
    """The state of an operator that has none."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def reset(self, arena: Arena) -> None:
        pass

    def logs(self) -> dict[str, BlockLog]:
        return {}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        pass

    def registers(self) -> dict[str, int]:
        return {}


def export_live(operator: Stateful) -> dict[str, Any]:
    """All that an operator keeps from step to step."""
    return {name: getattr(operator, name) for name in operator.STATE}


def import_live(operator: Stateful, state: Mapping[str, Any]) -> None:
    """Lets an operator go on with a state that `export_live` took."""
    for name, value in state.items():
        setattr(operator, name, value)
