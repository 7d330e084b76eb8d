"""Generated cases that Spark can be given, and that say something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pyarrow as pa

import sash
from support.generated.choices import Choices
from support.generated.run import GeneratedCase, draw_case, run_case


def cases_for_spark(seed: int) -> Iterator[tuple[GeneratedCase, pa.Table]]:
    """Generated cases from a seed on, that have an answer; with it.

    Spark has no unsigned integers and no columns of nothing. What is late depends on micro-batches there.
    """
    for number in count(seed):
        case = draw_case(Choices(number), way="sql")
        types = [field.type for table in case.tables.values() for field in table.rows.schema]
        is_known = not any(pa.types.is_unsigned_integer(type) or pa.types.is_null(type) for type in types)
        if is_known and all(len(table.accepted) == table.rows.num_rows for table in case.tables.values()):
            with suppress(sash.SashError):
                changes = run_case(case)
                if changes.num_rows > 2:
                    yield case, changes
