"""What a join asks of its keys: which rows have one, and what is left to check of two rows whose integers are equal."""

from __future__ import annotations

import pyarrow as pa

from sash.operators.evaluator import quote
from sash.store.keys import is_exact


def without_null_keys(batch: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """The rows that can join: NULL equals nothing."""
    for name in columns:
        if batch.column(name).null_count:
            batch = batch.filter(batch.column(name).is_valid())
    return batch


def pair_condition(keys: tuple[tuple[str, str], ...], residual: str | None, left: pa.Schema) -> str | None:
    """What is left to check of a pair with equal integers: the residual, and the columns where integers may collide."""
    conditions = [] if residual is None else [f"({residual})"]
    if keys and not is_exact([left.field(name).type for name, _ in keys]):
        conditions += [f"{quote(a)} = {quote(b)}" for a, b in keys]
    return " AND ".join(conditions) or None
