"""SESSION: the rows of a partition that follow each other by less than a gap, as a stream of signed tuples.

    Law:  at T, let a partition's rows with ts <= T be taken apart wherever the next is later by the gap or more. Each
          part is a session, from its first row's time, `start`, until the gap after its last one's, `end`. The window
          holds, with both as columns, the rows of the sessions that are not over: T < end.

    gap 4     0   1   2   3   4   5   6   7   8        only the session that a partition's last row is in can be open
    rows      a       b                   c
    [0, 4)    a=======.                                at 2 b makes the session longer: -a [0, 4)  +a [0, 6)  +b [0, 6)
    [0, 6)            ab==============|                at 6 it is over: both expire
    [7, 11)                               c====

A row has a version for every instant of its session from its own on; each expires at the end that it says, or is taken
back when that moves. Where nobody reads `end`, rows come once, with the start, which stays, and a negative takes them
back at the end. So it is where groups of whole sessions are made above: they are told the end that each row alone would
give its session, and take the latest. Where only what is over is shown, EMIT ON WINDOW CLOSE, rows come at the end, for
that instant.

As rows come in order of time, nothing joins two sessions: a row that could is late, or was waited for below. State: the
rows of sessions that are not over. One that never pauses for the gap is kept as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels import session_runs
from sash.kernels.session_runs import HEAD, LAST, SIZE, START, ComingRows, PastSessions
from sash.operators.keyed import Keys
from sash.store.batch import (
    EXPIRES,
    NEVER,
    OP,
    TS,
    concat,
    conformed,
    expiries,
    int64_column,
    sorted_by_time,
    with_columns,
)
from sash.store.block_log import BlockLog
from sash.store.group_array import GroupArray
from sash.store.vector import Arena, Memory, Vector

_Span: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class SessionsSpec:
    """`start` and `end` are the columns, of type `type`, that receive a session's; None where nobody reads one.

    `id_column` receives the identity of a row, which its versions and their negatives share.
    """

    gap_us: int
    partition_by: tuple[str, ...]
    start: str | None
    end: str | None
    type: pa.DataType
    id_column: str | None
    is_final: bool = False
    """Whether rows come when their session is over, for that instant."""
    has_own_ends: bool = False
    """Whether `end` receives the end that a row alone would give its session: then rows come once."""

    def __post_init__(self) -> None:
        assert self.gap_us > 0

    @property
    def has_versions(self) -> bool:
        """Whether rows come again when their session becomes longer."""
        return self.end is not None and not self.is_final and not self.has_own_ends


class Sessions:
    """Runs a `SessionsSpec`. Relies on ordered input."""

    STATE: ClassVar[tuple[str, ...]] = ("_log", "_links", "_keys", "_sessions", "_next_id")

    def __init__(self, spec: SessionsSpec, input: pa.Schema):
        self.spec = spec
        ids = [pa.field(spec.id_column, pa.int64())] if spec.id_column else []
        edges = [pa.field(name, spec.type) for name in (spec.start, spec.end) if name]
        self._logged = pa.schema([*input, *ids])
        self._partition = pa.schema([input.field(name) for name in spec.partition_by])
        self.schema = pa.schema([*self._logged, *edges])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._log = BlockLog(self._logged, arena)
        self._links = Vector(np.int64, arena)
        self._keys = Keys(self._partition, False, arena)
        self._sessions = GroupArray(np.int64, arena, (session_runs.WIDTH,))
        self._next_id = 0

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        new = self._numbered(batch)
        starts, over, longer = self._join_sessions(new)
        over = _together(over, self._pass(clock))
        gone = self._members(over)
        if self.spec.is_final:
            parts = [self._over(gone, over)]
        elif self.spec.has_versions:
            parts = self._versions(new, starts, longer)
        else:
            parts = self._stays(new, starts, gone, over)
        self._forget(gone.numbers)
        return sorted_by_time(concat(parts), with_ties=False, leaving_first=True)

    def pace(self, clock: int, n_max: int) -> int:
        """When sessions are over, their rows are put out."""
        known = self._sessions.array
        ends = expiries(known[:, LAST], self.spec.gap_us)
        due = np.flatnonzero((known[:, SIZE] > 0) & (ends <= clock))
        if self.spec.has_versions or known[due, SIZE].sum() <= n_max:
            return clock
        due = due[np.argsort(ends[due], kind="stable")]
        n_over = np.cumsum(known[due, SIZE])
        earliest, too_late = int(ends[due[0]]), int(ends[due[np.searchsorted(n_over, n_max, "right")]])
        return too_late if too_late == earliest else too_late - 1

    def logs(self) -> dict[str, BlockLog]:
        return {"open": self._log}

    def registers(self) -> dict[str, int]:
        return {"open": self._log.next_number, "next_id": self._next_id}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._log.restore(entries["open"], registers["open"], lambda rows: conformed(rows, self._logged))
        self._next_id = registers["next_id"]
        self._find_open()

    def _numbered(self, batch: pa.Table) -> pa.Table:
        first, self._next_id = self._next_id, self._next_id + batch.num_rows
        if self.spec.id_column is None:
            return batch
        return with_columns(batch, **{self.spec.id_column: np.arange(first, self._next_id)})

    def _join_sessions(self, new: pa.Table) -> tuple[np.ndarray, PastSessions, PastSessions]:
        """Keeps rows that come. Returns the start of each one's session, the sessions that were over when they came,
        and those that became longer, as they were before."""
        numbers = np.arange(self._log.next_row, self._log.next_row + new.num_rows)
        if new.num_rows:
            self._log.append(new.select(self._logged.names).cast(self._logged))
        return self._follow(new, numbers)

    def _follow(self, rows: pa.Table, numbers: np.ndarray) -> tuple[np.ndarray, PastSessions, PastSessions]:
        ids = self._keys.encode(rows)
        self._sessions.reserve(self._keys.n_ids)
        links, starts = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
        over, longer = _room_for(len(ids)), _room_for(len(ids))
        coming = ComingRows(ids, int64_column(rows, TS), numbers)
        known = self._sessions.array
        n_over, n_longer = session_runs.follow(coming, self.spec.gap_us, known, links, starts, over, longer)
        self._links.reserve(self._log.rows.n_rows)
        self._links.array[numbers - self._log.rows.base] = links
        return starts, _first_of(over, n_over), _first_of(longer, n_longer)

    def _pass(self, clock: int) -> PastSessions:
        """Closes the sessions that are over by then."""
        known = self._sessions.array
        ends = expiries(known[:, LAST], self.spec.gap_us)
        ids = np.flatnonzero((known[:, SIZE] > 0) & (ends <= clock))
        found = PastSessions(known[ids, HEAD], known[ids, SIZE], known[ids, START], ends[ids], ends[ids])
        known[ids, SIZE] = 0
        return found

    def _stays(self, new: pa.Table, starts: np.ndarray, gone: _Members, over: PastSessions) -> list[pa.Table]:
        """Rows come at their time, and are taken back at the end of their session."""
        old, place, ts = self._log.take(gone.numbers), gone.places, int64_column(new, TS)
        own = [expiries(int64_column(rows, TS), self.spec.gap_us) for rows in (new, old)]
        never = [np.full(rows.num_rows, NEVER) for rows in (new, old)]
        return [
            self._signed(new, (ts, never[0]), (starts, own[0]), 1),
            self._signed(old, (over.until[place], never[1]), (over.starts[place], own[1]), -1),
        ]

    def _versions(self, new: pa.Table, starts: np.ndarray, longer: PastSessions) -> list[pa.Table]:
        """Rows come at their time, and again whenever their session becomes longer; what they said is taken back."""
        ts, gap_us, moved = int64_column(new, TS), self.spec.gap_us, self._members(longer)
        old, place = self._log.take(moved.numbers), moved.places
        begun, until, was, ends = longer.starts[place], longer.until[place], longer.ends[place], expiries(ts, gap_us)
        later = expiries(until, gap_us)
        return [
            self._signed(new, (ts, ends), (starts, ends), 1),
            self._signed(old, (until, was), (begun, was), -1),
            self._signed(old, (until, later), (begun, later), 1),
        ]

    def _over(self, gone: _Members, over: PastSessions) -> pa.Table:
        """Rows come when their session is over."""
        ends = over.ends[gone.places]
        return self._signed(self._log.take(gone.numbers), (ends, ends + 1), (over.starts[gone.places], ends), 1)

    def _signed(self, rows: pa.Table, life: _Span, session: _Span, sign: int) -> pa.Table:
        """Rows with a sign, from when until when they are there, and the session that they are in."""
        ts, expires = life
        tuples = with_columns(rows, **{TS: ts, EXPIRES: expires, OP: np.full(len(ts), sign, np.int8)})
        for name, edges in zip((self.spec.start, self.spec.end), session, strict=True):
            if name:
                tuples = tuples.append_column(name, pa.array(edges).cast(self.spec.type))
        return tuples.select(self.schema.names).cast(self.schema)

    def _members(self, stages: PastSessions) -> _Members:
        numbers, places = (np.empty(int(stages.sizes.sum()), np.int64) for _ in range(2))
        session_runs.walk(stages.heads, self._links.array, self._log.rows.base, numbers, places)
        return _Members(numbers, places)

    def _forget(self, numbers: np.ndarray) -> None:
        """Lets rows go whose sessions are over."""
        if not len(numbers):
            return
        self._log.delete(numbers)
        mapping = self._keys.compact(self._sessions.array[:, SIZE] > 0)
        if mapping is not None:
            self._sessions.compact(mapping)
        if self._log.is_sparse:
            self._log.compact()
            self._find_open()
        self._log.trim(self._links)

    def _find_open(self) -> None:
        """Finds out anew which sessions are open, from the rows that are kept, which are in order of time."""
        self._sessions.clear()
        self._sessions.reserve(self._keys.n_ids)
        for block in self._log.blocks:
            alive = np.flatnonzero(~self._log.is_dead(block))
            self._follow(self._log.read(block).take(pa.array(alive)), alive + block.first)


class _Members(NamedTuple):
    """The numbers of rows that sessions had, and which session each was in."""

    numbers: np.ndarray
    places: np.ndarray


def _room_for(n_stages: int) -> PastSessions:
    return PastSessions(*(np.empty(n_stages, np.int64) for _ in PastSessions._fields))


def _first_of(stages: PastSessions, n_stages: int) -> PastSessions:
    return PastSessions(*(each[:n_stages] for each in stages))


def _together(left: PastSessions, right: PastSessions) -> PastSessions:
    return PastSessions(*(np.concatenate(each) for each in zip(left, right, strict=True)))
