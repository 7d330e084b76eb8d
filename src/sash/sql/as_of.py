"""`R FOR SYSTEM_TIME AS OF`: of a table's rows, those that are valid at the time of a stream's tuple, or when it came.

    AS OF S.ts           Law: (s, r) is in the answer only if r.start <= s.ts < r.end; a NULL in either is no bound.
    AS OF ARRIVAL        Law: (s, r) is in the answer only if r is in the version that the batch met which s came in.
    AS OF ARRIVAL OF S   the same, where there are several streams

Both are conditions like any other, between the table and the stream: on arrival, that the batch of the tuple lies
between two numbers that the row has, which Sash keeps. So they hold for whatever stands above, and for tuples that are
taken back: they have the time and the batch that they came with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql.catalog import RelationInfo, Source, StreamInfo
from sash.sql.cursor import IS_ARRIVAL
from sash.sql.expressions import span_of
from sash.sql.parsed import ParsedSelect, ParsedSource
from sash.sql.scope import Scope, place
from sash.store.batch import ARRIVAL


def bind_as_of(select: ParsedSelect, sources: Sequence[Source], scope: Scope) -> tuple[Source, ...]:
    """The items of FROM, each with the time at which its rows must be valid, if that is asked for."""
    streams = {source.alias: source.info for source in sources if isinstance(source.info, StreamInfo)}
    bound: list[Source] = []
    for source, item in zip(sources, select.sources, strict=True):
        if item.as_of is None:
            bound.append(source)
        elif item.as_of.meta.get(IS_ARRIVAL):
            time = _bind_arrival(item, source, streams, select.text)
            bound.append(replace(source, as_of=time, is_arrival=True))
        else:
            bound.append(replace(source, as_of=_bind_time(item, source, streams, scope, select.text)))
    asked = {source.as_of.table for source in bound if source.as_of is not None and source.is_arrival}
    found = tuple(replace(source, is_arrival=True) if source.alias in asked else source for source in bound)
    _check_names(found, select.text)
    scope.replace(found)
    return found


def period_conditions(source: Source) -> tuple[exp.Expr, ...]:
    """The conditions on the time of a stream's tuple that FOR SYSTEM_TIME stands for; none where it does not stand."""
    if source.as_of is None:
        return ()
    assert source.validity is not None
    start, end = (_column(source, name) for name in (source.validity.start, source.validity.end))
    begun = exp.LTE(this=start, expression=source.as_of.copy())
    lasts = exp.LT(this=source.as_of.copy(), expression=end)
    return _unless_null(start, begun), _unless_null(end, lasts)


def _bind_arrival(item: ParsedSource, source: Source, streams: dict[str, StreamInfo], text: str) -> exp.Column:
    """The batch of the stream whose arrival counts: the one that is named, or the only one."""
    assert item.as_of is not None
    span = span_of(item.as_of)
    if not isinstance(source.info, RelationInfo):
        reason = f"`{source.alias}` is no table, and only tables are read as of arrival; remove `FOR SYSTEM_TIME`"
        raise BindError(reason, text, span)
    if source.info.no_versions is not None:
        raise PlanError(f"`{source.name}` cannot be read as of arrival: {source.info.no_versions}", text, span)
    named = item.as_of.table.lower()
    chosen = [alias for alias in streams if not named or alias.lower() == named]
    if len(chosen) != 1:
        ways = " or ".join(f"`ARRIVAL OF {alias}`" for alias in streams)
        remedy = f"write {ways}" if ways else "put a stream into the same `FROM`"
        raise BindError(f"a table is read as of the arrival of a stream; {remedy}", text, span)
    clash = next((alias for alias, info in streams.items() if not named and "arrival" in _lower(info)), None)
    if clash is not None:
        remedy = f"write `ARRIVAL OF {chosen[0]}`, or `{clash}.arrival` for its column"
        raise BindError(f"`{clash}` has a column `arrival`, too; {remedy}", text, span)
    return _column_of(ARRIVAL, chosen[0], item.as_of)


def _lower(info: StreamInfo) -> set[str]:
    return {name.lower() for name in info.schema.names}


def _check_names(sources: Sequence[Source], text: str) -> None:
    for source in sources:
        own = {name.lower() for name in source.info.schema.names}
        if taken := [name for name in source.hidden if name in own]:
            reason = f"`{source.name}` has a column `{taken[0]}`, whose name Sash gives to one of its own; rename it"
            raise BindError(reason, text, source.span)


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
    return _column_of(name, source.alias, source.as_of)


def _column_of(name: str, alias: str, origin: exp.Expr) -> exp.Column:
    quoted = [exp.to_identifier(part, quoted=True) for part in (name, alias)]
    return place(exp.Column(this=quoted[0], table=quoted[1]), origin)


def _unless_null(bound: exp.Column, condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Or(this=exp.Is(this=bound.copy(), expression=exp.Null()), expression=condition))
