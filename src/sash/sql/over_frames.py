"""Frames of functions OVER rows, with bounds as numbers."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.sql import duck
from sash.sql.bound_over import BoundFrame
from sash.sql.bound_query import Output
from sash.sql.expressions import span_of, to_duckdb
from sash.sql.over_calls import WrittenOver, read_number

_BASES = ("2000-01-01", "2001-01-01", "2001-02-01")
"""Between months and years that are of different lengths."""
_MOST = 1 << 62


def bind_frame(written: WrittenOver, key: Output | None, text: str) -> BoundFrame:
    """The frame of a function; `key` is what it is ordered by, if that is one column."""
    frame = written.frame
    bounds = [
        _difference(bound, is_before, written, key, text) if isinstance(bound, exp.Expr) else bound
        for bound, is_before in zip((frame.start, frame.end), frame.is_before, strict=True)
    ]
    is_apart = any(isinstance(bound, exp.Expr) for bound in (frame.start, frame.end))
    is_time = is_apart and key is not None and pa.types.is_timestamp(key.type)
    return BoundFrame(frame.is_range, bounds[0], bounds[1], is_time)


def _difference(bound: exp.Expr, is_before: bool, written: WrittenOver, key: Output | None, text: str) -> int:
    assert key is not None
    if pa.types.is_timestamp(key.type):
        number = _microseconds(bound)
        example = "an interval that is always as long, as in `INTERVAL '1' HOUR`"
    elif pa.types.is_integer(key.type) and not pa.types.is_uint64(key.type):
        number, example = read_number(bound), "a whole number"
    else:
        reason = f"`RANGE` by a difference cannot run in this version over {key.sql_type}"
        remedy = "order by a timestamp or an integer, or use `ROWS`"
        raise PlanError(f"{reason}; {remedy}", text, span_of(written.node))
    if number is None or not 0 <= number < _MOST:
        raise PlanError(f"`RANGE` over {key.sql_type} needs {example}; write one", text, span_of(written.node))
    return -number if is_before else number


def _microseconds(bound: exp.Expr) -> int | None:
    """How long an interval is, if it is so wherever it begins."""
    if bound.find(exp.Column):
        return None
    sums = (f"epoch_us(TIMESTAMP '{base}' + {to_duckdb(bound)}) - epoch_us(TIMESTAMP '{base}')" for base in _BASES)
    with duck.connect() as connection:
        try:
            (found,) = connection.execute(f"SELECT {', '.join(sums)}").fetchall()
        except duckdb.Error:
            return None
    return int(found[0]) if len(set(found)) == 1 and found[0] is not None else None
