"""`R FOR SYSTEM_TIME AS OF S.ts`: of a table's rows, those that are valid at the time of a stream's tuple.

    Law: (s, r) is in the answer only if r.start <= s.ts < r.end; a NULL in `start` or `end` is no bound.

That is a condition like any other, between the table and the stream. So it holds for whatever stands above, and for
tuples that are taken back: they have the time that they came with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sash.errors import BindError
from sash.sql.bound_query import RelationInfo, Source, StreamInfo
from sash.sql.expressions import span_of
from sash.sql.parsed import ParsedSelect, ParsedSource
from sash.sql.scope import Scope, place


def bind_as_of(select: ParsedSelect, sources: Sequence[Source], scope: Scope) -> tuple[Source, ...]:
    """The items of FROM, each with the time at which its rows must be valid, if that is asked for."""
    streams = {source.alias: source.info for source in sources if isinstance(source.info, StreamInfo)}
    return tuple(
        source if item.as_of is None else replace(source, as_of=_bind_time(item, source, streams, scope, select.text))
        for source, item in zip(sources, select.sources, strict=True)
    )


def period_conditions(source: Source) -> tuple[exp.Expr, ...]:
    """The conditions on the time of a stream's tuple that FOR SYSTEM_TIME stands for; none where it does not stand."""
    if source.as_of is None:
        return ()
    assert isinstance(source.info, RelationInfo)
    assert source.info.validity is not None
    start, end = (_column(source, name) for name in (source.info.validity.start, source.info.validity.end))
    begun = exp.LTE(this=start, expression=source.as_of.copy())
    lasts = exp.LT(this=source.as_of.copy(), expression=end)
    return _unless_null(start, begun), _unless_null(end, lasts)


def _bind_time(
    item: ParsedSource, source: Source, streams: dict[str, StreamInfo], scope: Scope, text: str
) -> exp.Column:
    assert item.as_of is not None
    span = span_of(item.as_of)
    if not isinstance(source.info, RelationInfo):
        reason = f"`{source.alias}` is no table, and only tables are read as of a time; remove `FOR SYSTEM_TIME`"
        raise BindError(reason, text, span)
    if source.info.validity is None:
        remedy = "declare it in CREATE TABLE (`VALID FROM since TO until`), or in `sash.relation`"
        raise BindError(f"nothing says when rows of `{source.name}` are valid; {remedy}", text, span)
    time = scope.resolve(item.as_of)
    if not isinstance(time, exp.Column) or time.table not in streams or streams[time.table].time != time.name:
        times = [f"`{alias}.{info.time}`" for alias, info in streams.items()]
        remedy = f"write {' or '.join(times)}" if times else "put a stream into the same `FROM`"
        raise BindError(f"a table is read as of the time of a stream; {remedy}", text, span)
    return time


def _column(source: Source, name: str) -> exp.Column:
    assert source.as_of is not None
    quoted = [exp.to_identifier(part, quoted=True) for part in (name, source.alias)]
    return place(exp.Column(this=quoted[0], table=quoted[1]), source.as_of)


def _unless_null(bound: exp.Column, condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Or(this=exp.Is(this=bound.copy(), expression=exp.Null()), expression=condition))
