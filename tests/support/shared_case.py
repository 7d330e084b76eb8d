"""Queries that run side by side in a session, and what each of them would get alone.

rows        a a b . a b . b a                 what a query gets is what it gets alone over the rows in its
q0          |----------------->               windows when it began, and all that come after
q1              |-------|   |-->              it is added or resumed at `|`, dropped or paused at the next one
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from sash import Session
from sash.embedded.query import Query
from sash.frames import Relation, Stream, table_catalog
from sash.operators.changes import read_times
from sash.operators.operator_names import TapName
from sash.operators.stream_clock import StreamClock
from sash.operators.tapped_join import TappedJoin
from sash.operators.trunk import JOIN
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.join_sites import sites_of
from sash.sql.catalog import StreamInfo
from sash.sql.parameters import Values
from sash.store.batch import BEGINNING
from sash.testing.case import Advance, Case, Push, prepare, show_frame


@dataclass(frozen=True, slots=True)
class Add:
    """A query joins those that run."""

    name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """A query leaves; its name is free again."""

    name: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A query stops for a while."""

    name: str


@dataclass(frozen=True, slots=True)
class Resume:
    """A query that was paused goes on."""

    name: str


Change: TypeAlias = Add | Drop | Pause | Resume
Event: TypeAlias = Push | Advance | Change


