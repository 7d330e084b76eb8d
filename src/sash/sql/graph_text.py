"""Graphs of pair windows as text for a terminal, and as Mermaid for a page.

    A --1 second-- B                     WINDOW (A, B) = 1 SECOND
    B --2 seconds--> C                   DWINDOW (B, C) = 2 SECONDS
    A --3 seconds via B-- C              what follows for a pair without a window
    D                                    a stream without any

Errors print a graph as it was written, without what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sash.sql.durations import format_duration
from sash.sql.window_graph import CompletedWindow, PairWindow, WindowGraph

_MERMAID_WORDS = {
    "end",
    "graph",
    "subgraph",
    "flowchart",
    "style",
    "class",
    "classdef",
    "click",
    "default",
    "linkstyle",
}


def describe_graph(graph: WindowGraph, completed: bool = False) -> str:
    """One line for each window as written, with `completed` one for each that follows as well, then lone streams.

    Without `completed` the graph may be any: of several parts, with two windows for a pair, of streams that are not in
    `aliases`.
    """
    windows = [*graph.pairs, *(_following(graph) if completed else ())]
    return "\n".join([*map(_line, windows), *_lone(graph)])


def mermaid(graph: WindowGraph) -> str:
    """A flow chart of the completed graph, from left to right: dotted lines are windows that follow from others.

    The graph must be connected.
    """
    windows = [*graph.pairs, *_following(graph)]
    lines = [f"    {_node(each.left)} {_arrow(each)}|{_escape(_label(each))}| {_node(each.right)}" for each in windows]
    return "\n".join(["graph LR", *lines])


def _line(window: PairWindow | CompletedWindow) -> str:
    return f"{window.left} --{_label(window)}--{'>' if window.is_directed else ''} {window.right}"


def _label(window: PairWindow | CompletedWindow) -> str:
    via = f" via {', '.join(window.via)}" if isinstance(window, CompletedWindow) and window.via else ""
    return f"{format_duration(window.length_us)}{via}"


def _arrow(window: PairWindow | CompletedWindow) -> str:
    if isinstance(window, PairWindow):
        return "-->" if window.is_directed else "---"
    return "-.->" if window.is_directed else "-.-"


def _following(graph: WindowGraph) -> Sequence[CompletedWindow]:
    return [window for window in graph.windows if window.via is not None]


def _lone(graph: WindowGraph) -> list[str]:
    in_pairs = {alias for pair in graph.pairs for alias in (pair.left, pair.right)}
    return [alias for alias in graph.aliases if alias not in in_pairs]


def _node(alias: str) -> str:
    """An alias that Mermaid could take for something else gets a plain name, and its own as what is shown."""
    if re.fullmatch(r"[A-Za-z]\w*", alias, re.ASCII) and alias.lower() not in _MERMAID_WORDS:
        return alias
    plain = "".join(char if char.isascii() and char.isalnum() else f"_{ord(char):x}_" for char in alias)
    return f'_{plain}["{_escape(alias)}"]'


def _escape(text: str) -> str:
    """Text in which nothing is a sign to Mermaid."""
    return re.sub(r"[^\w ,]", lambda sign: f"#{ord(sign[0])};", text)
