"""Where the queries of a session write: each to a place of its own, apart from what is read and gone on from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sash.errors import PlanError
from sash.io.places import real_place
from sash.io.sink import FileSink
from sash.runtime.delivery import Sink
from sash.runtime.registered import Queries
from sash.runtime.script import DEFAULT_OUTPUT
from sash.runtime.territory import Territories, refuse_name


@dataclass(frozen=True, slots=True)
class SessionPlaces:
    """The places of a session's queries, as long as these and its streams are the same."""

    queries: Queries
    is_spark: bool
    """Whether the session runs on Spark."""
    sources: Sequence[tuple[str, str]] = ()
    """Which streams are read from files there, and from where."""

    def sink_of(self, name: str, sink: Sink) -> Sink:
        """Where a query writes in fact: on Spark one without a sink writes where one of a script would."""
        if sink is None and self.is_spark:
            refuse_name(name, "query", "its changes")
            return FileSink(real_place(f"{DEFAULT_OUTPUT}/{name}"), "parquet")
        return sink

    def refuse_taken(self, name: str, sink: Sink, checkpoint: str | None) -> None:
        """Raises PlanError if a query that is new cannot write to its sink beside the others; `checkpoint` is what the
        session goes on from, if it runs.
        """
        for other in self.queries.values():
            if callable(sink) and other.into == sink:
                raise PlanError(
                    f"`{name}` cannot write to this function: that is where `{other.name}` writes; choose another"
                )
        place = self.sink_of(name, sink)
        if isinstance(place, FileSink):
            territories = self._territories()
            territories.add(name, place)
            self._refuse_reserved(territories, checkpoint)

    def refuse_checkpoint(self, checkpoint: str) -> None:
        """Raises PlanError if a session with these queries cannot go on from a directory."""
        self._refuse_reserved(self._territories(), checkpoint)

    def _territories(self) -> Territories:
        places = {name: self.sink_of(name, each.into) for name, each in self.queries.items()}
        return Territories(taken={name: place for name, place in places.items() if isinstance(place, FileSink)})

    def _refuse_reserved(self, territories: Territories, checkpoint: str | None) -> None:
        territories.refuse_sources(self.sources)
        if checkpoint is not None:
            territories.refuse_checkpoint(checkpoint)
