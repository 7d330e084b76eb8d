"""What it costs to look up in a relation, by each method, and which one is the cheapest (Exact, ch. 6).

    replicated                            all of it in memory: no disk, if there is room for it
    partitioned_hash, partitioned_range   segments that a step needs and that are not in memory, each once
    mesh                                  all segments, every step
    inl                                   some pages for every tuple

Of a step with n tuples, a relation of S segments, and memory for a part c of it, where keys are taken to be even:

    segments that are needed    S (1 − (1 − 1/S)^n)             of which a part 1 − c is read
    pages that are needed       likewise, of PAGES_PER_TUPLE · n

What the system is likely to have of the file in its own cache costs what memory costs: then a search takes less time
than anything else. Where a relation outgrows that as well, the disk decides.

If keys are not even, segments that many tuples come for are in memory, so what is read is less. By range and by hash
the estimates are equal: only the keys that come can tell them apart. A key that is its own integer has neighbours,
which tend to come together; all others have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from sash.cost.disk_prices import DiskPrices

REPLICATED, PARTITIONED_HASH, PARTITIONED_RANGE, MESH, INL = (
    "replicated", "partitioned_hash", "partitioned_range", "mesh", "inl",
)  # fmt: skip
SHARE_OF_RELATIONS = 4
"""One part in so many of what is for state is the most that a relation may take as a whole, and that is for segments of
all others."""
SEGMENT_BYTES = 1 << 20
"""The least size of a range segment, and that of a segment of MESHJOIN, as in the thesis; less if memory is small."""
INDEX_BYTES = 64
"""What a row of a relation that is in memory takes beside its columns, at most."""
USUAL_STEP_ROWS = 10_000.0
"""Tuples that are taken to come at once where nobody knows."""
PAGES_PER_TUPLE = 3
"""A search among keys in order ends on a page of them; the row's columns are on others. Those above stay in memory."""
PAGE_BYTES = 4096
CACHED = DiskPrices(write=0.0, read=0.2e-9, access=1e-6)
"""What is read from the system's cache."""
PROBE_S, LEVEL_S, SEGMENT_S = 150e-9, 15e-9, 200e-6
"""A tuple in a table of keys; a level of a search among keys in order; what a segment costs however few ask for it."""


@dataclass(frozen=True, slots=True)
class LookupLoad:
    """What has to be looked up, and in what."""

    n_rows: int
    n_bytes: int
    """Of the relation: rows and columns as the query needs them."""
    step_rows: float | None
    """Tuples that come at once; None if nobody knows."""
    has_order: bool
    """Whether a key is its own integer."""
    n_copies: int = 1
    """How many processes of a machine would have it in memory."""
    cacheable_bytes: int = 0
    """What the system is likely to have of files in its own cache."""

    @property
    def whole_bytes(self) -> int:
        """What it takes in memory, with its index."""
        return self.n_copies * (self.n_bytes + INDEX_BYTES * self.n_rows)

    @property
    def cached_part(self) -> float:
        """Of the file, which part is in the system's cache."""
        return min(1.0, self.cacheable_bytes / max(1, self.n_bytes))

    def read_seconds(self, n_bytes: float, n_accesses: float, prices: DiskPrices) -> float:
        """What it takes to read so much of the file, from so many places."""
        part = self.cached_part
        return (1 - part) * prices.seconds(0, n_bytes, n_accesses) + part * CACHED.seconds(0, n_bytes, n_accesses)


@dataclass(frozen=True, slots=True)
class LookupEstimate:
    """Of a step."""

    method: str
    bytes_read: float
    seconds: float


@dataclass(frozen=True, slots=True)
class LookupChoice:
    """How a relation is looked up in, and why."""

    method: str
    load: LookupLoad
    room: int | None
    """Bytes for it as a whole, or for its segments; None: there is no limit."""
    is_hinted: bool
    estimates: tuple[LookupEstimate, ...] = ()
    """Of all methods that there is room for, the cheapest first; none if it was not asked for."""

    @property
    def fits(self) -> bool:
        return self.room is None or self.load.whole_bytes <= self.room


def relation_room(state_bytes: int) -> int:
    """Of what is for state, the part that a relation may take."""
    return state_bytes // SHARE_OF_RELATIONS


def segment_bytes(room: int | None) -> int:
    """How large segments are: several of them have to find room."""
    return SEGMENT_BYTES if room is None else max(1, min(SEGMENT_BYTES, room // 4))


def choose_lookup(load: LookupLoad, room: int | None, prices: DiskPrices, hint: str | None = None) -> LookupChoice:
    """What fits is in memory. Of the rest, the cheapest; where two cost the same, what keeps neighbours together."""
    fits = room is None or load.whole_bytes <= room
    methods = [*([REPLICATED] if fits else []), *_segmented_methods(load.has_order)]
    ranked = sorted((_estimate(each, load, room, prices) for each in methods), key=lambda each: each.seconds)
    chosen = hint or (REPLICATED if fits else ranked[0].method)
    return LookupChoice(chosen, load, room, hint is not None, tuple(ranked))


def _segmented_methods(has_order: bool) -> tuple[str, ...]:
    by_key = (PARTITIONED_RANGE, PARTITIONED_HASH) if has_order else (PARTITIONED_HASH, PARTITIONED_RANGE)
    return *by_key, INL, MESH


def _estimate(method: str, load: LookupLoad, room: int | None, prices: DiskPrices) -> LookupEstimate:
    n_tuples = USUAL_STEP_ROWS if load.step_rows is None else max(1.0, load.step_rows)
    if method == REPLICATED:
        return LookupEstimate(method, 0.0, n_tuples * PROBE_S)
    n_bytes, n_segments = max(1, load.n_bytes), max(1, -(-load.n_bytes // segment_bytes(room)))
    n_levels = log2(2 + load.n_rows / (1 if method == INL else n_segments))
    missed = 1.0 if method == MESH else 0.0 if room is None else max(0.0, 1 - room / n_bytes)
    if method == INL:
        n_in_file = max(1.0, n_bytes / PAGE_BYTES)
        n_pages = missed * n_in_file * (1 - (1 - 1 / n_in_file) ** (PAGES_PER_TUPLE * n_tuples))
        cpu = n_tuples * n_levels * LEVEL_S + SEGMENT_S
        return LookupEstimate(
            method, PAGE_BYTES * n_pages, load.read_seconds(PAGE_BYTES * n_pages, n_pages, prices) + cpu
        )
    if method == MESH:
        cpu = n_segments * (SEGMENT_S + n_tuples * n_levels * LEVEL_S)
        return LookupEstimate(method, n_bytes, load.read_seconds(n_bytes, 1, prices) + cpu)
    n_needed = n_segments * (1 - (1 - 1 / n_segments) ** n_tuples)
    n_read = missed * n_needed
    bytes_read = n_read * n_bytes / n_segments
    cpu = n_tuples * n_levels * LEVEL_S + n_needed * SEGMENT_S
    return LookupEstimate(method, bytes_read, load.read_seconds(bytes_read, n_read, prices) + cpu)
