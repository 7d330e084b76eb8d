"""What is put into caches of groups and found there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.plan.physical import Plan
from sash.spark.exchange import Message, Packer
from sash.spark.group_cache import GroupCache
from sash.spark.machine_budget import MachineBudget
from sash.spark.packing import pack_frame
from sash.store.vector import Vector

MUCH = MachineBudget(1 << 30, 1)


def put_numbers(cache: GroupCache, group: str, token: str, n_items: int = 10, batch: int = 0) -> None:
    arena = cache.create(group)
    numbers = Vector(np.int64, arena, capacity=n_items)
    numbers.write(0, np.arange(n_items))
    cache.check_in(group, token, numbers, arena, batch)


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} if place.exists() else set()


def pack(plan: Plan, rows: pa.Table) -> list[Message]:
    packed = pack_frame(Packer(plan, "a", 1))(iter(rows.to_batches()))
    return [Message(**row) for batch in packed for row in batch.to_pylist()]


def sorted_changes(answers: list[Message]) -> list[str]:
    return sorted(repr(row) for each in answers if each.kind == "changes" for row in each.table.to_pylist())
