"""What the user of a run on Spark should be told of the rows that came: once for each stream and kind, and as long as
rows are held, that they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sash.io.time_column import likely_unit, suspicion
from sash.runtime.lateness import Lateness, show_time, waiting_note
from sash.spark.exchange import Message
from sash.sql.catalog import StreamInfo


class ArrivalNotes:
    """Looks at what the groups answer, batch by batch."""

    def __init__(self, streams: Mapping[str, StreamInfo]):
        self._streams = streams
        self._seen: set[str] = set()
        self._movers: dict[str, dict[int, str]] = {name: {} for name in streams}
        """By stream, the files in which the times stand to which its clock came, and that wait."""
        self._lateness = {name: Lateness() for name in streams}
        self._told: dict[tuple[str, str], str] = {}
        self._held: list[str] = []

    @property
    def notes(self) -> list[str]:
        """All that is to be told now."""
        return [*self._told.values(), *self._held]

    def see(self, answers: Sequence[Message]) -> None:
        """What has come of a batch."""
        n_read, n_late, progress = Counter(), Counter(), progress_of(answers)
        for each in answers:
            if each.kind == "arrival":
                n_read[each.stream] += each.facts["n_read"]
                self._see_first(each.stream, each.facts["first_us"])
            elif each.kind == "late":
                n_late[each.stream] += each.facts["n_rows"]
        for stream, told in progress.items():
            self._see_movers(
                stream, told, [each.facts for each in answers if (each.kind, each.stream) == ("arrival", stream)]
            )
            self._lateness[stream].see(n_late[stream], n_read[stream])
            if n_late[stream]:
                self._tell("late", stream, self._mass_lateness(stream, told["after"]["newest_us"]))
        if progress:
            n_held = {stream: told["after"]["n_held"] for stream, told in progress.items()}
            self._held = [waiting_note(stream, self._streams[stream], n) for stream, n in n_held.items() if n]

    def _see_first(self, stream: str, first_us: int | None) -> None:
        """Does the very first row count microseconds?"""
        if first_us is None or stream in self._seen:
            return
        self._seen.add(stream)
        unit = likely_unit(first_us, self._streams[stream])
        self._tell("unit", stream, unit and suspicion(stream, first_us, unit))

    def _see_movers(self, stream: str, told: Mapping[str, Mapping[str, int]], arrivals: Iterable[dict]) -> None:
        """A file whose newest row was rejected, or is not newer than what came before, has not moved the clock."""
        before, after = told["before"], told["after"]
        for facts in arrivals:
            if facts["newest_us"] is not None and facts["newest_us"] > before["newest_us"]:
                self._movers[stream].setdefault(facts["newest_us"], facts.get("path", ""))
        wanted = after["newest_us"], after["held_us"]
        self._movers[stream] = {us: path for us, path in self._movers[stream].items() if us in wanted}

    def _mass_lateness(self, stream: str, newest_us: int) -> str | None:
        path = self._movers[stream].get(newest_us)
        mover = None if path is None else f"a row of {path}" if path else "one"
        return self._lateness[stream].tell(stream, mover, show_time(newest_us, self._streams[stream]))

    def _tell(self, kind: str, stream: str, note: str | None) -> None:
        if note is not None:
            self._told.setdefault((kind, stream), note)


def progress_of(answers: Sequence[Message]) -> dict[str, dict[str, dict[str, int]]]:
    """How far each stream was before and after a batch, as one group tells for all."""
    states = (each.facts for each in answers if each.kind == "state")
    return next((state["streams"] for state in states if state["streams"]), {})
