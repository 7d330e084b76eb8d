"""The windows of a join's two sides and the index over them: what every join of two owns to find its pairs.

    seal ──── if memory is short: the oldest rows of a window go to disk
    insert ── rows of a step into their windows
    index ─── which of them meet each other and what is in memory, by the method that was chosen
    probe ─── which of them meet what is on disk, whatever the method
    evict ─── what can meet nobody any more leaves; an index over rows that got new numbers is filled anew

The windows are the truth. The index is made from them, so another one can take over between any two steps. A pair is
found once, by the row that comes later: rows are sealed between steps, when they have met all that came before.

Where memory is limited, a step may have more rows than it has room for. They look into the segments that are there
before any of them comes in, so that each segment is read once, and then come in piece by piece:

    a step   ──▶ segments                                       rows that are expected
    a piece  insert ── index ──▶ segments of rows that were sealed for this step ── evict
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from sash.index.head_room import make_room, row_bytes
from sash.index.join_index import LEFT, RIGHT, JoinIndex, Pairs, WindowIndex
from sash.store.bites import Bite, Bites
from sash.store.block_log import Adapt, BlockLog
from sash.store.block_window import NO_ROWS
from sash.store.expected_rows import ExpectedRows
from sash.store.memory_budget import SHARE_OF_PIECE
from sash.store.window import Window

SIDES = ("left", "right")
W = TypeVar("W", bound=Window)
I = TypeVar("I", bound=WindowIndex)  # noqa: E741
Sides: TypeAlias = tuple[W | ExpectedRows, W | ExpectedRows]
"""Where the rows of pairs are to be read."""
MakeIndex: TypeAlias = Callable[[Sequence[W]], I]


class Looking(NamedTuple, Generic[W]):
    """Rows of a side, from `first` on, that look for partners on disk."""

    side: int
    rows: W | ExpectedRows
    first: int
    keys: np.ndarray
    ts: np.ndarray
    ends: np.ndarray


class PairFinder(Generic[W, I]):
    """Two windows with an index. What a step's rows are, and what becomes of pairs, is the owner's business."""

    def __init__(self, windows: Sequence[W], make_index: MakeIndex[W, I]):
        left, right = windows
        self.windows = left, right
        self.index = make_index(self.windows)

    @property
    def firsts(self) -> tuple[int, int]:
        """The rows of each side that the next tuples become."""
        return self.windows[LEFT].next_row, self.windows[RIGHT].next_row

    @property
    def n_held(self) -> tuple[int, int]:
        """Rows of each side, dead ones included."""
        return self.windows[LEFT].log.n_rows, self.windows[RIGHT].log.n_rows

    def insert(self, inputs: Sequence[pa.Table], horizon: int) -> tuple[int, int]:
        """Puts a step's tuples into the windows, not into the index; `firsts` as they were before."""
        self.make_room(sum(batch.num_rows for batch in inputs), sum(batch.nbytes for batch in inputs))
        firsts = self.firsts
        for window, batch in zip(self.windows, inputs, strict=True):
            window.insert(batch, horizon)
        return firsts

    def pairs(self, index: JoinIndex, inputs: Sequence[pa.Table], horizon: int) -> Iterator[tuple[Pairs, Sides[W]]]:
        """The pairs of a step in which no tuple is taken back, in chunks, and where the rows of both sides are to be
        read; each is good until the next is asked for. After the last one, tuples that are dead are gone.

        `index` is its own, which gives pairs as rows come in.
        """
        assert index is self.index
        budget = self.windows[LEFT].arena.budget
        if budget is None:
            for pairs in index.arrive(self.insert(inputs, horizon), horizon):
                yield pairs, self.windows
            self.evict(horizon)
            return
        step = Bites(Bite(dict(enumerate(inputs)), horizon, {}), budget, share=SHARE_OF_PIECE)
        for found, sides in self._pairs_in_pieces(index, step):
            n_bytes = sum(max(row_bytes(window), _row_bytes(batch)) for window, batch in zip(self.windows, inputs))
            for pairs in found.parts(budget.n_pairs_at_once(n_bytes)):
                yield pairs, sides

    def evict(self, horizon: int, retracted: Sequence[np.ndarray] = (NO_ROWS, NO_ROWS)) -> None:
        """At the end of a step: lets go of the retracted rows of each side, and of all that has ended by then."""
        n_rebuilds = self._n_rebuilds
        for window, rows in zip(self.windows, retracted, strict=True):
            window.evict(horizon, rows)
        self.index.advance(horizon)
        if self._n_rebuilds > n_rebuilds:
            self.index.refill()

    def adopt(self, make_index: MakeIndex[W, I], horizon: int) -> None:
        """Goes on with another index over the same rows."""
        self.index.free()
        self.index = make_index(self.windows)
        self._refill(horizon)

    def logs(self) -> dict[str, BlockLog]:
        """What has to survive of both windows."""
        return {name: window.log for name, window in zip(SIDES, self.windows)}

    def restore(
        self,
        entries: Mapping[str, Mapping[str, bytes]],
        next_numbers: Mapping[str, int],
        horizon: int,
        adapt: Callable[[int], Adapt] | None = None,
    ) -> None:
        """Becomes what it was when these entries were taken; `adapt` makes tuples that were kept otherwise, by side.

        Tuples may live shorter when adapted: what is dead then is gone at once.
        """
        for side, name in enumerate(SIDES):
            how = {} if adapt is None else {"adapt": adapt(side)}
            self.windows[side].restore(entries[name], next_numbers[name], horizon, **how)
            self.windows[side].evict(horizon)
        self._refill(horizon)

    def _pairs_in_pieces(self, index: JoinIndex, step: Bites) -> Iterator[tuple[Pairs, Sides[W]]]:
        """With rows in memory and on disk."""
        met: Set[str] = frozenset()
        if not step.is_whole:
            met = {segment.name for window in self.windows for segment in window.log.segments}
            yield from self._pairs_of_expected(step.arrivals)
        for piece in step:
            assert not any(window.has_early_ends for window in self.windows), "what was met may come back into memory"
            firsts = self.insert([piece.arrivals[side] for side in (LEFT, RIGHT)], piece.clock)
            for pairs in index.arrive(firsts, piece.clock):
                yield pairs, self.windows
            for side, first in enumerate(firsts):
                own = self.windows[side]
                at = slice(first - own.base, own.next_row - own.base)
                looking = Looking(side, own, first, own.keys[at], own.ts[at], own.ends[at])
                yield from self._pairs_with_sealed(looking, met)
            self.evict(piece.clock)

    def _pairs_of_expected(self, arrivals: Mapping[int, pa.Table]) -> Iterator[tuple[Pairs, Sides[W]]]:
        """Pairs of rows that have not come in with rows that are on disk."""
        for side, window in enumerate(self.windows):
            if self.windows[1 - side].log.segments and arrivals[side].num_rows:
                rows = window.expected(arrivals[side])
                looking = Looking(side, rows, rows.first, window.keys_in(arrivals[side]), rows.ts, rows.ends)
                yield from self._pairs_with_sealed(looking, frozenset())

    def _pairs_with_sealed(self, own: Looking[W], met: Set[str]) -> Iterator[tuple[Pairs, Sides[W]]]:
        """Pairs of rows of a side with rows of the other one that are on disk, but for segments that they have `met`,
        by name.
        """
        other = self.windows[1 - own.side]
        for found in other.probe_sealed(own.keys, own.ts, own.ends, met):
            rows = own.first + found.tuples
            ts, expires, _ = own.rows.values(rows)
            lives = np.maximum(ts, found.ts), np.minimum(expires, found.expires)
            if own.side == LEFT:
                yield Pairs(rows, found.rows, *lives), (own.rows, other)
            else:
                yield Pairs(found.rows, rows, *lives), (other, own.rows)

    def make_room(self, n_rows: int = 0, n_bytes: int = 0) -> None:
        """Lets rows go to disk if memory would be short when so much comes in."""
        budget = self.windows[LEFT].arena.budget
        if budget is not None:
            make_room(self.windows, budget, self.index.give_room, n_rows, n_bytes + self.index.growth(n_rows))

    def _refill(self, horizon: int) -> None:
        self.index.advance(horizon)
        self.index.refill()

    @property
    def _n_rebuilds(self) -> int:
        return sum(window.n_rebuilds for window in self.windows)


def take_in_order(
    side: Window | ExpectedRows, rows: np.ndarray, names: list[str], order: np.ndarray | None
) -> pa.Table:
    """Columns of rows, put in this order. Those on disk are found in the order in which they lie there."""
    if order is None or isinstance(side, ExpectedRows) or side.are_in_memory(rows):
        return side.take(rows if order is None else rows[order], names)
    return side.take(rows, names).take(pa.array(order))


def _row_bytes(batch: pa.Table) -> int:
    return batch.nbytes // max(1, batch.num_rows)
