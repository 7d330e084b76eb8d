"""An operator driven step by step, without a plan: lives of tuples in, what the changes amount to out.

lives      a [1, 4)   b [2, 9), taken back at 5
clocked    +a at 1    +b at 2    -b at 5              what expires is left to the clock
told       +a at 1    +b at 2    -a at 4    -b at 5   what expires has a negative, as behind a W-EXPIRE
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from sash.operators.operator import Operator, Stateful, export_live, import_live
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS
from sash.store.directory import Directory
from sash.store.vector import dump, load

Change: TypeAlias = tuple[int, int, int, tuple]
"""Sign, time, expiry, and the values of the other columns."""


@dataclass(frozen=True, slots=True)
class Lived:
    """A tuple in its window from `ts` until before `expires`, or until before `back` if it is taken back."""

    values: tuple
    ts: int
    expires: int
    back: int | None = None

    @property
    def end(self) -> int:
        return self.expires if self.back is None else self.back

    def changes(self, is_told: bool) -> list[Change]:
        """The signed tuples that tell of it."""
        told = [(1, self.ts, self.expires, self.values)]
        if self.end < self.expires or (is_told and self.expires < NEVER):
            told.append((-1, self.end, self.expires, self.values))
        return told


def due(lives: Sequence[Lived], last: int, clock: int, is_told: bool) -> list[Change]:
    """The signed tuples that come in the step from one clock to the next, in order of time."""
    changes = [change for lived in lives for change in lived.changes(is_told) if last < change[1] <= clock]
    return sorted(changes, key=lambda change: (change[1], change[0]))


def signed(changes: Sequence[Change], columns: pa.Schema) -> pa.Table:
    """Changes as a batch; `columns` are those beside the ones that every tuple has."""
    op, ts, expires = ([change[idx] for change in changes] for idx in range(3))
    arrays = [pa.array([change[3][idx] for change in changes], field.type) for idx, field in enumerate(columns)]
    system = [pa.array(each, field.type) for each, field in zip((ts, expires, op), SIGNED_FIELDS, strict=True)]
    return pa.table([*arrays, *system], schema=pa.schema([*columns, *SIGNED_FIELDS]))


def changes_of(batch: pa.Table) -> list[Change]:
    """A batch in order of time; at one instant, negatives first."""
    names = [name for name in batch.schema.names if name not in (TS, EXPIRES, OP)]
    rows = zip(*(batch[name].to_pylist() for name in names)) if names else iter([()] * batch.num_rows)
    system = (batch[name].to_pylist() for name in (OP, TS, EXPIRES))
    changes = list(zip(*system, rows, strict=True))
    return sorted(changes, key=lambda change: (change[1], change[0], repr(change[2:])))


def alive_at(lives: Sequence[Lived], instant: int) -> Counter[tuple]:
    """The tuples in their windows at an instant."""
    return Counter(lived.values for lived in lives if lived.ts <= instant < lived.end)


def amount_at(changes: Sequence[Change], instant: int, is_told: bool) -> Counter[tuple]:
    """What changes amount to at an instant; where expirations are told, `_expires` is not looked at."""
    count: Counter[tuple] = Counter()
    for op, ts, expires, values in changes:
        if ts <= instant and (is_told or instant < expires):
            count[values] += op
    return Counter({values: n for values, n in count.items() if n})


def restarted(operator: Stateful, make: Callable[[], Any]) -> Any:
    """Another operator that takes over from the logs and registers of this one."""
    fresh = make()
    fresh.restore({name: log.entries() for name, log in operator.logs().items()}, operator.registers())
    return fresh


class StateShelf:
    """Where the state of an operator rests between steps, in files, to be taken up by another one."""

    def __init__(self, path: Path):
        self._path = path
        self._arena = Directory(path)

    def start(self, make: Callable[[], Any]) -> Any:
        """A fresh operator whose state lives here."""
        operator = make()
        operator.reset(self._arena)
        return operator

    def moved(self, operator: Operator, make: Callable[[], Any]) -> Any:
        """Another operator that goes on with the same state."""
        state = dump(export_live(operator), self._arena)
        self._arena = Directory(self._path)
        fresh = make()
        import_live(fresh, load(state, self._arena))
        return fresh
