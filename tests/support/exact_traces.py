"""Rows of two streams for the joins that keep windows on disk, and all pairs that they make."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from sash.papers.exact.exact_index import DiskJoin
from sash.papers.exact.exact_kernels.block_frames import END, KEY, ROW, TS, WIDTH
from sash.papers.exact.work_clock import FoundPairs


class Row(NamedTuple):
    """A row of a stream; rows of a stream are numbered as they come."""

    side: int
    ts: int
    key: int
    end: int


Trace = Sequence[Row]
FOREVER = 10**9


def as_fed(trace: Trace, firsts: tuple[int, int] = (0, 0)) -> tuple[np.ndarray, np.ndarray]:
    """Rows as the joins are fed with them; `firsts` rows of each side came before."""
    records, next_rows = np.zeros((len(trace), WIDTH), np.int64), list(firsts)
    for at, row in enumerate(trace):
        records[at, [ROW, KEY, TS, END]] = next_rows[row.side], row.key, row.ts, row.end
        next_rows[row.side] += 1
    return records, np.array([row.side for row in trace], np.int8)


def all_pairs(trace: Trace) -> Counter[tuple[int, int]]:
    """By brute force: equal keys, and lives that overlap."""
    left, right = ([row for row in trace if row.side == side] for side in (0, 1))
    return Counter(
        (one, other)
        for one, a in enumerate(left)
        for other, b in enumerate(right)
        if a.key == b.key and max(a.ts, b.ts) < min(a.end, b.end)
    )


def found(chunks: Iterable[FoundPairs]) -> Counter[tuple[int, int]]:
    """Pairs of chunks, and how often each was found."""
    pairs: Counter[tuple[int, int]] = Counter()
    for chunk in chunks:
        pairs.update(zip(chunk.left.tolist(), chunk.right.tolist()))
    return pairs


def run(join: DiskJoin, trace: Trace, stops: Sequence[int] = ()) -> Counter[tuple[int, int]]:
    """All pairs that a join finds; it settles at the stops, and at the end."""
    pairs: Counter[tuple[int, int]] = Counter()
    records, sides = as_fed(trace)
    cuts = [0, *stops, len(trace)]
    for low, high in itertools.pairwise(cuts):
        pairs += found(join.feed(records[low:high], sides[low:high]))
        pairs += found(join.settle())
    return pairs


def rows_of(side: int, keys: Iterable[int], first_us: int = 0) -> list[Row]:
    """A row for each key, one after the other, that stay for ever."""
    return [Row(side, first_us + at, key, FOREVER) for at, key in enumerate(keys)]


@st.composite
def traces(draw: st.DrawFn, max_rows: int = 150) -> list[Row]:
    """Rows of both streams in order of time, in bursts of one stream now and then; few keys, windows of some length."""
    windows = draw(st.tuples(st.integers(1, 90), st.integers(1, 90)))
    n_keys = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(0, max_rows))
    gaps = rng.choice([0, 0, 1, 1, 2, draw(st.sampled_from([3, 40]))], n_rows)
    times, burst = np.cumsum(gaps), draw(st.integers(3, 40))
    sides = np.where(rng.random(n_rows) < 0.7, rng.integers(0, 2, n_rows), times // burst % 2)
    keys = rng.integers(0, n_keys, n_rows)
    return [
        Row(side, ts, key, ts + windows[side])
        for side, ts, key in zip(sides.tolist(), times.tolist(), keys.tolist(), strict=True)
    ]


def random_trace(seed: int, n_rows: int, n_keys: int, window: int, gap: int = 2, share: float = 0.5) -> list[Row]:
    """Rows of both streams, a `share` of the left one, that all live for as long."""
    rng = np.random.default_rng(seed)
    times, sides = np.cumsum(rng.integers(0, gap + 1, n_rows)), (rng.random(n_rows) >= share).astype(int)
    keys = rng.integers(0, n_keys, n_rows)
    return [Row(*row, row[1] + window) for row in zip(sides.tolist(), times.tolist(), keys.tolist(), strict=True)]
