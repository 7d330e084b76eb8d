"""Watches queries while they run: to the end of the input, until somebody says stop, or until one fails for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol

from sash.errors import PlanError, SashError, SourceError

N_RESTARTS = 5
LONGEST_PAUSE_SECONDS = 60
_FINISH_LOOK_SECONDS = 0.05
_FOLLOW_LOOK_SECONDS = 0.5


class Watched(Protocol):
    """What a watch has to know of a query."""

    @property
    def name(self) -> str: ...

    @property
    def n_batches(self) -> int: ...

    def start(self) -> None: ...

    def finish(self) -> None: ...

    def find_failure(self) -> SashError | None: ...


def _never(seconds: float) -> bool:
    return Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class Watch:
    """Who says stop, and how often a query that is followed may fail."""

    wait: Callable[[float], bool] = _never
    """Waits so many seconds, or until the run is to stop; says whether it is."""
    n_restarts: int = N_RESTARTS
    """How often a query is started again before it gives up; it counts anew after every batch."""
    say: Callable[[str], None] = lambda sentence: None

    def finish(self, queries: Sequence[Watched]) -> None:
        """Returns when all input has been answered for, or when the run is to stop; raises what has gone wrong."""
        wrong: list[BaseException] = []

        def finish_all() -> None:
            try:
                for query in queries:
                    query.finish()
            except BaseException as error:
                wrong.append(error)

        # Not here: a call that waits for the JVM cannot be interrupted without losing the line to it.
        thread = Thread(target=finish_all, name="sash-finish", daemon=True)
        thread.start()
        while thread.is_alive():
            if self.wait(_FINISH_LOOK_SECONDS):
                return
        if wrong:
            raise wrong[0]

    def follow(self, queries: Sequence[Watched]) -> None:
        """Returns when the run is to stop. A query that fails is started again, after ever longer pauses."""
        failed: dict[int, tuple[int, int]] = {}
        """By query: how often in a row it has failed, and after which batch."""
        while not self.wait(_FOLLOW_LOOK_SECONDS):
            for idx, query in enumerate(queries):
                failure = query.find_failure()
                while failure is not None:
                    n_before, n_batches = failed.get(idx, (0, 0))
                    n_failures = 1 + (n_before if query.n_batches == n_batches else 0)
                    failed[idx] = (n_failures, query.n_batches)
                    if self._is_stopped_in_pause(query, failure, n_failures):
                        return
                    failure = _start(query)

    def _is_stopped_in_pause(self, query: Watched, failure: SashError, n_failures: int) -> bool:
        """Waits before a query is started again. What the user has to repair is raised at once."""
        if isinstance(failure, SourceError | PlanError) or n_failures > self.n_restarts:
            raise failure
        pause = min(2 ** (n_failures - 1), LONGEST_PAUSE_SECONDS)
        self.say(
            f"`{query.name}` failed: {failure}; it is started again in {pause} s ({n_failures} of {self.n_restarts})"
        )
        return self.wait(pause)


def _start(query: Watched) -> SashError | None:
    """Why a query could not be started; None if it was."""
    try:
        query.start()
    except SashError as failure:
        return failure
    return None
