"""Which rows of a segment join tuples that are in memory: their keys are equal and their lives overlap.

    Law:  the pairs of `probe` are those of a nested loop over all tuples and all rows of the segment, each once, with
          rows that were taken back ending then.

A segment is passed over if its rows and the tuples live at different times, or if its filter says that no key is there.
Of what is left the pages that may hold a key are read, and no others but those in between that cost less than another
access: a few tuples read a page each, many read the segment from its beginning to its end.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import numpy as np

from sash.kernels.hash_order import order_by_hash
from sash.kernels.segment_join import (
    PAGE,
    PLACE_WIDTH,
    EarlyEnds,
    HashedTuples,
    SegmentPairs,
    mark_hashes,
    merge_pages,
    want_pages,
)
from sash.store.batch import BEGINNING, NEVER
from sash.store.segment import WindowSegment
from sash.store.segment_guide import SegmentGuide

PAIRS_PER_CHUNK = 1 << 18
NO_ROW = -1
MANY = 256
"""From so many tuples for each page on, all pages are read."""
FEW = 0.25
"""If a smaller part of the tuples than this passes a filter, copying them pays for itself."""
NONE_EARLY = EarlyEnds(np.empty(0, np.int64), np.empty(0, np.int64))


class ProbeKeys:
    """Tuples that look for rows: put in order once, and used for every segment, one after the other."""

    def __init__(self, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, pairs_per_chunk: int = PAIRS_PER_CHUNK):
        """Tuples are numbered as they are given here."""
        order, hashes = order_by_hash(keys)
        self.tuples = HashedTuples(hashes, ts[order], ends[order], order, mark_hashes(hashes))
        self.room = SegmentPairs(*(np.empty(pairs_per_chunk, np.int64) for _ in SegmentPairs._fields))
        """For a chunk of pairs, used again for the next."""
        self.passed = np.empty(len(keys), np.int64)
        """For the places of tuples that pass a filter."""
        self._min_ts = int(ts.min()) if len(ts) else NEVER
        self._max_end = int(ends.max()) if len(ends) else BEGINNING

    @classmethod
    def of_negatives(cls, keys: np.ndarray, times: np.ndarray) -> ProbeKeys:
        """Negatives as tuples: alive right before their time, they join the rows that they can take back."""
        return cls(keys, times - 1, times)

    def __len__(self) -> int:
        return len(self.tuples.hashes)

    def may_meet(self, segment: WindowSegment) -> bool:
        """Whether any of the tuples lives at a time at which any row of the segment does."""
        return max(self._min_ts, segment.min_ts) < min(self._max_end, segment.max_end)


def probe(
    segment: WindowSegment, probes: ProbeKeys, early: EarlyEnds = NONE_EARLY
) -> Generator[SegmentPairs, None, None]:
    """The pairs of tuples and rows, in chunks; each is good until the next is asked for.

    `early` may name rows of other segments as well. Memory: a frame that is used, one that is read ahead, and a chunk,
    however many rows a key has.
    """
    if not len(probes) or not probes.may_meet(segment):
        return
    guide = segment.guide.read()
    wanted, tuples = _wanted(guide, probes)
    if not len(wanted):
        return
    early = _of_segment(early, segment)
    at, out, n_out = np.zeros(PLACE_WIDTH, np.int64), probes.room, 0
    for pages in segment.key_pages(wanted, guide):
        at[PAGE:] = 0
        while at[PAGE] < len(pages.wanted):
            n_out = merge_pages(tuples, pages, early, at, n_out, out)
            if at[PAGE] < len(pages.wanted):
                yield out
                n_out = 0
    if n_out:
        yield SegmentPairs(*(each[:n_out] for each in out))


def gathered(chunks: Iterable[SegmentPairs], n_enough: int) -> Iterator[SegmentPairs]:
    """The pairs of many small chunks, of which each is good until the next is asked for, in fewer that have enough."""
    held: list[SegmentPairs] = []
    for chunk in chunks:
        if len(chunk.rows) >= n_enough:
            yield chunk
            continue
        held.append(SegmentPairs(*(each.copy() for each in chunk)))
        if sum(len(each.rows) for each in held) >= n_enough:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(chunks: list[SegmentPairs]) -> SegmentPairs:
    return SegmentPairs(*map(np.concatenate, zip(*chunks)))


def find(
    segments: Iterable[WindowSegment], negatives: ProbeKeys, ids: np.ndarray, early: EarlyEnds = NONE_EARLY
) -> np.ndarray:
    """For each negative the row with its key and identities that is alive until its time, or -1.

    Of several rows it is the newest: an identity may come back, and only one is alive at a time.
    """
    rows, newest = np.full(len(negatives), NO_ROW), np.full(len(negatives), BEGINNING)
    for segment in segments:
        for pairs in probe(segment, negatives, early):
            same = np.all(segment.ids(pairs.rows) == ids[pairs.tuples], axis=1)
            tuples, found, ts = pairs.tuples[same], pairs.rows[same], pairs.ts[same]
            order = np.lexsort((ts, tuples))
            tuples, found, ts = tuples[order], found[order], ts[order]
            is_last = np.append(tuples[1:] != tuples[:-1], True)[: len(tuples)]
            is_newer = is_last & ((rows[tuples] == NO_ROW) | (ts > newest[tuples]))
            rows[tuples[is_newer]], newest[tuples[is_newer]] = found[is_newer], ts[is_newer]
    return rows


def _wanted(guide: SegmentGuide, probes: ProbeKeys) -> tuple[np.ndarray, HashedTuples]:
    """The pages of keys that have to be read, and the tuples whose keys may be in them."""
    wanted, tuples = np.zeros(len(guide.fences), np.bool_), probes.tuples
    if len(probes) > MANY * len(wanted):  # they would want nearly all pages, and the filter costs more than the merge
        return np.arange(len(wanted)), tuples
    n_passed = want_pages(tuples.hashes, guide.filter, guide.fences, wanted, probes.passed)
    if n_passed < len(probes) * FEW:
        passed = probes.passed[:n_passed]
        hashes, ts, ends, numbers, marks = tuples
        tuples = HashedTuples(hashes[passed], ts[passed], ends[passed], numbers[passed], marks)
    return np.flatnonzero(wanted), tuples


def _of_segment(early: EarlyEnds, segment: WindowSegment) -> EarlyEnds:
    low, high = np.searchsorted(early.rows, (segment.first, segment.last))
    return EarlyEnds(early.rows[low:high], early.ends[low:high])