@dataclass(frozen=True, eq=False, repr=False)
class SharedCase:
    """Queries by name, their frames, and what happens; a query runs once it is added. Its repr is Python that makes it
    again. The rows of a stream are in order of arrival.
    """

    texts: Mapping[str, str]
    frames: Mapping[str, Stream | Relation]
    events: Sequence[Event]

    @cached_property
    def _contents(self) -> tuple[Mapping[str, Any], dict[str, pa.Table], dict[str, pa.Table]]:
        return table_catalog(self.frames)

    @property
    def arrivals(self) -> dict[str, pa.Table]:
        """All rows of the streams, in order of arrival."""
        return self._contents[1]

    @cached_property
    def cases(self) -> dict[str, Case]:
        """Each query with its frames, as if there were no other."""
        return {name: Case(text, self.frames) for name, text in self.texts.items()}

    def rows(self, step: Push) -> pa.Table:
        """The rows that come in a step."""
        return self.arrivals[step.stream].slice(step.start, step.stop - step.start)

    def progress(self, n_events: int) -> Progress:
        """How far the streams have come after so many events."""
        catalog = self._contents[0]
        infos = {name: info for name, info in catalog.items() if isinstance(info, StreamInfo)}
        clocks = {name: StreamClock(info.slack_us) for name, info in infos.items()}
        progress = Progress(clocks, {name: [] for name in infos})
        for event in self.events[:n_events]:
            if isinstance(event, Push):
                times = read_times(self.rows(event).column(infos[event.stream].time))
                progress.admitted[event.stream].extend(progress.clocks[event.stream].admit(times))
            elif isinstance(event, Advance):
                progress.complete(event)
        return progress

    def play(
        self, restarts: Collection[int] = (), watch: Callable[[Session, int], None] | None = None
    ) -> list[Episode]:
        """Lets all happen to one session; returns what each query got whenever it ran.

        After the events with the numbers of `restarts`, if they are steps, the session is taken down, and one made
        anew goes on from its snapshot, with the queries that come and go before the next step. `watch` is called after
        every step, with the session and how many events there have been.
        """
        play, n_taken = _Play(self, self.open_session()), 0
        for number, event in enumerate(self.events):
            if number < n_taken:
                continue
            n_taken = number + 1
            play.take(number, event)
            if watch is not None and isinstance(event, Push | Advance):
                watch(play.session, n_taken)
            if number in restarts and isinstance(event, Push | Advance):
                n_taken = play.restart(n_taken)
        return play.end()

    def admitted_us(self, n_events: int) -> dict[str, list[int]]:
        """By stream, the times of the rows that have come in time after so many events."""
        found = {}
        for name, admitted in self.progress(n_events).admitted.items():
            info = self._contents[0][name]
            times = read_times(self.arrivals[name].column(info.time)).tolist()
            found[name] = [ts for ts, is_in_time in zip(times, admitted) if is_in_time]
        return found

    def open_session(self, with_rows: bool = False) -> Session:
        """A session with the frames and without queries; of streams it knows only what they are like, or the rows."""
        session = _PreparedSession()
        for name, frame in self.frames.items():
            if isinstance(frame, Relation):
                session.relation(name, frame.frame)
            else:
                slack = None if frame.slack_us is None else f"{frame.slack_us} us"
                rows = frame.frame if with_rows else frame.frame.schema
                session.stream(name, rows, time=frame.time, slack=slack, tie=frame.tie)
        return session

    def alone(self, episode: Episode) -> pa.Table:
        """What a query would have got by the end of an episode if it had been the only one.

        It sees the rows that were in its windows when the episode began, but for those that it is said
        not to have seen, and all that came since. How rows are cut does not matter (law 2), so they come at once.
        """
        case, before = self.cases[episode.name], self.progress(episode.begin)
        plan = _seeing_since(case.plan, before.clock(case.plan.streams), episode.unseen_us)
        now = self.progress(episode.end)
        clocks = {stream: before.clocks[stream] for stream in plan.streams} if episode.is_fresh else None
        running, changes = Query(plan, case.tables, clocks), []
        for stream in plan.streams:
            first = len(before.admitted[stream]) if episode.is_fresh else 0
            in_time = pa.array(now.admitted[stream][first:], pa.bool_())
            rows = self.arrivals[stream].slice(first, len(in_time)).filter(in_time)
            changes.append(running.push(stream, rows))
        for stream in plan.streams:
            if now.clocks[stream].complete_us > BEGINNING:
                changes.append(running.advance(now.clocks[stream].complete_us, stream))
        if episode.is_finished:
            changes.append(running.finish())
        return pa.concat_tables(changes)

    def is_due(self, episode: Episode) -> bool:
        """Whether something happened to the query's streams in an episode, so that it must have answered."""
        streams = self.cases[episode.name].plan.streams
        steps = [event for event in self.events[episode.begin : episode.end] if isinstance(event, Push | Advance)]
        return episode.is_finished or any(step.stream is None or step.stream in streams for step in steps)

    def __repr__(self) -> str:
        texts = "".join(f"    {name!r}: {text!r},\n" for name, text in self.texts.items())
        frames = "".join(f"    {name!r}: {show_frame(frame)},\n" for name, frame in self.frames.items())
        events = "".join(f"    {event},\n" for event in self.events)
        return f"SharedCase({{\n{texts}}}, {{\n{frames}}}, [\n{events}])"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis would print a dataclass by its fields."""
        printer.text(repr(self))


@dataclass(frozen=True, slots=True)
class Progress:
    """The clocks of streams, and of the rows that have come of each, in order, whether they came in time."""

    clocks: dict[str, StreamClock]
    admitted: dict[str, list[bool]]

    def complete(self, event: Advance) -> None:
        for name in self.clocks if event.stream is None else [event.stream]:
            self.clocks[name].complete(event.time_us)

    def clock(self, streams: Mapping[str, Any]) -> int:
        """Up to and including this time, all these streams are complete."""
        return min(self.clocks[name].clock for name in streams)


@dataclass(frozen=True, slots=True)
class Episode:
    """A query from when it was added or resumed, before event `begin`, until it was dropped or paused, before event
    `end`, or until all was finished; and what it got.
    """

    name: str
    begin: int
    end: int
    is_finished: bool
    unseen_us: Mapping[int, int]
    """By slot, up to and including which time it saw no rows, as those were not kept."""
    is_fresh: bool
    """Whether it found no join to share that ran, so that it saw only rows that came since."""
    changes: pa.Table


@dataclass
class _Play:
    """A session in the middle of what happens to it."""

    case: SharedCase
    session: Session
    running: dict[str, tuple[int, dict[int, int], bool]] = field(default_factory=dict)
    """The queries that run: of an episode where it begins, what is not seen, and whether it is fresh."""
    has_begun: bool = False
    """Whether the session has been told of the streams."""
    given: dict[str, list[pa.Table]] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)

    def take(self, number: int, event: Event) -> None:
        self.has_begun |= isinstance(event, Push | Advance)
        if isinstance(event, Push):
            self._give(self.session.push(event.stream, self.case.rows(event)))
        elif isinstance(event, Advance):
            self._give(self.session.advance(event.time_us, event.stream))
        else:
            self._change(number, event)
            if isinstance(event, Add | Resume):
                self._open(number, event.name)

    def end(self) -> list[Episode]:
        self._give(self.session.finish())
        for name in list(self.running):
            self._close(len(self.case.events), name, is_finished=True)
        return self.episodes

    def restart(self, number: int) -> int:
        """Puts a session made anew in the place of the one that runs; returns how many events have happened then."""
        changes: list[Change] = []
        for event in self.case.events[number:]:
            if isinstance(event, Push | Advance):
                break
            changes.append(event)
        if len({change.name for change in changes}) < len(changes):
            # In a snapshot a query that left and came back is one that stayed.
            changes = []
        snapshot, old, self.session = self.session.snapshot(), self.session, self.case.open_session()
        for name, query in old._queries.items():
            self.session.query(name, query.text)
            if query.is_paused:
                self.session.pause(name)
        for at, change in enumerate(changes, number):
            self._change(at, change)
        self.session.restore(snapshot)
        for at, change in enumerate(changes, number):
            if isinstance(change, Add | Resume):
                self._open(at, change.name)
        return number + len(changes)

    def _change(self, number: int, event: Change) -> None:
        match event:
            case Add(name):
                self.session.query(name, self.case.texts[name])
            case Resume(name):
                self.session.resume(name)
            case Drop(name):
                self.session.drop(name)
                self._close(number, name)
            case Pause(name):
                self.session.pause(name)
                self._close(number, name)

    def _open(self, number: int, name: str) -> None:
        if self.has_begun:
            clock = self.case.progress(number).clock(self.case.cases[name].plan.streams)
            assert self.session.clock_us(name) == clock, f"`{name}` does not know how far its streams are"
            self.running[name] = number, *_past_of(self.session, name)
        else:
            self.running[name] = number, {}, False
        self.given[name] = []

    def _give(self, changes: Mapping[str, pa.Table]) -> None:
        for name, table in changes.items():
            assert name in self.running or not table.num_rows, f"`{name}` does not run, and still answers"
            if name in self.running:
                self.given[name].append(table)

    def _close(self, number: int, name: str, is_finished: bool = False) -> None:
        if name in self.running:
            begin, unseen_us, is_fresh = self.running.pop(name)
            changes = pa.concat_tables([self.case.cases[name].plan.schema.empty_table(), *self.given.pop(name)])
            self.episodes.append(Episode(name, begin, number, is_finished, unseen_us, is_fresh, changes))


class _PreparedSession(Session):
    """Plans a text that a case has planned already no second time."""

    def _plan(self, text: str, params: Values | None = None) -> QueryPlan:
        assert not params, "no case has parameters"
        return prepare(text, tuple(self._catalog().items()))[1]


def _past_of(session: Session, name: str) -> tuple[dict[int, int], bool]:
    """Of a query that was just added, by slot up to when it has not seen rows, and whether it has seen none at all."""
    running = session._running()
    group = next((each for each in running.jobs if name in each.plan.queries and each.plan.trunk), None)
    if group is None or name in running._begun_us:
        return {}, True
    join = dict(group.pipeline.operators())[JOIN]
    assert isinstance(join, TappedJoin)
    taps = {tap.name: number for number, tap in enumerate(join.taps)}
    sites = enumerate(sites_of(group.plan.queries[name]))
    return {
        slot.number: int(join.since_us[taps[TapName(name, number)], side])
        for number, site in sites
        for side, slot in enumerate(site.slots)
    }, False


def _seeing_since(plan: QueryPlan, clock: int, unseen_us: Mapping[int, int]) -> QueryPlan:
    """The plan of a query that sees only what is in its windows at the clock, and what comes later."""
    slots = []
    for slot in plan.slots:
        first_us = max(slot.ingest.since_us, unseen_us.get(slot.number, BEGINNING - 1) + 1)
        if slot.ingest.life_us is not None and clock - slot.ingest.life_us > BEGINNING:
            first_us = max(first_us, clock - slot.ingest.life_us + 1)
        slots.append(replace(slot, ingest=replace(slot.ingest, since_us=first_us)))
    return replace(plan, slots=tuple(slots))
