"""The windows of pairs of a SELECT, bound: a graph over its streams that tells how long their tuples live.

A graph that means nothing is refused with the place underlined and the graph, as written, below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot import exp

from sash.errors import BindError, PlanError, QueryError, Span, suggest
from sash.sql.catalog import DerivedInfo, Source
from sash.sql.expressions import span_of
from sash.sql.graph_text import describe_graph
from sash.sql.parsed import ParsedSelect
from sash.sql.window_graph import FAR, PairWindow, WindowGraph
from sash.sql.window_kinds import TimeWindow
from sash.sql.windows import ParsedPairWindow

MAX_STREAMS = 8
"""The most streams that windows of pairs may connect: a join keeps as many indexes and probe orders."""


def with_lives(sources: tuple[Source, ...], graph: WindowGraph | None) -> tuple[Source, ...]:
    """The items of FROM, each stream with the window that the graph says its tuples live for."""
    if graph is None:
        return sources
    lives_us = graph.lives_us
    return tuple(
        replace(source, window=TimeWindow(lives_us[source.alias])) if source.alias in lives_us else source
        for source in sources
    )


def bind_window_graph(select: ParsedSelect, sources: Sequence[Source]) -> WindowGraph | None:
    """The graph of a SELECT's windows of pairs over the items of its FROM; None if it has no such windows.

    Raises BindError where a window names what is no stream or the graph is none, PlanError where it cannot run.
    """
    return _GraphBinder(select, sources).bind() if select.pair_windows else None


class _GraphBinder:
    def __init__(self, select: ParsedSelect, sources: Sequence[Source]):
        self._select = select
        self._sources = {source.alias.lower(): source for source in sources}
        self._clause = select.spans["window"]
        aliases = tuple(source.alias for source in sources if source.is_stream)
        self._graph = WindowGraph(aliases, tuple(map(self._pair, select.pair_windows)))

    def bind(self) -> WindowGraph:
        for window in self._select.pair_windows:
            self._check_names(window)
        self._check_pairs()
        self._check_sources()
        self._check_lengths()
        self._check_cycles()
        self._check_connected()
        return self._graph

    def _pair(self, window: ParsedPairWindow) -> PairWindow:
        """With the aliases spelled as in FROM, where they stand there."""
        left, right = (
            self._sources[name.name.lower()].alias if name.name.lower() in self._sources else name.name
            for name in (window.left, window.right)
        )
        return PairWindow(left, right, window.length_us, window.is_directed, window.span)

    def _error(self, kind: type[QueryError], reason: str, span: Span | None) -> QueryError:
        graph = "\n".join(f"  {line}" for line in describe_graph(self._graph).split("\n"))
        return kind(reason, self._select.text, span or self._clause, f"windows of pairs:\n{graph}")

    def _check_names(self, window: ParsedPairWindow) -> None:
        for name in (window.left, window.right):
            self._check_name(name)
        if window.left.name.lower() == window.right.name.lower():
            reason = f"a window of a pair needs two streams, and `{window.left.name}` is one; name another beside it"
            raise self._error(BindError, reason, span_of(window.left, window.right))

    def _check_name(self, name: exp.Identifier) -> None:
        source = self._sources.get(name.name.lower())
        if source is None:
            reason = f"there is no stream `{name.name}` in `FROM`; {suggest(name.name, self._graph.aliases)}"
            raise self._error(BindError, reason, span_of(name))
        if not source.is_stream:
            reason = f"`{source.alias}` is a table, and only streams have windows; remove the window"
            raise self._error(BindError, reason, span_of(name))

    def _check_pairs(self) -> None:
        seen: dict[frozenset[str], PairWindow] = {}
        for pair in self._graph.pairs:
            first = seen.setdefault(frozenset((pair.left, pair.right)), pair)
            if first is not pair:
                reason = f"`{first.left}` and `{first.right}` have two windows; remove one of them"
                raise self._error(BindError, reason, pair.span)

    def _check_sources(self) -> None:
        """What else in FROM gets in the way of the windows."""
        if len(self._graph.aliases) > MAX_STREAMS:
            n_streams = len(self._graph.aliases)
            remedy = "join some of them in a subquery, the others in another, and the two with each other"
            reason = f"windows of pairs connect at most {MAX_STREAMS} streams, and there are {n_streams}; {remedy}"
            raise self._error(PlanError, reason, self._clause)
        for source, item in zip(self._sources.values(), self._select.sources):
            if isinstance(source.info, DerivedInfo):
                remedy = "put the streams with windows of pairs into a subquery of their own and join the two"
                reason = f"windows of pairs beside the subquery `{source.alias}` cannot run in this version; {remedy}"
                raise self._error(PlanError, reason, source.span)
            if item.window is not None and source.is_stream:
                written = self._select.text[item.window.span.start : item.window.span.end]
                reason = f"`{source.alias}` has its window from the windows of pairs; remove `{written}`"
                raise self._error(BindError, reason, item.window.span)

    def _check_lengths(self) -> None:
        """The window of a pair without one is the sum of others."""
        if sum(pair.length_us for pair in self._graph.pairs) >= FAR:
            reason = f"the windows of pairs must add up to less than {FAR} microseconds; shorten them"
            raise self._error(BindError, reason, self._clause)

    def _check_cycles(self) -> None:
        ahead: dict[str, list[str]] = {}
        for pair in self._graph.pairs:
            if not pair.is_directed:
                continue
            ahead.setdefault(pair.left, []).append(pair.right)
            if way := _way(ahead, pair.right, pair.left):
                cycle = " → ".join(f"`{alias}`" for alias in (pair.left, *way))
                remedy = "turn one of them round, or write `WINDOW` for `DWINDOW`"
                reason = f"the directed windows go in a circle, {cycle}, which only equal times could follow; {remedy}"
                raise self._error(BindError, reason, pair.span)

    def _check_connected(self) -> None:
        first, *others = self._graph.parts
        if others:
            steps = [f"WINDOW ({left[-1]}, {right[0]}) = 1 SECOND" for left, right in pairwise((first, *others))]
            parts = f"{_format_part(first)} with {' or '.join(map(_format_part, others))}"
            reason = f"no window connects {parts}; add `AND {' AND '.join(steps)}` or the like"
            raise self._error(BindError, reason, self._clause)


def _way(ahead: Mapping[str, Sequence[str]], start: str, end: str) -> tuple[str, ...] | None:
    """The streams on a shortest way along directed windows, both ends included; None if there is no way."""
    ways = [(start,)]
    seen = {start}
    for way in ways:
        if way[-1] == end:
            return way
        ways += [(*way, alias) for alias in ahead.get(way[-1], ()) if alias not in seen]
        seen.update(ahead.get(way[-1], ()))
    return None


def _format_part(part: Sequence[str]) -> str:
    names = ", ".join(f"`{alias}`" for alias in part)
    return f"({names})" if len(part) > 1 else names
