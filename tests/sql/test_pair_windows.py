"""Windows of pairs bound: to which SELECT they belong, over which streams, and how long tuples live."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from sash.sql.bind import bind
from sash.sql.bound_query import Block, BoundQuery, BoundSet
from sash.sql.catalog import Catalog, DerivedInfo
from sash.sql.parse import parse_query
from sash.sql.window_graph import PairWindow, WindowGraph
from sash.sql.window_kinds import TimeWindow

SECOND = 1_000_000
AB = "FROM temperature A, humidity B"

UNDIRECTED = PairWindow("A", "B", SECOND)
DIRECTED = PairWindow("B", "A", 2 * SECOND, is_directed=True)


def bind_select(text: str, catalog: Catalog) -> BoundQuery:
    bound = bind(parse_query(text), catalog)
    assert isinstance(bound, BoundQuery)
    return bound


def graphs_in(block: Block) -> Iterator[tuple[PairWindow, ...] | None]:
    """The windows of pairs of every SELECT that reads streams themselves, in the order of the text."""
    if isinstance(block, BoundSet):
        yield from graphs_in(block.left)
        yield from graphs_in(block.right)
        return
    derived = [source.info.block for source in block.sources if isinstance(source.info, DerivedInfo)]
    for inner in derived:
        yield from graphs_in(inner)
    if not derived:
        yield block.window_graph.pairs if block.window_graph else None
    for membership in block.memberships:
        yield from graphs_in(membership.block)


def test_the_graph_and_the_lives_of_a_chain(catalog: Catalog) -> None:
    bound = bind_select(
        "SELECT 1 FROM temperature First, rooms R, humidity, temperature C "
        'WHERE First.n = C.n WINDOW (FIRST, "humidity") = 1 SECOND AND DWINDOW (c, Humidity) = 2 SECONDS',
        catalog,
    )
    assert bound.window_graph == WindowGraph(
        ("First", "humidity", "C"),
        (PairWindow("First", "humidity", SECOND), PairWindow("C", "humidity", 2 * SECOND, is_directed=True)),
    )
    assert [(source.alias, source.window) for source in bound.sources] == [
        ("First", TimeWindow(3 * SECOND)),
        ("R", None),
        ("humidity", TimeWindow(2 * SECOND)),
        ("C", TimeWindow(3 * SECOND)),
    ]


def test_windows_of_a_pair_remember_their_place(catalog: Catalog) -> None:
    bound = bind_select(f"SELECT 1 {AB} DWINDOW (B, A) = 2 s EMIT CHANGES", catalog)
    assert bound.window_graph is not None
    (pair,) = bound.window_graph.pairs
    assert pair.span is not None
    assert pair.span == bound.spans["window"]
    assert bound.text[pair.span.start : pair.span.end] == "DWINDOW (B, A) = 2 s"


def test_other_queries_have_no_graph(catalog: Catalog) -> None:
    assert bind_select(f"SELECT 1 {AB} WINDOW 1 s", catalog).window_graph is None


def test_a_graph_of_eight_streams(catalog: Catalog) -> None:
    aliases = [f"s{number}" for number in range(8)]
    streams = ", ".join(f"temperature {alias}" for alias in aliases)
    windows = " AND ".join(f"DWINDOW ({left}, {right}) = 1 s" for left, right in pairwise(aliases))
    bound = bind_select(f"SELECT 1 FROM {streams} {windows}", catalog)
    assert bound.sources[0].window == TimeWindow(7 * SECOND)
    assert bound.sources[3].window == TimeWindow(4 * SECOND)


def test_a_directed_window_against_the_way_of_undirected_ones_is_no_circle(catalog: Catalog) -> None:
    bound = bind_select(
        f"SELECT 1 {AB}, humidity C DWINDOW (A, B) = 1 s AND WINDOW (B, C) = 1 s AND DWINDOW (C, A) = 1 s", catalog
    )
    assert bound.window_graph is not None
    assert len(bound.window_graph.pairs) == 3


@pytest.mark.parametrize(
    ("text", "graphs"),
    [
        (
            f"SELECT A.n {AB} WINDOW (A, B) = 1 s UNION ALL SELECT A.n {AB} DWINDOW (B, A) = 2 s EMIT CHANGES",
            [(UNDIRECTED,), (DIRECTED,)],
        ),
        (
            f"(SELECT A.n {AB} WINDOW (A, B) = 1 s) EXCEPT (SELECT A.n {AB} DWINDOW (B, A) = 2 s) EMIT CHANGES",
            [(UNDIRECTED,), (DIRECTED,)],
        ),
        (
            f"SELECT A.n {AB} WINDOW (A, B) = 1 s UNION ALL SELECT A.n {AB} WINDOW 2 s "
            f"UNION ALL SELECT A.n {AB} DWINDOW (B, A) = 2 s",
            [(UNDIRECTED,), None, (DIRECTED,)],
        ),
        (f"SELECT A.n {AB} DWINDOW (B, A) = 2 s INTERSECT SELECT n FROM temperature WINDOW 5 s", [(DIRECTED,), None]),
        (f"(SELECT A.n {AB}) WINDOW (A, B) = 1 s", [(UNDIRECTED,)]),
        (f"SELECT n FROM (SELECT A.n {AB} WINDOW (A, B) = 1 s) s", [(UNDIRECTED,)]),
        (f"WITH s AS (SELECT A.n {AB} DWINDOW (B, A) = 2 s) SELECT n FROM s", [(DIRECTED,)]),
        (
            f"SELECT 1 FROM (SELECT A.n {AB} WINDOW (A, B) = 1 s) s, (SELECT A.n {AB} DWINDOW (B, A) = 2 s) t "
            "WHERE s.n = t.n",
            [(UNDIRECTED,), (DIRECTED,)],
        ),
        (
            f"SELECT 1 {AB} WHERE A.n IN (SELECT n FROM temperature A, humidity B DWINDOW (B, A) = 2 s) "
            "WINDOW (A, B) = 1 s",
            [(UNDIRECTED,), (DIRECTED,)],
        ),
        (
            "SELECT 1 FROM temperature T WHERE NOT EXISTS "
            f"(SELECT 1 {AB} WHERE A.n = T.n AND A.value = B.value DWINDOW (B, A) = 2 s) WINDOW 1 s",
            [None, (DIRECTED,)],
        ),
        (
            f"SELECT A.n, count(*) {AB} WHERE A.value = B.value GROUP BY A.n HAVING count(*) > 1 WINDOW (A, B) = 1 s",
            [(UNDIRECTED,)],
        ),
        ("SELECT DISTINCT n FROM temperature A JOIN humidity B USING (location) DWINDOW (B, A) = 2 s", [(DIRECTED,)]),
    ],
)
def test_windows_of_pairs_belong_to_the_select_before_them(
    text: str, graphs: list[tuple[PairWindow, ...] | None], catalog: Catalog
) -> None:
    assert list(graphs_in(bind(parse_query(text), catalog))) == graphs


def test_a_window_around_does_not_reach_streams_with_windows_of_pairs(catalog: Catalog) -> None:
    text = f"SELECT s.n FROM (SELECT A.n {AB} WINDOW (A, B) = 1 s) s, temperature T WHERE s.n = T.n WINDOW 9 s"
    derived, stream = bind_select(text, catalog).sources
    assert stream.window == TimeWindow(9 * SECOND)
    assert isinstance(derived.info, DerivedInfo)
    assert isinstance(derived.info.block, BoundQuery)
    assert [source.window for source in derived.info.block.sources] == [TimeWindow(SECOND)] * 2
