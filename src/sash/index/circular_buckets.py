"""The index of Kostowski's window joins: for each side, hash buckets that are circular buffers in order of arrival.

The owner keeps the rows, this keeps the buckets. `arrive` is the paper's algorithm, tuple by tuple. Where tuples can
be taken back, a step goes in phases instead: all are inserted, some are retracted, and then both sides are probed.

    strategy        an arrival on A removes stale tuples from        stale tuples that stay
    probe           the bucket of B that is probed                   until that bucket is probed again
    probe_insert    that, and the bucket of A that it goes into      until that bucket is probed or filled again
    probe_all       all buckets of B                                 in A, until a tuple arrives on B
    optimal         all buckets of A and B                           none
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from sash.index import join_index
from sash.index.join_index import LEFT, RIGHT, JoinCounts, Pairs
from sash.kernels import bucket_join, buckets
from sash.kernels.bucket_join import MatchRoom, OrderedArrivals, ProbingTuples, Samples
from sash.kernels.buckets import HEAD_WIDTH, HELD, SLOT_WIDTH, TOP, Table
from sash.store.batch import BEGINNING, NEVER
from sash.store.vector import Arena, Memory, Vector

INVALIDATIONS = ("probe", "probe_insert", "probe_all", "optimal")
FIRST_BUCKETS = 1024
MOST_PER_BUCKET = 2
"""So many tuples per bucket, on average, before there are more buckets."""
FIRST_SLOTS = 1024
MAX_SLACK = 8


class Side(Protocol):
    """The rows of one side. Their values stand at `row - base`, with room for more behind them."""

    @property
    def keys(self) -> np.ndarray: ...
    @property
    def ts(self) -> np.ndarray: ...
    @property
    def ends(self) -> np.ndarray: ...
    @property
    def ids(self) -> np.ndarray | None: ...
    @property
    def base(self) -> int: ...
    @property
    def floor(self) -> int:
        """Rows below are gone."""
        ...

    @property
    def next_row(self) -> int: ...


class CircularBuckets:
    """Finds the pairs of two sides; or, in phases, the rows of one.

    `n_buckets` is the same for all sides, or one number for each; 1 is nested loops. None: as many as tuples need, more
    when they have become too few.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        n_buckets: int | tuple[int, ...] | None,
        invalidation: str = "probe_insert",
        arena: Arena | None = None,
    ):
        self._arena = arena or Memory()
        self._sides = tuple(sides)
        self._strategy = INVALIDATIONS.index(invalidation)
        self._is_growing = n_buckets is None
        each = n_buckets if isinstance(n_buckets, tuple) else (n_buckets or FIRST_BUCKETS,) * len(self._sides)
        self._buckets = tuple(_Buckets(number, self._arena) for number in each)
        self._counters = np.zeros(buckets.N_COUNTERS, np.int64)
        self._clock = BEGINNING
        self.sample(np.empty(0, np.int64))

    def arrive(self, firsts: tuple[int, int], clock: int) -> Iterator[Pairs]:
        """Pairs of `match`, with their lives: tuples that arrive in turn leave by the clock alone, as they expire."""
        one, other = self._sides[LEFT], self._sides[RIGHT]
        for left, right in self.match(firsts, clock):
            at, other_at = left - one.base, right - other.base
            ts, expires = np.maximum(one.ts[at], other.ts[other_at]), np.minimum(one.ends[at], other.ends[other_at])
            yield Pairs(left, right, ts, expires)

    def match(self, firsts: tuple[int, int], clock: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Lets all rows from `firsts` on arrive, in order of time, left first on ties; yields row pairs in chunks.

        Whatever arrives later is newer than `clock`. No row may have been taken back: rows that the owner has
        forgotten are taken to have ended.
        """
        left, right = (self._in_order(side, first) for side, first in enumerate(firsts))
        arrivals = OrderedArrivals(left, right, np.zeros(2, np.int64))
        bounds, capacity = (min(clock, NEVER - 1) + 1, self._strategy), join_index.pairs_per_chunk(self._arena)
        self._clock = clock
        reason = bucket_join.PAUSED
        while reason != bucket_join.DONE:
            out = MatchRoom(np.empty(capacity, np.int64), np.empty(capacity, np.int64))
            sides, noted = (self._table(0), self._table(1)), (self._counters, self._samples)
            reason, n_out = bucket_join.arrive(*sides, arrivals, self._arena.rows_per_call, bounds, out, *noted)
            if n_out:
                yield out[0][:n_out], out[1][:n_out]
            self._arena.release_pages()
            if reason == bucket_join.NO_OUTPUT_ROOM and 2 * n_out <= capacity:
                capacity *= 2
            elif reason in (bucket_join.NO_LEFT_ROOM, bucket_join.NO_RIGHT_ROOM):
                self._buckets[reason - bucket_join.NO_LEFT_ROOM].make_room()

    def insert(self, side: int, first: int, last: int) -> None:
        """Puts rows into their buckets, without looking for pairs."""
        if self._is_growing and self._buckets[side].are_few(self._sides[side]):
            self._refill(side)
            return
        if self._strategy == bucket_join.OPTIMAL:
            buckets.remove_all_stale(self._table(side), self._clock, self._counters)
        self._insert(side, first, last)

    def probe(
        self, side: int, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, row_limit: int = NEVER
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (probing tuple, row of `side`) that join, in chunks; rows from `row_limit` on are left out."""
        if self._strategy in (bucket_join.PROBE_ALL, bucket_join.OPTIMAL):
            buckets.remove_all_stale(self._table(side), self._clock, self._counters)
        capacity, first, probing = join_index.pairs_per_chunk(self._arena), 0, ProbingTuples(keys, ts, ends)
        while first < len(keys):
            last = min(len(keys), first + self._arena.rows_per_call)
            out = MatchRoom(np.empty(capacity, np.int64), np.empty(capacity, np.int64))
            upto, n_out = bucket_join.probe(
                self._table(side), probing, first, last, row_limit, self._clock, out, self._counters
            )
            if n_out:
                yield out[0][:n_out], out[1][:n_out]
            self._arena.release_pages()
            capacity = 2 * capacity if upto < last and 2 * n_out <= capacity else capacity
            first = upto

    def find(self, side: int, keys: np.ndarray, ids: np.ndarray, times: np.ndarray) -> np.ndarray:
        """For each tuple the row with the same key and identities that is alive right before its time, or -1.

        No row is found twice: the first identity of one that is found is overwritten in the owner's array.
        """
        rows = np.empty(len(keys), np.int64)
        own_ids = self._sides[side].ids
        own_ids = np.empty((1, 0), np.int64) if own_ids is None else own_ids
        bucket_join.find(self._table(side), keys, ids, times, own_ids, rows)
        return rows

    def advance(self, clock: int) -> None:
        """Between the phases of steps: whatever ends by this clock is stale from now on."""
        self._clock = clock

    def refill(self) -> None:
        """Fills the buckets anew with all rows of their owners: these have got new numbers, or the index is new."""
        for side in range(len(self._sides)):
            self._refill(side)

    def give_room(self) -> None:
        self.refill()

    def growth(self, n_rows: int) -> int:
        """Buckets grow one by one."""
        return 0

    def free(self) -> None:
        """Gives the room of all buckets back."""
        for each in self._buckets:
            each.free()

    def occupancy(self, side: int) -> int:
        """How many tuples are in the buckets of a side, stale ones included."""
        return int(self._buckets[side].state[HELD])

    def sample(self, instants: np.ndarray) -> None:
        """Has the occupancy of both sides noted at these instants of arrivals to come, ascending."""
        self._samples = Samples(instants, np.zeros((len(instants), 2), np.int64))
        self._counters[buckets.SAMPLED] = 0

    @property
    def samples(self) -> np.ndarray:
        """The occupancy (left, right) at each instant; now, for those after the last arrival."""
        held = self._samples.held.copy()
        held[self._counters[buckets.SAMPLED] :] = [self.occupancy(0), self.occupancy(1)]
        return held

    @property
    def counts(self) -> JoinCounts:
        """Of checks there are one and the number of stale tuples, for each bucket that is looked at."""
        scans, insertions, invalidations, checks, outputs, _ = self._counters.tolist()
        return JoinCounts(scans, insertions, invalidations, checks, outputs)

    def _refill(self, side: int) -> None:
        rows, own = self._sides[side], self._buckets[side]
        own.clear()
        while self._is_growing and own.are_few(rows):
            own.clear(4 * len(own))
        self._insert(side, rows.floor, rows.next_row)

    def _insert(self, side: int, first: int, last: int) -> None:
        is_eager = self._strategy == bucket_join.PROBE_INSERT
        while first < last:
            stop = min(last, first + self._arena.rows_per_call)
            first = bucket_join.insert(self._table(side), first, stop, self._clock, is_eager, self._counters)
            self._arena.release_pages()
            if first < stop:
                self._buckets[side].make_room()

    def _in_order(self, side: int, first: int) -> np.ndarray:
        """The rows of a side from `first` on, in order of time."""
        rows = self._sides[side]
        return first + np.argsort(rows.ts[first - rows.base : rows.next_row - rows.base], kind="stable")

    def _table(self, side: int) -> Table:
        rows = self._sides[side]
        return self._buckets[side].table(rows.keys, rows.ts, rows.ends, rows.base)


class _Buckets:
    """The buckets of one side."""

    def __init__(self, n_buckets: int, arena: Arena):
        assert n_buckets >= 1
        self.state = np.zeros(2, np.int64)
        self._heads = Vector(np.int64, arena, HEAD_WIDTH, capacity=n_buckets)
        self._slot_keys = Vector(np.int64, arena)
        self._slots = Vector(np.int64, arena, SLOT_WIDTH)
        self.clear()

    def __len__(self) -> int:
        return len(self._heads)

    def are_few(self, rows: Side) -> bool:
        """Whether there should be more buckets for these rows."""
        return rows.next_row - rows.floor > MOST_PER_BUCKET * len(self._heads)

    def clear(self, n_buckets: int | None = None) -> None:
        """Empties the buckets; from now on there are `n_buckets` if that is said."""
        self._heads.resize(n_buckets or len(self._heads))
        self.state[:] = 0
        self._heads.array[:] = 0
        self._resize(max(4 * len(self._heads), FIRST_SLOTS))

    def table(self, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, base: int) -> Table:
        return Table(keys, ts, ends, base, self._heads.array, self._slot_keys.array, self._slots.array, self.state)

    def make_room(self) -> None:
        """Makes room for any bucket to grow. If they have left much room unused, they move together first."""
        if len(self._slots) > MAX_SLACK * (self.state[HELD] + len(self._heads)):
            heads = self._heads.array
            by_start = np.argsort(heads[:, buckets.START], kind="stable")
            slot_keys = self._slot_keys.array.reshape(-1, 1)
            self.state[TOP] = buckets.move_together(heads, slot_keys, self._slots.array, by_start)
        largest = int(self._heads.array[:, buckets.CAPACITY].max())
        self._resize(2 * int(self.state[TOP]) + 2 * largest + FIRST_SLOTS)

    def free(self) -> None:
        for vector in (self._heads, self._slot_keys, self._slots):
            vector.free()

    def _resize(self, n_slots: int) -> None:
        self._slot_keys.resize(n_slots)
        self._slots.resize(n_slots)
