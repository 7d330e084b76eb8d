"""The recent segment of a stream in buckets by hash, and in which order its blocks go to disk (Exact, §5.3).

    bucket p     oldest  flushed …  stale …  fresh …  head       flushed: also on disk, its frame may be taken
                                                                 stale:   has met the other stream's disk
    train of 6   bucket 0: 1 4 7    bucket 1: 2 3 5 9            BN below 6 first, bucket by bucket: 1 4 2 3 5,
                                                                 then the limit is 12: 9 7

Neighbours on disk are of one bucket, mostly, while none comes before one whose number is less by a train.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np


class RecentBuckets:
    """Blocks of one stream by bucket and state; `numbers` has the BN of each."""

    def __init__(self, n_buckets: int, train: int):
        self.flushed: list[deque[int]] = [deque() for _ in range(n_buckets)]
        self.stale: list[deque[int]] = [deque() for _ in range(n_buckets)]
        self.fresh: list[deque[int]] = [deque() for _ in range(n_buckets)]
        self.heads = np.full(n_buckets, -1)
        """The open block of each bucket, or -1."""
        self.n_flushed = self.n_stale = self.n_fresh = self.n_heads = 0
        self.train_limit = train
        """Blocks with lower numbers are dumped first."""
        self._train = train
        self._bucket = 0

    def __len__(self) -> int:
        """How many blocks, and so frames, the segment has."""
        return self.n_flushed + self.n_stale + self.n_fresh + self.n_heads

    def open_head(self, bucket: int, block: int) -> None:
        self.heads[bucket] = block
        self.n_heads += 1

    def close_head(self, bucket: int) -> int:
        """The head is full, and fresh."""
        block = int(self.heads[bucket])
        self.heads[bucket] = -1
        self.n_heads -= 1
        self.fresh[bucket].append(block)
        self.n_fresh += 1
        return block

    def make_stale(self) -> None:
        """All full blocks have met the disk; the heads go on as they are."""
        for stale, fresh in zip(self.stale, self.fresh):
            stale.extend(fresh)
            fresh.clear()
        self.n_stale += self.n_fresh
        self.n_fresh = 0

    def pop_oldest_stale(self, numbers: np.ndarray) -> int:
        """Takes out the stale block with the lowest number."""
        bucket = min((each for each in range(len(self.stale)) if self.stale[each]), key=self._next_number(numbers))
        self.n_stale -= 1
        return self.stale[bucket].popleft()

    def pop_flushed(self, bucket: int) -> int:
        """Takes out the oldest block of a bucket, which is on disk."""
        self.n_flushed -= 1
        return self.flushed[bucket].popleft()

    def flush(self, n_blocks: int, numbers: np.ndarray) -> list[int]:
        """The next stale blocks to be dumped, which are flushed from now on (Alg. 5)."""
        chosen = []
        for _ in range(min(n_blocks, self.n_stale)):
            bucket = self._next_bucket(numbers)
            block = self.stale[bucket].popleft()
            self.flushed[bucket].append(block)
            self.n_stale -= 1
            self.n_flushed += 1
            chosen.append(block)
        return chosen

    def with_flushed(self) -> np.ndarray:
        """Which buckets have a flushed block."""
        return np.array([bool(each) for each in self.flushed])

    def _next_bucket(self, numbers: np.ndarray) -> int:
        """The bucket that goes on, or the next one, in a circle, with a block below the limit; there is a stale one."""
        while True:
            for bucket in self._circle():
                stale = self.stale[bucket]
                if stale and numbers[stale[0]] < self.train_limit:
                    self._bucket = bucket
                    return bucket
            self.train_limit += self._train

    def _circle(self) -> Iterator[int]:
        yield from range(self._bucket, len(self.stale))
        yield from range(self._bucket)

    def _next_number(self, numbers: np.ndarray):
        return lambda bucket: numbers[self.stale[bucket][0]]
