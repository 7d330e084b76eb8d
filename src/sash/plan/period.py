"""FOR SYSTEM_TIME in a plan: where its conditions come together at the look-up of its table, they are a period."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
from sqlglot import exp

from sash.operators.lookup_join import ValidPeriod
from sash.plan.column_names import column_name
from sash.plan.logical import Join
from sash.sql.as_of import period_conditions


def split_period(join: Join, columns: Collection[str]) -> tuple[ValidPeriod | None, Sequence[exp.Expr]]:
    """The period of a join with a relation, if its stream's time is among the columns that are looked up with, and the
    other conditions. Times that are no microseconds, such as dates, are compared like any other values.
    """
    source, wanted = join.right.source, period_conditions(join.right.source)
    if source.as_of is None or column_name(source.as_of) not in columns:
        return None, join.conjuncts
    assert source.validity is not None
    bounds = (source.validity.start, source.validity.end)
    is_exact = all(_counts_microseconds(source.schema.field(name).type) for name in bounds)
    if not is_exact or not all(condition in join.conjuncts for condition in wanted):
        return None, join.conjuncts
    period = ValidPeriod(column_name(source.as_of), *(f"{source.alias}.{name}" for name in bounds))
    return period, [conjunct for conjunct in join.conjuncts if conjunct not in wanted]


def _counts_microseconds(dtype: pa.DataType) -> bool:
    return pa.types.is_int64(dtype) or (pa.types.is_timestamp(dtype) and dtype.unit == "us")
