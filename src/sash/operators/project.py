"""Filter and projection: σ and π, the same for positive and negative tuples (Pipelines §4.5). No state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from sash.operators.evaluator import quote, run, select
from sash.operators.operator import Stateless, TimeKeeping
from sash.store.batch import OP, signs

IS_ENTERING = f"{quote(OP)} > 0"
"""The predicate of a projection that lets nothing pass that takes others back."""


@dataclass(frozen=True, slots=True)
class ProjectSpec:
    """Keeps rows that satisfy `predicate`, computes `columns` (name, SQL), and passes others on as they are."""

    columns: tuple[tuple[str, str], ...]
    passed: tuple[str, ...]
    predicate: str | None = None

    def schema(self, input: pa.Schema) -> pa.Schema:
        return _schema_of(self._sql(), input)

    def apply(self, batch: pa.Table) -> pa.Table:
        if self.predicate == IS_ENTERING:
            return select(_entering(batch), self._items())
        return select(batch, self._items(), self.predicate)

    @property
    def names_below(self) -> dict[str, str]:
        """By name, the column that is passed on under it."""
        plain = {name: sql[1:-1].replace('""', '"') for name, sql in self.columns if sql[:1] == sql[-1:] == '"'}
        renamed = {name: old for name, old in plain.items() if quote(old) == dict(self.columns)[name]}
        return {**{name: name for name in self.passed}, **renamed}

    def _items(self) -> list[tuple[str, str]]:
        return [(name, quote(name)) for name in self.passed] + list(self.columns)

    def _sql(self) -> str:
        return f"SELECT {', '.join(f'{sql} AS {quote(name)}' for name, sql in self._items())} FROM batch"


def _entering(batch: pa.Table) -> pa.Table:
    """The tuples that enter; without asking anybody, as there is seldom another one."""
    enters = signs(batch) > 0
    return batch if enters.all() else batch.filter(pa.array(enters))


@lru_cache(maxsize=1024)
def _schema_of(sql: str, input: pa.Schema) -> pa.Schema:
    """Kept, because the same plan is built for every fragment, group and run."""
    return run(sql, batch=input.empty_table()).schema


class Project(TimeKeeping, Stateless):
    """Runs a `ProjectSpec`."""

    def __init__(self, spec: ProjectSpec, input: pa.Schema):
        self.spec = spec
        self.schema = spec.schema(input)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        return self.spec.apply(batch) if batch.num_rows else self.schema.empty_table()
