"""Arrivals of a batch, heard in their order: which rows of each are late, too far ahead, or have to wait.

All groups hear the same arrivals and come to the same verdicts. See `segments.py` for what an arrival tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from sash.kernels.verdicts import HELD, IN_TIME, TOO_FAR
from sash.operators.stream_clock import StreamClock
from sash.spark.exchange import Message
from sash.spark.segments import Segment, merge_unordered
from sash.store.batch import BEGINNING

_FACTS = {each.name for each in fields(Segment)}


class Place(NamedTuple):
    """Where rows stand that wait; the file is empty where they come from a user's frame."""

    path: str
    segment: int
    n_rows: int = 1
    kept: tuple[tuple[int, str], ...] = ()
    """Line and text of each row, unless there are too many: the file may be gone when it is decided on them."""


NOWHERE = Place("", 0)


@dataclass(slots=True)
class Verdict:
    """On the rows of an arrival. Those before `threshold` are late; those at `tail_us` have the verdict `tail`."""

    threshold: int
    tail_us: int | None = None
    tail: int = IN_TIME
    base_us: int = BEGINNING
    """What the tail was ahead of."""
    place: Place = NOWHERE


@dataclass(slots=True)
class Waiting:
    """Rows of a stream that wait for what follows, from earlier batches."""

    places: list[Place] = field(default_factory=list)
    verdict: int = HELD
    time_us: int = BEGINNING
    base_us: int = BEGINNING


class Hearing:
    """Moves the clocks on. `places` are, by stream, where the rows stand that wait."""

    def __init__(self, clocks: Mapping[str, StreamClock], places: Mapping[str, list[Place]]):
        self._clocks = clocks
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        """By stream and origin."""
        self.waiting = {
            name: Waiting(list(places.get(name, ())), time_us=clock.held_us, base_us=clock.base_us)
            for name, clock in clocks.items()
        }
        self._open: dict[str, list[Verdict]] = {name: [] for name in clocks}

    def hear_arrivals(self, messages: Iterable[Message]) -> None:
        facts: dict[tuple[str, str], list[dict]] = {}
        for each in messages:
            if each.kind == "arrival":
                facts.setdefault((each.stream, each.origin), []).append(each.facts)
        for (stream, origin), told in sorted(facts.items()):
            found = [Segment(**{name: each[name] for name in _FACTS}) for each in told]
            segment = found[0] if origin else merge_unordered(found)
            verdict = self._hear(stream, segment)
            verdict.place = _place_of(told[0], segment)
            self.verdicts[stream, origin] = verdict

    def hear_completion(self, each: Message) -> None:
        """An empty stream name speaks for all streams; no time, for the newest timestamp of any. What is held does not
        count for that, as more may come: one wrong row at the end would make all of it late.
        """
        until, told = each.facts["complete_us"], [name for name in self._clocks if each.stream in ("", name)]
        if until is not None:
            return self._complete(told, until)
        while any(self._clocks[name].complete_us < self._newest_us for name in told):
            self._complete(told, self._newest_us)  # and once more, if that has confirmed what was held

    @property
    def _newest_us(self) -> int:
        return max(clock.newest_us for clock in self._clocks.values())

    def _complete(self, streams: Iterable[str], until_us: int) -> None:
        for name in streams:
            if self._clocks[name].complete(until_us) == IN_TIME:
                self._decide(name, IN_TIME)

    def places(self) -> dict[str, list[Place]]:
        """By stream, where the rows stand that wait now."""
        found = {}
        for name, waiting in self.waiting.items():
            before = waiting.places if waiting.verdict == HELD else []
            found[name] = [*before, *(each.place for each in self._open[name])]
        return {name: each for name, each in found.items() if self._clocks[name].is_holding}

    def _hear(self, stream: str, segment: Segment) -> Verdict:
        clock = self._clocks[stream]
        if segment.first_us is not None and clock.is_holding and self._joins(stream, segment):
            return self._open[stream][-1]
        verdict = Verdict(clock.threshold(clock.newest_us), base_us=clock.base_us)
        if segment.newest_us is None:
            return verdict
        if segment.is_doubtful and clock.is_ahead(segment.newest_us, clock.newest_us):
            verdict.tail_us, verdict.tail = segment.newest_us, TOO_FAR
            return verdict
        below_us = max(clock.newest_us, BEGINNING if segment.below_us is None else segment.below_us)
        if segment.is_open and clock.is_ahead(segment.newest_us, below_us):
            clock.newest_us, clock.held_us = below_us, segment.newest_us
            verdict.tail_us, verdict.tail, verdict.base_us = segment.newest_us, HELD, clock.base_us
            self._open[stream].append(verdict)
        else:
            clock.newest_us = max(clock.newest_us, segment.newest_us)
        return verdict

    def _joins(self, stream: str, segment: Segment) -> bool:
        """Whether a segment only brings more rows of the time that is held; if not, its first row has decided."""
        clock = self._clocks[stream]
        held_us, ahead_us = clock.held_us, clock.ahead_us or 0
        assert segment.first_us is not None
        if segment.first_us == held_us and segment.is_run and not segment.is_doubtful:
            threshold = clock.threshold(clock.newest_us)
            self._open[stream].append(Verdict(threshold, held_us, HELD, clock.base_us))
            return True
        is_same = segment.first_us == held_us
        is_confirmed = not segment.is_doubtful if is_same else segment.first_us >= held_us - ahead_us
        if is_confirmed:
            clock.believe()
        clock.held_us = BEGINNING
        self._decide(stream, IN_TIME if is_confirmed else TOO_FAR)
        return False

    def _decide(self, stream: str, verdict: int) -> None:
        """On all rows of a stream that wait."""
        if self.waiting[stream].verdict == HELD:
            self.waiting[stream].verdict = verdict
        for each in self._open[stream]:
            each.tail = verdict
        self._open[stream] = []


def _place_of(facts: dict, segment: Segment) -> Place:
    kept = tuple((line, text) for line, text in facts.get("kept", ()))
    return Place(facts.get("path", ""), facts.get("segment", 0), segment.n_newest, kept)
