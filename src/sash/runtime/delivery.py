"""Where the changes of a session's queries go as they come: into directories of theirs, or to functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from sash.errors import ResourceError
from sash.io.places import real_place, shown_place
from sash.io.sink import FileSink
from sash.runtime.job import QueryRun
from sash.runtime.run_lock import LockSet
from sash.runtime.session_output import Bookmark, SessionOutput, refuse_misfit

Into = str | os.PathLike[str] | Callable[[Any], None] | None
"""As a user says it."""
Sink = FileSink | Callable[[Any], None] | None
Bookmarks = Mapping[str, Bookmark]
"""By query, how far its output had come when a snapshot was taken."""


def open_sink(into: Into, format: str) -> Sink:
    """Where a query writes; nothing is written yet."""
    return FileSink(real_place(os.fspath(into)), format) if isinstance(into, str | os.PathLike) else into


class Delivery:
    """Passes changes on in this process. A directory belongs to one query, and is locked as long as it does.

    A session has no end that it could be told of. So in this process a newer session that may begin or go on in a
    directory gets it, and the older one is refused when it writes there again; another process has to wait.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, SessionOutput] = {}
        """By query that writes to a directory."""
        self._locks = LockSet(yields=True)

    def __contains__(self, name: str) -> bool:
        return name in self._outputs

    def claim(self, runs: Iterable[QueryRun], bookmarks: Bookmarks) -> None:
        """Locks the directories of queries; each has to be free, or as its bookmark says. If one is not, or another
        process has it, that is raised and all stays as it was.
        """
        runs = list(runs)
        self._refuse_misfits(runs, bookmarks)  # before a lock is taken from a session that rightly has it
        new = self._locks.add(run.output.path for run in runs)
        try:
            self._refuse_misfits(runs, bookmarks)
        except BaseException:
            self._locks.drop(new)
            raise

    def begin(self, runs: Iterable[QueryRun], bookmarks: Bookmarks) -> None:
        """Has queries write to directories that were claimed; what was written after a bookmark is removed."""
        for run in runs:
            self._outputs[run.name] = SessionOutput(run, bookmarks.get(run.name))

    def keep(self, runs: Iterable[QueryRun]) -> None:
        """Lets go of the directories of all other queries."""
        kept = {run.name: run for run in runs}
        self._outputs = {name: output for name, output in self._outputs.items() if name in kept}
        self._locks.keep(run.output.path for run in kept.values())

    def bookmarks(self) -> dict[str, Bookmark]:
        """How far each output has come; raises what hinders one from being written."""
        for name in self._outputs:
            self._refuse_if_lost(name)
        return {name: output.bookmark() for name, output in self._outputs.items()}

    def pass_on(self, name: str, sink: Sink, changes: pa.Table) -> None:
        """Delivers changes of one query."""
        if not changes.num_rows:
            return
        if name in self._outputs:
            self._refuse_if_lost(name)
            self._outputs[name].write(changes)
        elif callable(sink):
            sink(changes)

    def _refuse_misfits(self, runs: Iterable[QueryRun], bookmarks: Bookmarks) -> None:
        for run in runs:
            refuse_misfit(run, bookmarks.get(run.name))

    def _refuse_if_lost(self, name: str) -> None:
        path = self._outputs[name].path
        if not self._locks.holds(path):
            raise ResourceError(
                f"`{name}` cannot go on in {shown_place(path)}: another session of this process writes there now; drop "
                "the query here, or restore a snapshot in a new session"
            )
