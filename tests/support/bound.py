"""What EXPLAIN declares about the state of a query, in numbers.

Once the clock (the slowest stream less its slack) stands at T, in tuples. A tuple is what a subtree of the plan puts
out: a row that passes its filter, or a combination that satisfies the conditions so far.

    Reorder        the rows of the batches that have a row newer than T
    CountWindow    the rows in the window at T, and as many that have left
    WindowJoin     of each input: its tuples with enters <= T < expires + life / 8, where `life` is the longest they
                   can live; where tuples can be taken back, those that have not been, and as many that have
    MultiwayJoin   of each input: its tuples with enters <= T < enters + reach + (reach + 1) / 8, where `reach` is by
                   how much a tuple that joins them can be newer
    Expire         as WindowJoin, of the answer's rows, less those that never expire
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.operators.changes import read_times
from sash.operators.count_window import CountWindowSpec
from sash.operators.expire import ExpireSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node
from sash.operators.operator_kinds import InputSpec, RelationSpec
from sash.operators.window_join import WindowJoinSpec
from sash.oracle.reference import Life, find_combinations
from sash.plan.logical import aliases_of
from sash.sql.bound_query import BoundQuery
from sash.sql.window_graph import WindowGraph
from sash.sql.window_kinds import RowsWindow
from sash.store.batch import NEVER
from sash.store.block_window import CUTS
from sash.testing.case import Case, Push, Step


@dataclass(frozen=True, slots=True)
class _Window:
    """The lives of all tuples that an operator will ever hold."""

    lives: list[Life]
    life_us: int | None
    is_retiring: bool
    """Whether tuples can be taken back."""

    def n_rows(self, clock: int) -> int:
        n_held = sum(self._is_held(life, clock) for life in self.lives)
        return 2 * n_held if self.is_retiring else n_held

    def _is_held(self, life: Life, clock: int) -> bool:
        if life.leaves < life.expires:
            return life.enters <= clock < life.leaves
        return life.enters <= clock < life.expires + (self.life_us or 0) // CUTS


class DeclaredState:
    """The bound on the state of a case, while its rows arrive."""

    def __init__(self, case: Case):
        self._case = case
        self._windows = [window for node in case.plan.root.walk() for window in self._windows_of(node)]
        self._batches: list[tuple[int, int]] = []

    def arrive(self, step: Step) -> None:
        """Takes note of a batch before it is pushed."""
        if not isinstance(step, Push) or step.start == step.stop:
            return
        slots = [slot for slot in self._case.plan.slots if slot.source.name == step.stream]
        batch = self._case.arrivals[step.stream].slice(step.start, step.stop - step.start)
        newest = int(read_times(batch.column(slots[0].info.time)).max())
        self._batches.append((newest, batch.num_rows * len(slots)))

    def n_rows(self, clock: int) -> int:
        """The most rows that may be in state when the clock stands there."""
        n_waiting = sum(n_rows for newest, n_rows in self._batches if newest > clock)
        return n_waiting + sum(window.n_rows(clock) for window in self._windows)

    def _windows_of(self, node: Node) -> list[_Window]:
        match node.spec:
            case CountWindowSpec():
                return [self._window(node, None, is_filtered=False)]
            case WindowJoinSpec(windows_us=windows_us):
                return [self._window(child, life_us) for child, life_us in zip(node.inputs, windows_us)]
            case MultiwayJoinSpec(reach_us=reach_us):
                return [self._reached(child, max(row)) for child, row in zip(node.inputs, reach_us, strict=True)]
            case ExpireSpec(window_us=window_us):
                window = self._window(node, window_us)
                return [replace(window, lives=[life for life in window.lives if life.expires < NEVER])]
        return []

    def _reached(self, node: Node, reach_us: int) -> _Window:
        """The window of an input of a join of many, whose tuples are held while one that is to come can join them."""
        entered = [life.enters for life in self._window(node, None).lives]
        lives = [Life(enters, enters + reach_us, enters + reach_us) for enters in entered]
        return _Window(lives, reach_us + 1, is_retiring=False)

    def _window(self, node: Node, life_us: int | None, is_filtered: bool = True) -> _Window:
        """The window of what a subtree puts out."""
        bound = self._case.bound
        assert isinstance(bound, BoundQuery), "only joins declare their state in numbers"
        aliases = {self._alias(leaf.spec) for leaf in node.walk() if isinstance(leaf.spec, InputSpec | RelationSpec)}
        sources = tuple(source for source in bound.sources if source.alias in aliases)
        conjuncts = [one for one in bound.conjuncts if is_filtered and aliases_of(one) and aliases_of(one) <= aliases]
        part = replace(
            bound, sources=sources, conjuncts=tuple(conjuncts), outputs=(), window_graph=_within(bound, aliases)
        )
        lives = [one.life for one in find_combinations(part, self._case.tables)]
        return _Window(lives, life_us, any(isinstance(source.window, RowsWindow) for source in sources))

    def _alias(self, spec: InputSpec | RelationSpec) -> str:
        return spec.alias if isinstance(spec, RelationSpec) else self._case.plan.slots[spec.slot].source.alias


def _within(bound: BoundQuery, aliases: set[str]) -> WindowGraph | None:
    """The windows of the pairs among some of the streams."""
    graph = bound.window_graph
    if graph is None:
        return None
    pairs = tuple(pair for pair in graph.pairs if {pair.left, pair.right} <= aliases)
    return WindowGraph(tuple(alias for alias in graph.aliases if alias in aliases), pairs)
