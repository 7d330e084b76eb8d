"""What EXPLAIN says of a join of many streams: how it finds combinations, within which windows, in which probe orders.

windows    pair  window     order    from
           A, B  1 second   either   given
           B, C  2 seconds  B first  given
           A, C  3 seconds  either   the windows via B
probes     A: B by A.k = B.k (about 2.5 tuples), then C by time
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from sash.cost.multiway_cost import PROBE
from sash.index.probe_order import probe_orders
from sash.operators.combination_checks import Condition
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.papers.wjoin.pair_bounds import is_single_window
from sash.plan.explain.describe_algorithm import algorithm_text, choice_facts
from sash.plan.explain.describe_join import count_text
from sash.plan.explain.wording import format_duration, plain
from sash.plan.multiway import TIME_PREFIX, Reach
from sash.plan.query_plan import MULTIWAY_ALGORITHMS
from sash.sql.graph_text import mermaid
from sash.sql.interval_graph import IntervalGraph
from sash.sql.window_graph import CompletedWindow, WindowGraph
from sash.store.block_window import CUTS

Fact = tuple[str, str]
PairGraph: TypeAlias = WindowGraph | IntervalGraph

HEAD = ("pair", "window", "order", "from")
EITHER = "either"
CONDITIONS = "conditions on times"
PROBING = "each arriving tuple probes the other buffers, by key where streams share one, else by time"
LIMITED = "as memory is limited: no other algorithm finds tuples on disk"
CHOSEN = "probes in the order that is expected to find the fewest tuples; once the query runs, as observed"
EXPIRY = "by the clock of each stream: when no other one can still bring a tuple within reach"


def multiway_facts(spec: MultiwayJoinSpec, graphs: Sequence[PairGraph]) -> list[Fact]:
    """The lines of EXPLAIN about a join of many; `graphs` are the pair windows or intervals of the whole query."""
    keys = [pair for key in spec.keys for pair in key_texts(key)]
    graph = graph_of(spec, graphs)
    conditions = conditions_text(spec.conditions) or "none"
    return [
        ("inputs", ", ".join(spec.names)),
        *_method_facts(spec),
        ("keys", ", ".join(keys) or "none"),
        ("conditions", conditions),
        *_listed("windows", _table([HEAD, *_windows(spec, graph)])),
        *(_listed("probes", _probes(spec)) if _begins_with(spec) == PROBE else []),
        ("expiry", EXPIRY),
        *_listed("state", [_buffer_bound(spec, number) for number in range(len(spec.names))]),
        ("emission", "a combination as soon as its last tuple is there"),
    ]


def pictures(graphs: Sequence[PairGraph]) -> list[str]:
    """The completed graphs as Mermaid, each under a title; nothing of it is indented by anything else."""
    lines: list[str] = []
    for graph in dict.fromkeys(each for each in graphs if isinstance(each, WindowGraph)):
        lines += [f"Windows of {', '.join(graph.aliases)} as a picture (Mermaid):", *mermaid(graph).splitlines()]
    return lines


def orders_text(names: Sequence[str], orders: Sequence[Sequence[int]]) -> str:
    """Probe orders in short."""
    return "; ".join(
        f"{name}: {', then '.join(names[number] for number in order)}" for name, order in zip(names, orders)
    )


def graph_of(spec: MultiwayJoinSpec, graphs: Sequence[PairGraph]) -> PairGraph | None:
    """The graph that a join's windows come from: it has its streams, and lets them reach as far as the join does."""
    parts = spec.members
    for graph in graphs:
        if all(alias in graph.aliases for part in parts for alias in part):
            reach = Reach(graph.aliases, graph.reach_us)
            us = [[0 if one is other else reach.between(one, other) for other in parts] for one in parts]
            if us == [list(row) for row in spec.reach_us]:
                return graph
    return None


def key_texts(key: Sequence[tuple[str, ...]]) -> list[str]:
    """What a key makes equal, column by column: `A.k = B.k = C.k`."""
    return [" = ".join(names) for names in zip(*filter(None, key), strict=True)]


def conditions_text(conditions: Sequence[Condition]) -> str:
    """Conditions as written; of those that compare carried times, that they do. Nothing if there are none."""
    written = [plain(each.sql) for each in conditions if TIME_PREFIX not in each.sql]
    if len(written) < len(conditions):
        written.append("the windows of streams joined before, by the times they carry")
    return ", ".join(written)


def spans_us(spec: MultiwayJoinSpec) -> list[int]:
    """For how long a tuple of each input is held, without the microseconds by which sums of windows fall short."""
    n_streams = sum(map(len, spec.members))
    return [_rounded(us, n_streams) for us in spec.spans_us]


def _method_facts(spec: MultiwayJoinSpec) -> list[Fact]:
    choice = spec.choice
    if choice is not None and choice.load is not None:
        algorithm = PROBING if choice.algorithm == PROBE else algorithm_text(choice)
        order = [("order", CHOSEN)] if choice.algorithm == PROBE and len(spec.names) > 2 else []
        return [("algorithm", algorithm), *choice_facts(choice, spec.names), *order]
    if spec.algorithm == PROBE:
        order = [CHOSEN] if len(spec.names) > 2 else []
        asked = ["by hint"] if choice is not None and choice.is_hinted else []
        limited = [LIMITED] if choice is not None and choice.is_limited else []
        return [("algorithm", PROBING), ("chosen", "; ".join([*asked, *limited, *order]))]
    inside = f", with {MULTIWAY_ALGORITHMS[spec.inner]} inside" if spec.inner else ""
    if spec.algorithm == "mw" and not is_single_window(np.array(spec.reach_us)):
        inside = " within the longest window; what it finds is checked against those of all pairs (GCA)"
    return [("algorithm", f"{MULTIWAY_ALGORITHMS[spec.algorithm]}{inside}"), ("chosen", "by hint")]


