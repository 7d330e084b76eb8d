"""Interval joins as Spark and Flink write them: no window, and conditions that say how far apart times may be.

    FROM a A JOIN b B ON A.k = B.k AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR

What is compared must be a sum of the streams' own time columns and of constants. All that has come up to an instant
counts, as in any query without windows: a pair, once there, does not leave. What the conditions bound is how long
tuples have to be kept for others.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError, QueryError
from sash.sql import duck
from sash.sql.casts import without_read
from sash.sql.catalog import Source, StreamInfo
from sash.sql.dialect import Sash
from sash.sql.expressions import split_conjuncts
from sash.sql.interval_graph import IntervalGraph, TimeBound
from sash.sql.join_trees import INNER, joins_of
from sash.sql.pair_windows import MAX_STREAMS
from sash.sql.parsed import ParsedSelect
from sash.sql.scope import Scope
from sash.sql.subqueries import is_membership
from sash.sql.window_graph import FAR
from sash.sql.window_kinds import UnboundedWindow

_DAY_US = 86_400_000_000
_SHORTEST_MONTH_US, _LONGEST_MONTH_US = 28 * _DAY_US, 31 * _DAY_US
_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.Between)
_CONSTANT_PARTS = (exp.Interval, exp.Literal, exp.Var, exp.Neg, exp.Paren, exp.Mul, exp.Cast, exp.DataType)
_INSTANT, _INTEGER = "instant", "integer"
_INTEGERS = ("tinyint", "smallint", "integer", "bigint")


@dataclass(frozen=True, slots=True)
class _Sum:
    """Times of streams, each with its sign, plus something from `least_us` to `most_us`."""

    times: tuple[tuple[str, int], ...] = ()
    least_us: int = 0
    most_us: int = 0

    def __neg__(self) -> _Sum:
        times = tuple((alias, -sign) for alias, sign in self.times)
        return replace(self, times=times, least_us=-self.most_us, most_us=-self.least_us)

    def __add__(self, other: _Sum) -> _Sum:
        signs = dict(self.times)
        for alias, sign in other.times:
            signs[alias] = signs.get(alias, 0) + sign
        times = tuple((alias, sign) for alias, sign in signs.items() if sign)
        return _Sum(times, self.least_us + other.least_us, self.most_us + other.most_us)


def bind_intervals(select: ParsedSelect, sources: Sequence[Source]) -> IntervalGraph | None:
    """What the conditions of a SELECT say about the times of its streams, if none of them has a window.

    None if they say nothing, or if FROM has no two streams. PlanError if they leave a stream to be kept for ever.
    """
    streams = [source for source in sources if source.is_stream]
    if select.pair_windows or len(streams) < 2 or not all(map(_may_be_bounded, streams)) or _has_outer_join(select):
        return None
    bounds = tuple(bound for part in _comparisons(select, sources) for bound in bounds_of(part, sources))
    if not bounds:
        return None
    graph = IntervalGraph(tuple(source.alias for source in streams), bounds)
    _check(graph, select, streams)
    return graph


def without_end(sources: tuple[Source, ...], graph: IntervalGraph | None) -> tuple[Source, ...]:
    """The items of FROM, each stream of an interval join with the window that nothing leaves."""
    if graph is None:
        return sources
    return tuple(replace(each, window=UnboundedWindow()) if each.is_stream else each for each in sources)


def bounds_of(conjunct: exp.Expr, sources: Sequence[Source]) -> tuple[TimeBound, ...]:
    """What a resolved condition says about the times of two streams; nothing if it says something else."""
    pairs = _inequalities(conjunct)
    streams = [
        source for source in sources if any(each.table == source.alias for each in conjunct.find_all(exp.Column))
    ]
    kinds = set(map(_kind_of_time, streams))
    if not pairs or len(kinds) != 1 or None in kinds:
        return ()
    adder = _Adder(streams, is_integer=kinds == {_INTEGER})
    found = [adder.bound(*pair) for pair in pairs]
    known = tuple(bound for bound in found if bound is not None)
    return known if len(known) == len(found) else tuple(replace(bound, is_exact=False) for bound in known)


def is_said_by_reach(conjunct: exp.Expr, sources: Sequence[Source]) -> bool:
    """Whether a condition holds for all tuples that are within the reach of each other, and need not be checked."""
    bounds = bounds_of(conjunct, sources)
    is_key = isinstance(conjunct, exp.EQ)
    return bool(bounds) and not is_key and all(bound.is_exact and bound.most_us >= 0 for bound in bounds)


def _has_outer_join(select: ParsedSelect) -> bool:
    """Of an outer join, ON says which rows meet, and not which are in the answer."""
    return any(join.kind != INNER for tree in select.trees for join in joins_of(tree))


def _may_be_bounded(source: Source) -> bool:
    return isinstance(source.info, StreamInfo) and isinstance(source.window, UnboundedWindow | None)


def _comparisons(select: ParsedSelect, sources: Sequence[Source]) -> Iterator[exp.Expr]:
    """The conditions that may compare times, resolved; what is wrong with others is found where all are bound."""
    scope = Scope(sources, select.text)
    for condition in (*select.on, select.where):
        for part in split_conjuncts(condition):
            if isinstance(part, _COMPARISONS) and not is_membership(part):
                with suppress(QueryError):
                    yield scope.resolve(part)


def _inequalities(conjunct: exp.Expr) -> list[tuple[exp.Expr, exp.Expr, bool]]:
    """A comparison as `lesser <= greater`; the flag says that they may not be equal."""
    if isinstance(conjunct, exp.Between):
        this, low, high = conjunct.this, conjunct.args["low"], conjunct.args["high"]
        # BETWEEN SYMMETRIC sorts its bounds first.
        return [] if conjunct.args.get("symmetric") else [(low, this, False), (this, high, False)]
    if not isinstance(conjunct, _COMPARISONS):
        return []
    left, right = conjunct.this, conjunct.expression
    if isinstance(conjunct, exp.LT | exp.LTE):
        return [(left, right, isinstance(conjunct, exp.LT))]
    if isinstance(conjunct, exp.GT | exp.GTE):
        return [(right, left, isinstance(conjunct, exp.GT))]
    return [(left, right, False), (right, left, False)]


def _kind_of_time(source: Source) -> str | None:
    """Timestamps with and without zone, and dates, are instants in UTC; integers cannot be compared with them."""
    if not isinstance(source.info, StreamInfo):
        return None
    return _INTEGER if pa.types.is_integer(source.info.schema.field(source.info.time).type) else _INSTANT


class _Adder:
    """Reads sums of the times of streams, which are all of one kind."""

    def __init__(self, streams: Sequence[Source], is_integer: bool):
        self._times = {each.alias: each.info.time for each in streams if isinstance(each.info, StreamInfo)}
        types = [each.info.schema.field(self._times[each.alias]).type for each in streams]
        # Of nanoseconds, `_ts` says less than the column.
        self._is_exact = not any(pa.types.is_timestamp(type_) and type_.unit == "ns" for type_ in types)
        self._is_integer = is_integer

    def bound(self, lesser: exp.Expr, greater: exp.Expr, is_strict: bool) -> TimeBound | None:
        """What `lesser <= greater`, or `<`, says about two times."""
        sides = self._sum(lesser), self._sum(greater)
        if sides[0] is None or sides[1] is None:
            return None
        gap = sides[0] + -sides[1]
        signs = {sign: alias for alias, sign in gap.times}
        if len(gap.times) != 2 or set(signs) != {1, -1}:
            return None
        is_exact = self._is_exact and gap.least_us == gap.most_us
        slip_us = (-1 if is_strict else 0) if is_exact else 1
        return TimeBound(signs[-1], signs[1], slip_us - gap.least_us, is_exact)

    def _sum(self, expr: exp.Expr) -> _Sum | None:
        expr = without_read(expr).unnest()
        if isinstance(expr, exp.Column):
            return _Sum(((expr.table, 1),)) if self._times.get(expr.table) == expr.name else None
        if all(isinstance(node, _CONSTANT_PARTS) for node in expr.walk()):
            return _constant(expr.sql(dialect=Sash), self._is_integer)
        if not isinstance(expr, exp.Add | exp.Sub):
            return None
        left, right = self._sum(expr.this), self._sum(expr.expression)
        if left is None or right is None:
            return None
        return left + (right if isinstance(expr, exp.Add) else -right)


@functools.lru_cache(maxsize=1024)
def _constant(sql: str, is_integer: bool) -> _Sum | None:
    """A length of time: microseconds beside times that are integers, else an INTERVAL. A month has no one length."""
    months_sql = f"CAST(12 * datepart('year', {sql}) + datepart('month', {sql}) AS INTEGER)"
    values = f"0, CAST({sql} AS BIGINT)" if is_integer else f"{months_sql}, epoch_us({sql} - to_months({months_sql}))"
    with duck.connect() as connection:
        try:
            if connection.sql(f"SELECT {sql}").types[0].id not in (_INTEGERS if is_integer else ("interval",)):
                return None
            months, us = connection.sql(f"SELECT {values}").fetchall()[0]
        except duckdb.Error:
            return None
    if us is None:
        return None
    least_us, most_us = sorted((months * _SHORTEST_MONTH_US + us, months * _LONGEST_MONTH_US + us))
    return _Sum((), least_us, most_us) if max(abs(least_us), abs(most_us)) < FAR // MAX_STREAMS else None


def _check(graph: IntervalGraph, select: ParsedSelect, streams: Sequence[Source]) -> None:
    if len(streams) > MAX_STREAMS:
        remedy = "join some of them in a subquery, or give every stream a window such as [RANGE 1 HOUR]"
        reason = f"conditions on times connect at most {MAX_STREAMS} streams, and there are {len(streams)}; {remedy}"
        raise PlanError(reason, select.text, select.spans["from"])
    if graph.unbounded is None:
        return
    times = {each.alias: f"{each.alias}.{each.info.time}" for each in streams if isinstance(each.info, StreamInfo)}
    older, newer = graph.unbounded
    span = next(each.span for each in streams if each.alias == older)
    example = f"`{times[newer]} <= {times[older]} + INTERVAL 1 HOUR`"
    reason = (
        f"window missing on the join: `{older}` would have to be kept for ever, as no condition says how much later "
        f"`{newer}` may come; add one such as {example}, or give every stream a window such as [RANGE 1 HOUR]"
    )
    raise PlanError(reason, select.text, span)
