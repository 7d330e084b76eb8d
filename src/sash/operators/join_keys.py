"""What a join asks of its keys: which rows have one, what is left to check of two with equal integers, how many."""

from __future__ import annotations

import numpy as np
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


def count_keys(keys: np.ndarray) -> float:
    """How many equally frequent keys would be equal as often as these: what a join has to do depends on that alone.

    Two of D equally frequent keys are equal with probability 1 / D, which a sample far smaller than D can tell.
    """
    if len(keys) < 2:
        return 1.0
    _, counts = np.unique(keys, return_counts=True)
    n_equal = float((counts * (counts - 1.0)).sum())
    return max(1.0, len(keys) * (len(keys) - 1.0) / max(n_equal, 1.0))
