"""The output of a session's query in this process, and whether it and a snapshot belong together.

    snapshot     0 ─ 1 ─ 2                 a bookmark: which output, how many batches, the sum of the newest line
    output       0 ─ 1 ─ 2 ─ 3 ─ 4         what came after it is removed, as the rows that come now bring it again

If the output has less than the bookmark says, rows are missing that will never be written again; if its batches up to
there are others, it is not that of the snapshot. Neither is gone on from.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sash.errors import SourceError
from sash.io.inspection import refuse_changed, shown_batches
from sash.io.output_dir import CHANGES
from sash.io.places import shown_place
from sash.runtime.job import QueryRun

_RESTORE = "restore the output that belongs to the snapshot, or write INTO another directory"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far an output had come."""

    output: str
    """Its identity."""
    n_batches: int
    sum: str
    """Of the newest line of its manifest."""


class SessionOutput:
    """Writes the changes of a query as batches without gaps. Whoever has it has the lock of its directory."""

    def __init__(self, run: QueryRun, bookmark: Bookmark | None = None):
        """Begins an output, or goes on from a bookmark and removes what was written after it; `refuse_misfit` must
        have let it pass.
        """
        self._run = run
        self._n_batches = bookmark.n_batches if bookmark else 0
        self._waiting: list[pa.Table] = []
        """What could not be written yet."""
        manifest = run.output.manifest()
        if manifest is not None:
            run.output.remove_batches([batch for batch in manifest.lines if batch >= self._n_batches])
        self._ledger = run.open_ledger(bookmark.output if bookmark else None)

    @property
    def path(self) -> str:
        return self._run.output.path

    def write(self, changes: pa.Table) -> None:
        """Publishes changes, after those that could not be published before."""
        self._waiting.append(changes)
        self._write_waiting()

    def bookmark(self) -> Bookmark:
        """How far it has come, with all that it was given."""
        self._write_waiting()
        manifest = self._ledger.manifest
        return Bookmark(manifest.output, self._n_batches, manifest.sum)

    def _write_waiting(self) -> None:
        while self._waiting:
            batch, part = self._n_batches, f"part-{self._run.identity}-0"
            staged = self._run.sink.write_part(batch, part, self._waiting[0])
            self._ledger.publish(batch, {CHANGES: [staged]})
            self._n_batches += 1
            del self._waiting[0]


def refuse_misfit(run: QueryRun, bookmark: Bookmark | None) -> None:
    """Raises SourceError unless a query may begin in its directory, or go on from a bookmark. Changes nothing."""
    output, path = run.output, shown_place(run.output.path)
    if bookmark is None:
        return output.refuse_occupied("remove it")
    output.refuse_foreign()
    manifest = output.manifest()
    if manifest is not None and manifest.output != bookmark.output:
        raise SourceError(f"{path} holds the output of another run than that of the snapshot; {_RESTORE}")
    written = manifest.lines if manifest else {}
    lacking = [batch for batch in range(bookmark.n_batches) if batch not in written]
    if lacking:
        raise SourceError(
            f"{path} lacks {shown_batches(lacking)}, which the snapshot has answered: was an older output restored, or "
            f"the output removed? Their rows would be missing; {_RESTORE}"
        )
    if manifest is not None and bookmark.n_batches and manifest.sum_before(bookmark.n_batches) != bookmark.sum:
        raise SourceError(
            f"{path} and the snapshot do not belong together: up to batch {bookmark.n_batches - 1} the output has "
            f"other changes than when the snapshot was taken; {_RESTORE}"
        )
    refuse_changed(output, manifest, bookmark.n_batches - 1, _RESTORE)