def _begins_with(spec: MultiwayJoinSpec) -> str:
    """The algorithm that a join has at first."""
    return spec.choice.algorithm if spec.choice is not None else spec.algorithm


def _windows(spec: MultiwayJoinSpec, graph: PairGraph | None) -> Iterator[tuple[str, ...]]:
    if graph is None:
        return _stream_windows(spec)
    return _graph_windows(spec, graph) if isinstance(graph, WindowGraph) else _intervals(spec)


def _graph_windows(spec: MultiwayJoinSpec, graph: WindowGraph) -> Iterator[tuple[str, ...]]:
    """Of the streams that meet in this join."""
    parts = spec.members
    meet = {frozenset(pair) for one, other in combinations(parts, 2) for pair in product(one, other)}
    for window in graph.windows:
        if frozenset((window.left, window.right)) in meet:
            yield _pair(window), format_duration(window.length_us), _order(window), _origin(window)


def _pair(window: CompletedWindow) -> str:
    return f"{window.left}, {window.right}"


def _order(window: CompletedWindow) -> str:
    return f"{window.left} first" if window.is_directed else EITHER


def _origin(window: CompletedWindow) -> str:
    return "given" if window.via is None else f"the windows via {', '.join(window.via)}"


def _stream_windows(spec: MultiwayJoinSpec) -> Iterator[tuple[str, ...]]:
    """Where every stream has a window: the older tuple must still be in its own."""
    for one, other in combinations(range(len(spec.names)), 2):
        pair = f"{spec.names[one]}, {spec.names[other]}"
        if spec.reach_us[one][other] == spec.reach_us[other][one]:
            yield pair, format_duration(spec.reach_us[one][other] + 1), EITHER, "the window of each"
            continue
        for older, newer in ((one, other), (other, one)):
            name, length = spec.names[older], format_duration(spec.reach_us[older][newer] + 1)
            yield pair, length, f"{name} first", f"the window of {name}"


def _intervals(spec: MultiwayJoinSpec) -> Iterator[tuple[str, ...]]:
    """Of an interval join: how much later the tuple of one input may be, both ends included."""
    for one, other in combinations(range(len(spec.names)), 2):
        pair = f"{spec.names[one]}, {spec.names[other]}"
        later = [(older, newer) for older, newer in ((one, other), (other, one)) if spec.reach_us[older][newer]]
        for older, newer in later:
            yield pair, _interval(spec.reach_us[older][newer]), f"{spec.names[older]} first", CONDITIONS
        if not later:
            yield pair, "the same instant", EITHER, CONDITIONS


def _interval(most_us: int) -> str:
    """A microsecond less than whole milliseconds is how `<` is kept."""
    is_open = most_us % 1000 == 999
    return f"less than {format_duration(most_us + 1)}" if is_open else f"up to {format_duration(most_us)}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]


def _probes(spec: MultiwayJoinSpec) -> Iterator[str]:
    """For each arriving stream the others, in the order in which it probes them, and by what."""
    has_key = np.array([[bool(key[number]) for key in spec.keys] for number in range(len(spec.names))], dtype=bool)
    for arriving, order in enumerate(probe_orders(has_key, spec.fanouts)):
        steps = [_probe(spec, [arriving, *order[:place]], target) for place, target in enumerate(order)]
        yield f"{spec.names[arriving]}: {', then '.join(steps)}"


def _probe(spec: MultiwayJoinSpec, bound: Sequence[int], target: int) -> str:
    keys: list[str] = []
    for key in spec.keys:
        source = next((number for number in bound if key[number] and key[target]), None)
        if source is not None:
            keys += [f"{own} = {other}" for own, other in zip(key[source], key[target], strict=True)]
    known = [fanout for number in bound if spec.fanouts and (fanout := spec.fanouts[number][target]) is not None]
    expected = f" (about {count_text(min(known))} tuples)" if known else ""
    return f"{spec.names[target]} by {' and '.join(keys) or 'time'}{expected}"


def _buffer_bound(spec: MultiwayJoinSpec, number: int) -> str:
    others = [name for other, name in enumerate(spec.names) if other != number]
    span_us = spans_us(spec)[number]
    length = "the present instant" if span_us == 1 else format_duration(span_us)
    reachable = f"the tuples of {length} that {' or '.join(others)} can still reach"
    return f"{spec.names[number]}: {reachable}, and up to 1/{CUTS} more"


def _rounded(us: int, n_streams: int) -> int:
    """A length without the microseconds by which sums of windows, each less than its length, fall short of a whole."""
    whole = -(-us // 1000) * 1000
    return whole if whole - us < n_streams else us


def _listed(name: str, lines: Iterable[str]) -> list[Fact]:
    """Lines under one name."""
    return [(name if number == 0 else "", line) for number, line in enumerate(lines)]
