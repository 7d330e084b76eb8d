"""Tuples of a trace that have left memory: files in order of expiry, read from beginning to end as the clock goes on.

    file     │ batch │ batch │ batch │ batch │        in order of `_expires`; written once
               given   held                           what the clock has reached; what was read with it and waits
    files    ├─────────────┤                          windows slide: files overlap little, so few are read at a time
                     ├──────────────┤
                             ├──────────────┤

Nothing is looked for. A file is removed when the last of its tuples has expired, without being read once more.

The dense ids of keys are sealed along. Keys are numbered anew while tuples are on disk: then the new ids by the old
ones are kept as long as there are files with the old ones. To look keys up again instead would cost an access to the
index for each tuple, and would mistake a key that has come back for the one that had gone, whose tuples take each
other back and must not count for the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.store.batch import EXPIRES, NEVER, concat, int64_column
from sash.store.segment import WindowSegment
from sash.store.segment_guide import SegmentGuide
from sash.store.segment_writer import BATCH_BYTES, LEAST_BATCH_BYTES, SealedRows, TakeRows, write_expiries
from sash.store.vector import Arena, Vector

HELD_SHARE = 4
"""One part in so many of what is for disk may wait in memory, of all files together."""
NO_GONE = np.empty(0, np.int64)


class SealedTuples(NamedTuple):
    """Tuples that were on disk: their numbers in the log, and the ids of their keys, -1 for one that is gone."""

    tuples: pa.Table
    rows: np.ndarray
    ids: np.ndarray


@dataclass(slots=True, eq=False)
class _Run:
    """A file, and how far it has been read."""

    segment: WindowSegment
    generation: int
    """How often keys had been numbered anew when it was written."""
    n_given: int
    """So many have expired."""
    n_expiring: int
    """So many expire at all."""
    next_us: int
    """When the next one expires; `NEVER` if none does."""
    gone: np.ndarray = field(default_factory=lambda: NO_GONE)
    """The numbers that struck out tuples had in the log, ascending."""


class _Held(NamedTuple):
    """What was read of a file, in order of expiry; the first `n_given` have been given out."""

    tuples: pa.Table
    ids: np.ndarray
    expires: np.ndarray
    n_given: int

    @property
    def n_waiting(self) -> int:
        return len(self.expires) - self.n_given

    def after(self, n_given: int) -> _Held:
        """With more given out. Once that is most of it, the rest is copied: a slice would keep all of it in memory."""
        if 2 * n_given <= len(self.expires):
            return self._replace(n_given=n_given)
        rest = pa.array(np.arange(n_given, len(self.expires)))
        return _Held(self.tuples.take(rest), self.ids[n_given:].copy(), self.expires[n_given:].copy(), 0)


class SealedExpiries:
    """The sealed tuples of one trace."""

    def __init__(self, arena: Arena):
        self._arena = arena
        self._runs: list[_Run] = []
        self._held: dict[str, _Held] = {}
        """By the name of the file, what waits in memory."""
        self._renumberings: list[Vector] = []
        """New ids by old ones, the oldest that is still needed first."""
        self._generation = 0

    def __getstate__(self) -> dict[str, object]:
        """Without what can be read again."""
        return {**self.__dict__, "_held": {}}

    def __len__(self) -> int:
        """How many files there are."""
        return len(self._runs)

    def write(self, sealed: SealedRows, take: TakeRows, clock: int) -> WindowSegment:
        """Seals tuples of a trace's log. What has expired at `clock` is not given out again."""
        budget = self._arena.budget
        assert budget is not None
        batch_bytes = min(BATCH_BYTES, max(LEAST_BATCH_BYTES, budget.disk_bytes // 8))
        segment = write_expiries(self._arena.spill_files, sealed, take, batch_bytes)
        expires = np.sort(sealed.expires)
        n_given, n_expiring = int(np.searchsorted(expires, clock, side="right")), int(np.searchsorted(expires, NEVER))
        next_us = int(expires[n_given]) if n_given < n_expiring else NEVER
        self._runs.append(_Run(segment, self._generation, n_given, n_expiring, next_us))
        return segment

    def strike_out(self, gone: dict[str, np.ndarray]) -> None:
        """By the name of the file, the numbers that tuples had in the log that do not count any more, ascending."""
        for run in self._runs:
            run.gone = gone.get(run.segment.name, NO_GONE)

    def keep(self, segments: Iterable[WindowSegment]) -> None:
        """Forgets all other files: they were removed."""
        names = {segment.name for segment in segments}
        self._runs = [run for run in self._runs if run.segment.name in names]
        self._held = {name: held for name, held in self._held.items() if name in names}
        oldest = min((run.generation for run in self._runs), default=self._generation)
        n_kept = self._generation - oldest
        for vector in self._renumberings[: len(self._renumberings) - n_kept]:
            vector.free()
        self._renumberings = self._renumberings[len(self._renumberings) - n_kept :]

    def renumber(self, mapping: np.ndarray) -> None:
        """Takes on new ids, by the old ones; -1 for a key that is gone."""
        if self._runs:
            vector = Vector(np.int64, self._arena, capacity=max(1, len(mapping)))
            vector.write(0, mapping)
            self._renumberings.append(vector)
            self._generation += 1

    def pop(self, clock: int) -> list[SealedTuples]:
        """What expires at `clock` or before, in order of expiry from each file."""
        popped: list[SealedTuples] = []
        for run in self._runs:
            if run.next_us <= clock and run.next_us < NEVER:
                popped.append(self._pop_from(run, clock))
        self._let_go()
        return popped

    def pace(self, clock: int, n_max: int) -> int:
        """The latest instant up to `clock` by which at most about `n_max` expire; if more do at the earliest instant
        of all, that instant.

        Of what is not in memory it is known when the first of each batch expires: a batch is read for this only if it
        is the next one, and has too many.
        """
        until, times, weights = clock, np.empty(0, np.int64), np.empty(0, np.int64)
        for run in sorted(self._runs, key=lambda run: run.next_us):
            if run.next_us > until or run.next_us == NEVER:
                break
            at, counts = self._known(run)
            if not len(times) and counts[0] > n_max:
                self._load(run, run.next_us)
                at, counts = self._known(run)
            times, weights = np.concatenate([times, at]), np.concatenate([weights, counts])
            order = np.argsort(times, kind="stable")
            times, weights = times[order], weights[order]
            n_fitting = int(np.searchsorted(np.cumsum(weights), n_max, side="right"))
            if n_fitting < len(times):
                until = min(until, max(int(times[n_fitting]) - 1, int(times[0])))
                times, weights = times[: n_fitting + 1], weights[: n_fitting + 1]
        self._let_go()
        return until

    def _known(self, run: _Run) -> tuple[np.ndarray, np.ndarray]:
        """When tuples of a file that has some will expire, and how many, at the earliest: single ones, or a batch."""
        held, guide = self._held.get(run.segment.name), run.segment.guide.read()
        if held is None:
            later = int(np.searchsorted(guide.places, run.n_given, side="right"))
            at, counts = np.array([run.next_us]), guide.places[later : later + 1] - run.n_given
        else:
            later = int(np.searchsorted(guide.places, run.n_given + held.n_waiting))
            at, counts = held.expires[held.n_given :], np.ones(held.n_waiting, np.int64)
        return np.concatenate([at, guide.fences[later:]]), np.concatenate([counts, np.diff(guide.places[later:])])

    def read(self, n_bytes: int, clock: int) -> Iterator[SealedTuples]:
        """All that counts after `clock`, file by file, about so many bytes at a time."""
        for run in list(self._runs):
            yield from self.read_file(run.segment, n_bytes, clock)

    def read_file(self, segment: WindowSegment, n_bytes: int, clock: int) -> Iterator[SealedTuples]:
        """What counts after `clock` of one file."""
        (run,) = (run for run in self._runs if run.segment is segment)
        for first, last in pairwise(_bounds(segment.guide.read(), n_bytes)):
            places = np.arange(max(first, run.n_given), last)
            tuples, ids = self._take(run, places)
            counts = int64_column(tuples, EXPIRES) > clock
            counts &= self._is_alive(run, places)
            if counts.any():
                ids = self._translated(ids[counts], run.generation)
                yield SealedTuples(tuples.filter(pa.array(counts)), segment.first + places[counts], ids)

    def _pop_from(self, run: _Run, clock: int) -> SealedTuples:
        held = self._load(run, clock)
        last = held.n_given + int(np.searchsorted(held.expires[held.n_given :], clock, side="right"))
        places = run.n_given + np.arange(last - held.n_given)
        tuples, ids = held.tuples.slice(held.n_given, len(places)), held.ids[held.n_given : last]
        run.n_given += len(places)
        if last < len(held.expires):
            run.next_us = int(held.expires[last])
            self._held[run.segment.name] = held.after(last)
        else:
            self._held.pop(run.segment.name, None)
            run.next_us = self._first_unread(run)
        alive = self._is_alive(run, places)
        if not alive.all():
            tuples, ids, places = tuples.filter(pa.array(alive)), ids[alive], places[alive]
        return SealedTuples(tuples, run.segment.first + places, self._translated(ids, run.generation))

    def _first_unread(self, run: _Run) -> int:
        """When the first of the next batch expires, once all before it have been given out."""
        if run.n_given >= run.n_expiring:
            return NEVER
        guide = run.segment.guide.read()
        return int(guide.fences[np.searchsorted(guide.places, run.n_given)])

    def _load(self, run: _Run, clock: int) -> _Held:
        """What waits, with all batches that begin to expire at `clock` or before."""
        held = self._held.get(run.segment.name)
        guide = run.segment.guide.read()
        first = run.n_given + (held.n_waiting if held else 0)
        last = min(int(guide.places[np.searchsorted(guide.fences, clock, side="right")]), run.n_expiring)
        if held is None or last > first:
            tuples, ids = self._take(run, np.arange(first, max(first, last)))
            expires = int64_column(tuples, EXPIRES)
            if held is not None and held.n_waiting:
                tuples = concat([held.tuples.slice(held.n_given), tuples])
                ids = np.concatenate([held.ids[held.n_given :], ids])
                expires = np.concatenate([held.expires[held.n_given :], expires])
            held = self._held[run.segment.name] = _Held(tuples, ids, expires, 0)
        return held

    def _take(self, run: _Run, places: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        rows = run.segment.first + places
        return run.segment.take(rows), run.segment.ids(rows)[:, 0]

    def _is_alive(self, run: _Run, places: np.ndarray) -> np.ndarray:
        """Which tuples were not struck out."""
        if not len(run.gone):
            return np.ones(len(places), np.bool_)
        return ~np.isin(run.segment.origins(run.segment.first + places), run.gone)

    def _translated(self, ids: np.ndarray, generation: int) -> np.ndarray:
        """The ids of today."""
        n_since = self._generation - generation
        for vector in self._renumberings[len(self._renumberings) - n_since :]:
            ids = np.where(ids < 0, -1, vector.array[ids])
        return ids

    def _let_go(self) -> None:
        """Of what waits in memory, what expires last, as far as it is too much; it is read again then."""
        budget = self._arena.budget
        if len(self._held) < 2 or budget is None:
            return
        held = [run for run in self._runs if run.segment.name in self._held]
        held.sort(key=lambda run: run.next_us)
        n_bytes = np.cumsum([self._held[run.segment.name].tuples.nbytes for run in held])
        n_kept = max(1, int(np.searchsorted(n_bytes, budget.disk_bytes // HELD_SHARE, side="right")))
        for run in held[n_kept:]:
            del self._held[run.segment.name]


def _bounds(guide: SegmentGuide, n_bytes: int) -> list[int]:
    """Places between batches of a file that are about so many bytes apart."""
    parts = (guide.starts - guide.starts[0]) // n_bytes
    firsts = np.flatnonzero(parts[1:] != parts[:-1]) + 1
    return sorted({0, *guide.places[firsts].tolist(), int(guide.places[-1])})
