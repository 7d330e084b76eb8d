"""The queries of a session, as they were registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sash.io.sink import FileSink
from sash.plan.query_plan import QueryPlan
from sash.runtime.delivery import Sink
from sash.runtime.job import QueryRun


@dataclass(frozen=True, slots=True)
class Registered:
    """A query of a session."""

    name: str
    text: str
    plan: QueryPlan
    into: Sink
    is_paused: bool = False
    keep_us: int | None = None
    """For how long its answer is kept; None if it is not."""

    @property
    def identity(self) -> tuple[str, Sink]:
        """By which a snapshot knows it, besides by its name."""
        return self.plan.fingerprint, self.into

    @property
    def run(self) -> QueryRun | None:
        """How it writes to a directory, if it does."""
        if not isinstance(self.into, FileSink):
            return None
        return QueryRun(self.name, self.plan, {}, {}, self.into, text=self.text)


Queries = Mapping[str, Registered]


def active_plans(queries: Queries) -> dict[str, QueryPlan]:
    """The plans of queries that are not paused."""
    return {each.name: each.plan for each in queries.values() if not each.is_paused}


def written_runs(queries: Queries) -> list[QueryRun]:
    """Of queries that write to directories."""
    return [run for run in (each.run for each in queries.values()) if run is not None]
