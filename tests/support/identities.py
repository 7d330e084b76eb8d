"""The invariant that taking back relies on, checked from outside: who carries an identity, and until when.

At any instant, all living tuples with one identity are equal and expire together, so that a negative, which names an
identity and a time, says exactly what leaves. A negative without a living tuple, or two that differ, is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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
        operators: dict[OperatorName, Any] = dict(running._job.pipeline.operators())
        for name, operator in operators.items():
            if any(field.name.startswith(ID_PREFIX) for field in operator.schema):
                self._watch(name, operator)

    def _watch(self, name: OperatorName, operator: Any) -> None:
        process, lives = operator.process, defaultdict(list)

        def watched(inputs: Sequence[pa.Table], clock: int) -> pa.Table:
            changes = process(inputs, clock)
            for row in sorted(changes.to_pylist(), key=lambda row: (row[TS], row[OP])):
                self._take(name, lives, row)
            return changes

        operator.process = watched

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
