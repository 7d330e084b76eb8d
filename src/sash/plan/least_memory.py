"""How much memory a plan needs at least, whatever its windows hold; a limit below it is refused before anything runs.

    state    what its operators' vectors take when they are new and `LEAST_ROWS` rows have come, the least bite;
             vectors that may be files do not count
    step     these rows, as they come in and as they are put out
    disk     a page of each input of a join of many but one, which are read one within the other, beside as much that is
             known of files by heart

The operators are made, and weighed: so nothing has to be kept in step with what they are made of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pyarrow as pa

from sash.errors import ResourceError
from sash.operators.multiway_join import MultiwayJoin
from sash.operators.pipeline import Pipeline
from sash.plan.physical import Plan
from sash.plan.row_width import row_bytes
from sash.sql.catalog import tables_of
from sash.store.byte_sizes import format_bytes
from sash.store.memory_budget import LEAST_BYTES, LEAST_ROWS, MemoryBudget
from sash.store.spill_arena import LEAST_FILE_BYTES
from sash.store.spill_files import LEAST_PAGE_BYTES
from sash.store.vector import Memory, Room

ITEM_BYTES = 64
"""A vector that is longer is not one item long, but a table that has its size from the beginning."""
UNIT = 1 << 10


class _Scales(Memory):
    """Where vectors are weighed."""

    def __init__(self) -> None:
        self._names = itertools.count()
        self._n_bytes: dict[str, int] = {}

    def new_name(self) -> str:
        return str(next(self._names))

    def resize(self, name: str, old: Room | None, n_bytes: int) -> Room:
        self._n_bytes[name] = n_bytes
        return super().resize(name, old, n_bytes)

    def free(self, name: str) -> None:
        self._n_bytes.pop(name, None)

    @property
    def least_bytes(self) -> int:
        """With `LEAST_ROWS` items in every vector."""
        sizes = [each if each > ITEM_BYTES else LEAST_ROWS * each for each in self._n_bytes.values()]
        return sum(each for each in sizes if each < LEAST_FILE_BYTES)


def least_state_bytes(pipeline: Pipeline) -> int:
    """What a pipeline that has not begun keeps in memory at least; it is of no use any more then."""
    scales = _Scales()
    pipeline.reset(scales)
    return scales.least_bytes


def least_memory(plans: Iterable[Plan]) -> int:
    """The least limit for plans that run side by side in this process."""
    plans = list(plans)
    pipelines = [plan.pipeline(empty_relations(plan)) for plan in plans]
    disk = 2 * LEAST_PAGE_BYTES * max(map(_most_reads, pipelines), default=0)
    state = sum(map(least_state_bytes, pipelines))
    rows = [schema for plan in plans for schema in (*(slot.schema for slot in plan.slots), *_answers(plan))]
    step = 2 * LEAST_ROWS * max(map(row_bytes, rows), default=0.0)
    return max(LEAST_BYTES, -(-int(max(2 * state, 4 * step, 4 * disk)) // UNIT) * UNIT)


def require_memory(plans: Iterable[Plan], budget: MemoryBudget | None) -> None:
    """Raises ResourceError if plans that are to run side by side need more than there is for them."""
    if budget is None:
        return
    plans = list(plans)
    least = least_memory(plans)
    if budget.n_bytes < least:
        n_queries = sum(len(plan.queries) for plan in plans)
        what = "the query needs" if n_queries == 1 else f"{n_queries} queries together need"
        fewer = "" if n_queries == 1 else ", or run fewer of them at once"
        raise ResourceError(
            f"the limit on memory is {format_bytes(budget.n_bytes)}, but {what} at least {format_bytes(least)}; "
            f"raise it, with SASH_MEMORY or `sash.configure(memory=…)`{fewer}"
        )


def _most_reads(pipeline: Pipeline) -> int:
    joins = [each for _, each in pipeline.operators() if isinstance(each, MultiwayJoin)]
    return max((join.n_reads for join in joins), default=0)


def empty_relations(plan: Plan) -> dict[str, pa.Table]:
    """Relations as they are declared, without rows."""
    lookups = [lookup for query in plan.queries.values() for lookup in query.lookups]
    tables = [table for lookup in lookups for table in tables_of(lookup.source)]
    return {table.name: table.info.schema.empty_table() for table in tables}


def _answers(plan: Plan) -> list[pa.Schema]:
    return [query.schema for query in plan.queries.values()]
