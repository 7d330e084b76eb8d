"""The conditions of a join of many streams: on rows as they come, and on combinations of rows by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sash.operators.evaluator import quote, select
from sash.store.batch import int64_column
from sash.store.keys import is_exact
from sash.store.ordered_window import OrderedWindow

PLACE = "_place"
"""Numbers combinations while conditions are checked."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL over the columns of some inputs, by their numbers."""

    sql: str
    inputs: tuple[int, ...]


class CombinationChecks:
    """Checks conditions over inputs with these columns."""

    def __init__(self, conditions: Sequence[Condition], inputs: Sequence[pa.Schema]):
        self.conditions = tuple(each for each in conditions if len(each.inputs) > 1)
        """Those that read more than one input."""
        self.filters = [
            " AND ".join(f"({each.sql})" for each in conditions if each.inputs == (number,))
            for number in range(len(inputs))
        ]
        """Those on each input alone, as SQL; empty if there is none."""
        read = " ".join(each.sql for each in self.conditions)
        self._read = [[name for name in input.names if quote(name) in read] for input in inputs]

    def due(self, bound: tuple[int, ...]) -> list[Condition]:
        """What can be checked as soon as combinations have a row of the last of these inputs, beside the others."""
        return [each for each in self.conditions if bound[-1] in each.inputs and set(each.inputs) <= set(bound)]

    def satisfying(
        self, conditions: Sequence[Condition], rows: np.ndarray, windows: Sequence[OrderedWindow]
    ) -> np.ndarray | None:
        """The places of the combinations that satisfy all conditions; None if there is nothing to check."""
        if not conditions:
            return None
        columns: dict[str, pa.ChunkedArray] = {}
        for number in sorted({number for each in conditions for number in each.inputs}):
            payload = windows[number].log.take(rows[number], self._read[number])
            columns.update(zip(payload.column_names, payload.columns, strict=True))
        n_found: int = rows.shape[1]
        columns[PLACE] = pa.chunked_array([pa.array(np.arange(n_found))])
        predicate = " AND ".join(f"({each.sql})" for each in conditions)
        return int64_column(select(pa.table(columns), [(PLACE, quote(PLACE))], predicate), PLACE)


def exact_keys(keys: Sequence[Sequence[tuple[str, ...]]], inputs: Sequence[pa.Schema]) -> list[Condition]:
    """What is left to check of rows with equal integers, where the integers of different keys may collide."""
    conditions: list[Condition] = []
    for key in keys:
        members = [number for number, columns in enumerate(key) if columns]
        if is_exact([inputs[members[0]].field(name).type for name in key[members[0]]]):
            continue
        for one, other in pairwise(members):
            pairs = zip(key[one], key[other], strict=True)
            sql = " AND ".join(f"{quote(a)} = {quote(b)}" for a, b in pairs)
            conditions.append(Condition(sql, (one, other)))
    return conditions
