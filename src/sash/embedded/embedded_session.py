"""Many queries in this process, fed batch by batch: those with the same join share it, the others run side by side."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any

import pyarrow as pa

from sash.embedded.intake import Intake
from sash.embedded.query import Query
from sash.embedded.row_notes import REJECTED
from sash.embedded.shared_query import Answer, SharedQuery
from sash.errors import SashWarning, SourceError
from sash.operators.stream_clock import StreamClock
from sash.plan.physical import Plan
from sash.plan.sharing.shared_plan import shared_plan
from sash.plan.sharing.who_shares import Signature, share_groups
from sash.sql.bound_query import StreamInfo
from sash.store.batch import BEGINNING, NEVER


class EmbeddedSession:
    """The queries of a session while it runs here. To change the set, it is told the whole new one."""

    def __init__(self, relations: Mapping[str, pa.Table]):
        self.is_prompt = True
        """Whether somebody takes changes as they come; see `SharedQuery`."""
        self.is_quiet = False
        """Whether warnings are told by somebody else; see `notes`."""
        self._relations = relations
        self._groups: dict[Signature, SharedQuery] = {}
        self._alone: dict[str, Query] = {}
        self._intakes: dict[str, Intake] = {}
        """Of each stream, as no query may be there to know how far it has come."""
        self._begun_us: dict[str, int] = {}
        """By query that found no running join to share: the newest time that had been seen of its streams."""

    def declare(self, stream: str, info: StreamInfo) -> None:
        """Tells of a stream, before its first row."""
        self._intakes[stream] = Intake({stream: info})

    def change(self, plans: Mapping[str, Plan]) -> None:
        """Goes on with these queries. What is new begins with what is in its windows, as far as that was kept."""
        groups, reasons = share_groups(plans)
        clocks = self._clocks()
        fresh = {name for names in groups.values() for name in names} - self._shared_names()
        for signature, names in groups.items():
            plan = shared_plan({name: plans[name] for name in names})
            if signature in self._groups:
                self._groups[signature].change(plan)
                fresh -= set(names)
            else:
                self._groups[signature] = SharedQuery(plan, self._relations, *self._progress(plan.streams, clocks))
            self._groups[signature].is_prompt = self.is_prompt
        for name in reasons:
            known = self._alone.get(name)
            if known is None or known.plan.fingerprint != plans[name].fingerprint:
                self._alone[name] = Query(plans[name], self._relations, *self._progress(plans[name].streams, clocks))
                self._alone[name].is_quiet = True
                fresh.add(name)
        self._groups = {signature: each for signature, each in self._groups.items() if signature in groups}
        self._alone = {name: each for name, each in self._alone.items() if name in reasons}
        begun = {name: _newest_us(plans[name], clocks) for name in fresh}
        self._begun_us = {name: us for name, us in (self._begun_us | begun).items() if name in plans}

    def push(self, stream: str, rows: Any) -> Iterator[Answer]:
        """Takes rows of a stream, in order of arrival; the changes that are due, as they come. To be exhausted."""
        intake = self._intakes[stream]
        rows, mark = intake.read(stream, rows), intake.mark(stream)
        intake.take(stream, rows, ())
        try:
            for note in () if self.is_quiet else intake.notes.take():
                warnings.warn(note, SashWarning, stacklevel=6)
        except SashWarning:
            intake.give_back(mark)  # nobody has taken the rows: they may be pushed again
            raise
        for group in self._groups.values():
            if stream in group.plan.streams:
                yield from group.push(stream, rows)
        for name, query in self._alone.items():
            if stream in query.plan.streams:
                yield name, query.push(stream, rows)

    def advance(self, time_us: int, stream: str | None = None) -> Iterator[Answer]:
        """Declares one stream, or all, complete up to and including a time. To be exhausted."""
        for name in self._intakes if stream is None else [stream]:
            self._intakes[name].complete(time_us, name, ())
        for group in self._groups.values():
            if stream is None or stream in group.plan.streams:
                yield from group.advance(time_us, stream)
        for name, query in self._alone.items():
            if stream is None or stream in query.plan.streams:
                yield name, query.advance(time_us, stream)

    def finish(self) -> Iterator[Answer]:
        """Declares all streams complete up to the last timestamp seen in any of them. To be exhausted."""
        for intake in self._intakes.values():
            intake.believe()
        for group in self._groups.values():
            yield from group.finish()
        for name, query in self._alone.items():
            yield name, query.finish()

    def __contains__(self, name: str) -> bool:
        """Whether a query runs."""
        return name in self._alone or name in self._shared_names()

    def clock_us(self, name: str) -> int:
        """Up to and including this time the answers of a query are final."""
        return self._runner(name).clock

    def partial_until_us(self, name: str) -> int | None:
        """Until when a query may lack what its windows should hold; None if it does not."""
        begun_us = self._begun_us.get(name, BEGINNING)
        if begun_us > BEGINNING:
            until = _full_after_us(self._plan(name), begun_us)
        else:
            runner = self._runner(name)
            until = runner.partial_until_us(name) if isinstance(runner, SharedQuery) else None
        return until if until is not None and until > self.clock_us(name) else None

    def late(self) -> dict[str, tuple[int, int]]:
        """By stream, how many rows came late, and how many were read."""
        return {name: (intake.n_late[name], intake.n_read[name]) for name, intake in self._intakes.items()}

    def notes(self) -> list[str]:
        """What whoever brought the rows should be told, beside of those that are late or rejected."""
        return [note for intake in self._intakes.values() for note in intake.notes.take(but=REJECTED)]

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return {name: intake.rejected[name] for name, intake in self._intakes.items()}

    @property
    def groups(self) -> list[SharedQuery]:
        """The share groups."""
        return list(self._groups.values())

    def held(self) -> Any:
        """All that is needed to go on in another process; see `hand`."""
        groups = {signature.fingerprint: each.held() for signature, each in self._groups.items()}
        alone = {name: each.held() for name, each in self._alone.items()}
        intakes = {name: intake.held() for name, intake in self._intakes.items()}
        return groups, alone, self._begun_us, intakes

    def hand(self, held: Any) -> None:
        """Goes on with what `held` gave; queries that it does not know begin now."""
        groups, alone, begun_us, intakes = held
        for name in intakes:
            if name not in self._intakes:
                raise SourceError(f"the snapshot has the stream `{name}`, and this session has not; register it first")
        plans = {name: self._plan(name) for name in (*self._shared_names(), *self._alone)}
        known = {signature: each for signature, each in self._groups.items() if signature.fingerprint in groups}
        for signature, each in known.items():
            each.hand(groups[signature.fingerprint])
        kept = {name: each for name, each in self._alone.items() if name in alone and _is_of(alone[name], each)}
        for name, each in kept.items():
            each.hand(alone[name])
        goes_on = {*kept, *(name for each in known.values() for name in each.plan.plans)}
        self._groups, self._alone = known, kept
        self._begun_us = {name: us for name, us in begun_us.items() if name in goes_on}
        for name, held in intakes.items():
            self._intakes[name].hand(held)
        self.change(plans)

    def _runner(self, name: str) -> SharedQuery | Query:
        if name in self._alone:
            return self._alone[name]
        return next(group for group in self._groups.values() if name in group.plan.plans)

    def _plan(self, name: str) -> Plan:
        runner = self._runner(name)
        return runner.plan.plans[name] if isinstance(runner, SharedQuery) else runner.plan

    def _shared_names(self) -> set[str]:
        return {name for group in self._groups.values() for name in group.plan.plans}

    def _progress(
        self, streams: Iterable[str], clocks: Mapping[str, StreamClock]
    ) -> tuple[dict[str, StreamClock], dict[str, list[pa.Table]]]:
        """For a query that comes later, how far its streams are: what was late for others is late for it, and what
        they hold it holds.
        """
        found = {name: copy(clocks[name]) for name in streams}
        return found, {name: self._intakes[name].waiting[name] for name in found if found[name].is_holding}

    def _clocks(self) -> dict[str, StreamClock]:
        """How far each stream has come; to its end, once some query was finished."""
        found = {name: copy(intake.clocks[name]) for name, intake in self._intakes.items()}
        for each in (*self._alone.values(), *self._groups.values()):
            for name, clock in each.clocks.items():
                found[name].complete(clock.complete_us)
        return found


def _is_of(held: Any, query: Query) -> bool:
    """Whether this is held of this query, and not of another one of its name."""
    return held[0] == query.plan.fingerprint


def _newest_us(plan: Plan, clocks: Mapping[str, StreamClock]) -> int:
    return max(clocks[name].newest_us for name in plan.streams)


def _full_after_us(plan: Plan, begun_us: int) -> int:
    """When the windows of a query that began at a time are full; of windows that are not of time nobody knows."""
    lives = [slot.ingest.life_us for slot in plan.slots]
    return NEVER if None in lives else begun_us + max(life for life in lives if life is not None)
