"""The invariant that taking back relies on, checked from outside: who carries an identity, and until when.

At any instant, all living tuples with one identity are equal and expire together, so that a negative, which names an
identity and a time, says exactly what leaves. A negative without a living tuple, or two that differ, is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sash.embedded.query import Query
from sash.operators.operator_names import OperatorName
from sash.store.batch import EXPIRES, ID_PREFIX, OP, TS


@dataclass
class _Life:
    content: str
    ts: int
    expires: int
    end: int


class IdentityWatch:
    """Watches what the operators of a query put out; it must be there before the first row."""

    def __init__(self, running: Query):
        self.n_checked = 0
        self._waiting: dict[OperatorName, tuple[int, list[dict[str, Any]]]] = {}
        """What came with a clock: where memory is limited a step comes in parts, which have no order."""
        self._lives: dict[OperatorName, dict[tuple, list[_Life]]] = defaultdict(lambda: defaultdict(list))
        operators: dict[OperatorName, Any] = dict(running._job.pipeline.operators())
        for name, operator in operators.items():
            if any(field.name.startswith(ID_PREFIX) for field in operator.schema):
                self._watch(name, operator)

    def _watch(self, name: OperatorName, operator: Any) -> None:
        process, parts = operator.process, getattr(operator, "parts", None)

        def watched(inputs: Sequence[pa.Table], clock: int) -> pa.Table:
            changes = process(inputs, clock)
            self._see(name, changes, clock)
            return changes

        def watched_parts(inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
            assert parts is not None
            for part in parts(inputs, clock):
                self._see(name, part, clock)
                yield part

        operator.process = watched
        if parts is not None:
            operator.parts = watched_parts

    def finish(self) -> None:
        """Looks at what came last."""
        for name in list(self._waiting):
            self._look(name)

    def _see(self, name: OperatorName, changes: pa.Table, clock: int) -> None:
        if name in self._waiting and self._waiting[name][0] < clock:
            self._look(name)
        self._waiting.setdefault(name, (clock, []))[1].extend(changes.to_pylist())

    def _look(self, name: OperatorName) -> None:
        _, rows = self._waiting.pop(name)
        for row in sorted(rows, key=lambda row: (row[TS], row[OP])):
            self._take(name, self._lives[name], row)

    def _take(self, name: OperatorName, lives: dict[tuple, list[_Life]], row: dict[str, Any]) -> None:
        identity = tuple(value for column, value in row.items() if column.startswith(ID_PREFIX))
        content = repr([value for column, value in row.items() if column not in (TS, OP)])
        living = [life for life in lives[identity] if life.ts < row[TS] <= life.end]
        self.n_checked += 1
        if row[OP] < 0:
            living = [life for life in living if life.end == life.expires]
            assert living, f"{name} takes {identity} back at {row[TS]}, where none lives"
            assert living[-1].content == content, f"{name} takes {identity} back at {row[TS]} as what it is not"
            living[-1].end = row[TS]
            return
        for life in living:
            is_over = life.end == row[TS]
            assert is_over or life.content == content, f"{name} gives {identity} to another at {row[TS]}"
        lives[identity].append(_Life(content, row[TS], row[EXPIRES], row[EXPIRES]))
