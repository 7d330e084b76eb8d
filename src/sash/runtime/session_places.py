"""Where the queries of a session write: each to a place of its own, apart from what is read and gone on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sash.embedded.local_run import Queries
from sash.errors import PlanError
from sash.frames import is_spark
from sash.io.places import real_place
from sash.io.sink import FileSink
from sash.runtime.delivery import Sink
from sash.runtime.script import DEFAULT_OUTPUT
from sash.runtime.territory import Territories


@dataclass(frozen=True, slots=True)
class SessionPlaces:
    """The places of a session's queries, as long as these and its frames are the same."""

    queries: Queries
    frames: Mapping[str, Any]

    def sink_of(self, name: str, sink: Sink) -> Sink:
        """Where a query writes in fact: on Spark one without a sink writes where one of a script would."""
        if sink is None and self._is_spark:
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

    @property
    def _is_spark(self) -> bool:
        return any(is_spark(frame) for frame in self.frames.values())

    def _territories(self) -> Territories:
        places = {name: self.sink_of(name, each.into) for name, each in self.queries.items()}
        return Territories(taken={name: place for name, place in places.items() if isinstance(place, FileSink)})

    def _refuse_reserved(self, territories: Territories, checkpoint: str | None) -> None:
        if self._is_spark:
            from sash.spark.spark_sql import streamed_paths

            territories.refuse_sources(streamed_paths(self.frames))
        if checkpoint is not None:
            territories.refuse_checkpoint(checkpoint)
