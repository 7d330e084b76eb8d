"""Graphs of pair windows as text and as Mermaid."""

from __future__ import annotations

import pytest

from sash.sql.graph_text import describe_graph, mermaid
from sash.sql.window_graph import PairWindow, WindowGraph

SECOND = 1_000_000

MIXED = WindowGraph(
    ("A", "B", "C", "D"),
    (
        PairWindow("A", "B", SECOND),
        PairWindow("C", "B", 2 * SECOND, is_directed=True),
        PairWindow("C", "D", SECOND // 2, is_directed=True),
    ),
)
PATH = WindowGraph(
    ("A", "B", "C", "D"),
    tuple(PairWindow(left, right, SECOND, is_directed=True) for left, right in ("AB", "BC", "CD")),
)


def test_text() -> None:
    assert describe_graph(MIXED).splitlines() == [
        "A --1 second-- B",
        "C --2 seconds--> B",
        "C --500 milliseconds--> D",
    ]


def test_text_of_the_completed_graph() -> None:
    assert describe_graph(MIXED, completed=True).splitlines()[3:] == [
        "A --3 seconds via B-- C",
        "A --3 seconds 500 milliseconds via B, C-- D",
        "B --2 seconds 500 milliseconds via C-- D",
    ]
    assert describe_graph(PATH, completed=True).splitlines()[-1] == "B --2 seconds via C--> D"


def test_text_of_lone_streams_and_of_streams_that_are_not_there() -> None:
    graph = WindowGraph(("A", "B", "C"), (PairWindow("B", "X", 1), PairWindow("X", "B", 1)))
    assert describe_graph(graph).splitlines() == ["B --1 microsecond-- X", "X --1 microsecond-- B", "A", "C"]


def test_mermaid() -> None:
    assert mermaid(MIXED).splitlines() == [
        "graph LR",
        "    A ---|1 second| B",
        "    C -->|2 seconds| B",
        "    C -->|500 milliseconds| D",
        "    A -.-|3 seconds via B| C",
        "    A -.-|3 seconds 500 milliseconds via B, C| D",
        "    B -.-|2 seconds 500 milliseconds via C| D",
    ]


def test_mermaid_of_a_path() -> None:
    assert "    A -.->|3 seconds via B, C| D" in mermaid(PATH).splitlines()


@pytest.mark.parametrize(
    ("alias", "node"),
    [
        ("sensor_1", "sensor_1"),
        ("end", '_end["end"]'),
        ("my stream", '_my_20_stream["my stream"]'),
        ('a"b', '_a_22_b["a#34;b"]'),
        ("größe", '_gr_f6__df_e["größe"]'),
        ("a__b", "a__b"),
    ],
)
def test_mermaid_of_unusual_names(alias: str, node: str) -> None:
    graph = WindowGraph((alias, "B"), (PairWindow(alias, "B", SECOND),))
    assert mermaid(graph).splitlines()[1] == f"    {node} ---|1 second| B"


def test_mermaid_labels_name_unusual_streams_in_between() -> None:
    graph = WindowGraph(("A", "x|y", "B"), (PairWindow("A", "x|y", SECOND), PairWindow("x|y", "B", SECOND)))
    assert mermaid(graph).splitlines()[-1] == "    A -.-|2 seconds via x#124;y| B"
