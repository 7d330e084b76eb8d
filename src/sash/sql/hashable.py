"""Which values rows can be told apart by: those that GROUP BY, DISTINCT, set operations and IN look up."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sash.errors import BindError
from sash.sql import duck
from sash.sql.bound_query import Output
from sash.sql.expressions import span_of

_FLAT = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def is_hashable(type_: pa.DataType) -> bool:
    """Whether values of a type can be looked up: numbers, truth values, times, strings, bytes."""
    is_time = pa.types.is_temporal(type_) and not pa.types.is_interval(type_)
    return is_time or any(is_such(type_) for is_such in _FLAT)


def check_hashable(outputs: Iterable[Output], clause: str, text: str) -> None:
    """BindError at the first output that a clause cannot look up."""
    for output in outputs:
        if not is_hashable(output.type):
            raise BindError(not_hashable(output.type, clause), text, span_of(output.expr))


def not_hashable(type_: pa.DataType, clause: str) -> str:
    """What to say of a clause that has to look up values of a type for which `is_hashable` does not hold."""
    remedy = "take its parts or cast it, as in `CAST(… AS VARCHAR)`"
    return f"{clause} cannot tell values of {duck.type_of(type_)} apart in this version; {remedy}"
