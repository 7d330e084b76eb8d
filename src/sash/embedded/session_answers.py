"""The answers that a session keeps, of the queries that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sash.errors import SourceError
from sash.runtime.kept_answer import NOT_IN_SNAPSHOT, KeptAnswer
from sash.runtime.moments import Moment
from sash.runtime.registered import Queries, Registered, active_plans


class SessionAnswers:
    """What is kept, by query. It begins when the query does, and is forgotten when it is dropped or paused."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptAnswer] = {}

    def become(self, queries: Queries) -> None:
        """Goes on with those of these queries that run and ask for it."""
        names = [name for name in active_plans(queries) if queries[name].keep_us is not None]
        self._kept = {name: self._kept.get(name) or _keep(queries[name]) for name in names}

    def take(self, name: str, changes: pa.Table) -> None:
        """Changes of a query, which come after those before."""
        if name in self._kept:
            self._kept[name].take(changes)

    def go_on(self, clock_us: Callable[[str], int]) -> None:
        """A step is over: all changes of each query have come, up to its clock."""
        for name, kept in self._kept.items():
            kept.go_on(clock_us(name))

    def answer(self, name: str, at: Moment | None, clock: int) -> pa.Table:
        """The answer of a query, which has to ask for it, at an instant or at its clock."""
        return self._kept[name].answer(at, clock)

    def export_state(self, queries: Queries) -> Any:
        """Of each query that runs, what it is and what is kept of its answer; see `import_state`."""
        return {
            name: (plan.fingerprint, self._kept[name].export_state() if name in self._kept else None)
            for name, plan in active_plans(queries).items()
        }

    def import_state(self, states: Mapping[str, Any]) -> None:
        """Goes on with what `states_for` has found."""
        for name, state in states.items():
            self._kept[name].import_state(state)


def _keep(query: Registered) -> KeptAnswer:
    assert query.keep_us is not None
    return KeptAnswer(query.plan, query.keep_us)


def states_for(exported: Mapping[str, tuple[str, Any]], queries: Queries) -> dict[str, Any]:
    """What was exported of those of these queries that go on. Raises SourceError if one asks for an answer that was not
    kept.
    """
    found = {}
    for name, plan in active_plans(queries).items():
        fingerprint, state = exported.get(name, ("", None))
        if fingerprint == plan.fingerprint and queries[name].keep_us is not None:
            if state is None:
                raise SourceError(NOT_IN_SNAPSHOT)
            found[name] = state
    return found
