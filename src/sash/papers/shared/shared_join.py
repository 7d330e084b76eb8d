"""One window join for queries with different windows: LWO, SWF and MQT ("Scheduling for shared window joins over data
streams", §3).

    with w1 < w2, a tuple scans                │◄─── w1 ───►│◄── w2 − w1 ──►│     the other stream, from the newest on
    and whoever waits takes turns after each partial window; which of them is next, and when the router may let a pair
    go, is the schedule

The law: every query gets the pairs (earlier, later) of both streams with equal keys and `later.ts - earlier.ts < w`,
ordered by the arrival of the later and of one later tuple from the newest partner on, as if it were alone. Join
buffers hold what is in the largest window of the oldest tuple that still scans.

Work takes time by a queueing clock: so much for each tuple looked at, so much for each pair. It decides what arrives
during a scan, and the response time: when a query gets a pair, less the arrival of the later tuple.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sash.index.join_index import Pairs
from sash.papers.shared.max_query_throughput import throughput_matrix
from sash.papers.shared.partial_windows import NEVER, Assignment, run_until
from sash.papers.shared.shared_board import insert_window, new_board, new_line, remove_window
from sash.papers.shared.shared_line import (
    FIRST_HELD,
    FIRST_KEPT,
    FIRST_ROW,
    KEY,
    LWO,
    MAX_HELD,
    MAX_KEPT,
    MAX_WAITING,
    MQT,
    N_COUNTS,
    N_HELD,
    N_PUSHED,
    N_SCANS,
    NOBODY,
    SIDE,
    SWF,
    TS,
    link_all,
)
from sash.papers.shared.shared_router import FREE, N_LOGGED, N_ROOM, OutputBuffers, forget_all, spread_log
from sash.papers.shared.shared_rows import find_open, settle

SCHEDULES = {"lwo": LWO, "swf": SWF, "mqt": MQT}
N_BUCKETS = 1 << 12
_ROOM = 1 << 10


@dataclass(frozen=True, slots=True)
class WorkCosts:
    """What the queueing clock takes, in microseconds: for a tuple looked at, and for a pair put out."""

    scan_us: float = 0.0
    pair_us: float = 0.0


NO_COSTS = WorkCosts()


class Released(NamedTuple):
    """Pairs in the order in which queries got them. Tuples are arrival numbers, from 0 on over both streams."""

    windows_us: np.ndarray
    later: np.ndarray
    earlier: np.ndarray
    at_us: np.ndarray
    """By the queueing clock."""


class Settled(NamedTuple):
    """Pairs of a window in order of release; of each instant all or none."""

    pairs: Pairs
    open_us: int | None
    """Pairs of this time and later ones are still to come; None if none is, of all tuples that have arrived."""


class Response(NamedTuple):
    """What the queries of a window have waited."""

    window_us: int
    n_pairs: int
    mean_us: float
    max_us: float


class BufferSizes(NamedTuple):
    """The most tuples that the buffers have held at once: of both join buffers, waiting to scan, and pairs held."""

    join: int
    waiting: int
    held: int


class SharedJoin:
    """A join of two streams that queries with different windows share."""

    def __init__(
        self,
        windows_us: Sequence[int],
        queries_per_window: Sequence[int] | None = None,
        schedule: str = "mqt",
        is_hashed: bool = True,
        costs: WorkCosts = NO_COSTS,
    ):
        assert len(windows_us) > 0, "a join without queries is none"
        assert list(windows_us) == sorted(set(windows_us)), "windows ascend"
        self.costs = costs
        self.clock_us = -math.inf
        self.is_logged = True
        self._schedule = SCHEDULES[schedule]
        self._n_queries = list(queries_per_window or [1] * len(windows_us))
        self._measured_from = 0
        self._heads = np.full((N_BUCKETS if is_hashed else 1, 2), NOBODY, np.int64)
        self._counts = np.zeros(N_COUNTS, np.int64)
        self._line = new_line(_ROOM)
        self._board = new_board(windows_us, self._n_queries)
        self._held = np.empty((_ROOM, 2), np.int64)
        self._log, self._log_us = np.empty((_ROOM, 4), np.int64), np.empty(_ROOM)
        self._ends = np.array([0, NOBODY, 0], np.int64)

    @property
    def windows_us(self) -> list[int]:
        """The distinct windows, from the smallest to the largest."""
        return self._board.windows_us.tolist()

    @property
    def throughput(self) -> np.ndarray:
        """MaxQT(PW(i, j)): row i for a tuple that has scanned i windows, behind one that has scanned j."""
        return self._board.throughput

    @property
    def n_waiting(self) -> int:
        """Tuples that have arrived and not scanned all windows."""
        return int(self._counts[N_PUSHED] - self._board.scanned[-1])

    @property
    def n_held(self) -> int:
        """Pairs in the output buffer."""
        return int(self._counts[N_HELD])

    @property
    def n_stored(self) -> int:
        """Tuples in memory: those in the join buffers, and some that have left them and make room when it is needed."""
        return int(self._counts[N_PUSHED] - self._counts[FIRST_ROW])

    @property
    def n_scans(self) -> int:
        """Tuples looked at so far."""
        return int(self._counts[N_SCANS])

    @property
    def peaks(self) -> BufferSizes:
        """How full the buffers have been since `measure`, or ever."""
        return BufferSizes(*(int(self._counts[place]) for place in (MAX_KEPT, MAX_WAITING, MAX_HELD)))

    def add(self, window_us: int) -> int:
        """Lets a query in; returns the arrival number from which on later tuples make its output.

        A window larger than all others is complete only when tuples have been kept for as long.
        """
        windows, n_pushed = self._board.windows_us, int(self._counts[N_PUSHED])
        place = int(np.searchsorted(windows, window_us))
        if place < len(windows) and windows[place] == window_us:
            self._n_queries[place] += 1
            self._board = self._board._replace(throughput=throughput_matrix(windows, self._n_queries))
            return n_pushed
        self._n_queries.insert(place, 1)
        self._board = insert_window(self._board, place, window_us, self._n_queries, n_pushed)
        return n_pushed

    def drop(self, window_us: int) -> None:
        """Lets a query go. With the last query of a window, output that is still held for it is dropped, too."""
        windows = self._board.windows_us
        place = int(np.searchsorted(windows, window_us))
        assert window_us in windows, "there is a query with this window"
        self._n_queries[place] -= 1
        if self._n_queries[place] > 0:
            self._board = self._board._replace(throughput=throughput_matrix(windows, self._n_queries))
            return
        assert len(windows) > 1, "a join without queries is none"
        del self._n_queries[place]
        old, self._board = self._board, remove_window(self._board, place, self._n_queries)
        span = old.scanned[-1], self._board.scanned[-1]
        forget_all(self._line, self._board, self._held, self._ends, self._counts, *span)

    def regroup(self, windows_us: Sequence[int], n_queries: Sequence[int]) -> None:
        """Serves other queries from the next tuple on; nobody waits. None has a window larger than all before."""
        assert self.n_waiting == 0, "queries change when nobody waits"
        assert windows_us[-1] <= self._board.windows_us[-1], "tuples were kept for the largest window"
        self._n_queries = list(n_queries)
        self._board = new_board(windows_us, n_queries, int(self._counts[N_PUSHED]))

    def spread(self, n_more: int) -> None:
        """Makes the hash table as large as the join buffers if so many tuples come; nobody waits."""
        assert self.n_waiting == 0, "who waits knows places in the table"
        n_tuples, n_buckets = self.n_stored + n_more, self._heads.shape[0]
        if n_buckets == 1 or n_buckets >= n_tuples:
            return
        self._heads = np.full((1 << (2 * n_tuples).bit_length(), 2), NOBODY, np.int64)
        link_all(self._line, self._heads, self._counts, self._counts[FIRST_KEPT])

    def load(self, sides: np.ndarray, ts: np.ndarray, keys: np.ndarray, cargo: np.ndarray | int = 0) -> None:
        """Puts tuples into the join buffers that nobody scans for: what was there before the queries were."""
        assert self.n_waiting == 0, "tuples are loaded before others arrive"
        self.push(sides, ts, keys, cargo)
        link_all(self._line, self._heads, self._counts, self._board.scanned[0])
        self._board.scanned[:] = self._counts[N_PUSHED]

    def push(self, sides: np.ndarray, ts: np.ndarray, keys: np.ndarray, cargo: np.ndarray | int = 0) -> None:
        """Lets tuples arrive, at the times `ts`; they ascend, also from one call to the next.

        `cargo` is what `work` shall say of them: twice the row, one more on the right side, and when it ends.
        """
        first_row, n_pushed = self._counts[FIRST_ROW], self._counts[N_PUSHED]
        if n_pushed - first_row + len(ts) > len(self._line.links):
            self._make_room(len(ts))
            first_row = self._counts[FIRST_ROW]
        rows = slice(n_pushed - first_row, n_pushed - first_row + len(ts))
        links, waits, _ = (array[rows] for array in self._line)
        links[:, TS], links[:, KEY], links[:, SIDE] = ts, keys, sides
        waits[:, FIRST_HELD], self._line.cargo[rows] = NOBODY, cargo
        self._counts[N_PUSHED] += len(ts)

    def advance(self, until_us: float = math.inf) -> Released:
        """Does all work that begins before a time by the queueing clock; returns what queries got by it."""
        self._run((float(until_us), NEVER), self._measured_from)
        released = spread_log(self._log, self._log_us, self._ends[N_LOGGED], self._board.since)
        self._ends[N_LOGGED] = 0
        return Released(self._board.windows_us[released[0]], *released[1:])

    def work(self, n_pairs: int) -> list[Settled]:
        """Works as if all that was pushed had come at once, until about so many more pairs can be released or nobody
        waits for a window any more; the settled pairs of each window. They are all when nobody waits.
        """
        if self.n_waiting:
            self.clock_us = max(self.clock_us, float(self._line.links[self.n_stored - 1, TS]))
        if not self.n_held:
            # Places that were freed in whatever order are forgotten, so that the next pairs lie side by side.
            self._ends[[FREE, N_ROOM]] = NOBODY, 0
        n_left = int(self._ends[N_LOGGED])
        # What is left is looked at again by every run, so a run that leaves much is followed by a long one.
        self._run((math.inf, n_left + max(n_pairs, n_left)), NEVER)
        first_open = find_open(self._line, self._board.scanned, self._counts)
        starts, stops, pairs = settle(self._log, self._ends, first_open, self._line, self._counts[FIRST_ROW])
        parts = zip(starts.tolist(), stops.tolist(), first_open.tolist())
        return [Settled(Pairs(*pairs[:, low:high]), self._time_of(number)) for low, high, number in parts]

    def measure(self) -> None:
        """Lets responses and peaks count from the next tuple that arrives."""
        self._measured_from = int(self._counts[N_PUSHED])
        self._board.responses[:] = 0
        self._counts[[MAX_HELD, MAX_WAITING, MAX_KEPT]] = 0

    def responses(self) -> list[Response]:
        """What the queries of each window have waited, per pair."""
        return [
            Response(int(window_us), int(n_pairs), total / max(n_pairs, 1), longest)
            for window_us, (n_pairs, total, longest) in zip(self._board.windows_us, self._board.responses.tolist())
        ]

    def _time_of(self, number: int) -> int | None:
        """None if the tuple has not come yet."""
        return int(self._line.links[number - self._counts[FIRST_ROW], TS]) if number < self._counts[N_PUSHED] else None

    def _run(self, until: tuple[float, int], measured_from: int) -> None:
        costs = self.costs
        task = Assignment(self._schedule, self.clock_us, costs.scan_us, costs.pair_us, measured_from, self.is_logged)
        buffers = OutputBuffers(self._held, self._log, self._log_us, self._ends)
        self.clock_us, self._held, self._log, self._log_us = run_until(
            self._line, self._board, self._heads, buffers, self._counts, task, until
        )

    def _make_room(self, n_more: int) -> None:
        """Forgets rows that have left the join buffers, and makes the line longer if they still fill half of it."""
        first_kept, n_pushed = int(self._counts[FIRST_KEPT]), int(self._counts[N_PUSHED])
        rows = slice(first_kept - int(self._counts[FIRST_ROW]), n_pushed - int(self._counts[FIRST_ROW]))
        n_kept = n_pushed - first_kept
        line = new_line(max(_ROOM, 2 * (n_kept + n_more)))
        for old, new in zip(self._line, line):
            new[:n_kept] = old[rows]
        self._line = line
        self._counts[FIRST_ROW] = first_kept
