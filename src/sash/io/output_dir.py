"""The directories that belong to one query's output, and who may write and remove what there.

    out/                  changes, and the mark with the manifest: `out/_sash`
    out.late/STREAM/      late rows of a stream          each of them with a mark
    out.rejects/          records that could not be read
    out.checkpoint/       what a later run goes on from: it has a mark of its own, `sash.json`
    .out.staging/         work in progress               emptied when a run starts

A directory is free if it is not there or empty. What is marked was written by Sash, and is removed if a user asks for
it, unless something else is in it. All other directories are somebody else's: they are never written to or removed.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs

from sash.errors import SourceError
from sash.io.disk import Disk, telling_of
from sash.io.manifest import FORMAT, MARK, Manifest
from sash.io.places import shown_place
from sash.io.removal import finish_removal, join_names, refuse_checkpoint_removal, remove_directory, strange_files
from sash.io.sink import FileSink, clear_staging, staging_of

CHANGES, REJECTS = "", "rejects"
"""Places of an output; the late rows of a stream are in `late/STREAM`."""


@dataclass(frozen=True, slots=True)
class OutputDir:
    """A query's output, by the directory of its changes, as `real_place` names it."""

    path: str
    format: str
    filesystem: pyarrow.fs.FileSystem | None = None

    def sink(self, place: str) -> FileSink:
        """Where changes, rejects or late rows are written."""
        if place == CHANGES:
            return FileSink(self.path, self.format)
        staging = f"{staging_of(self.resolve(self.path)[1])}/{place}"
        return FileSink(f"{self.path}.{place}", "json" if place == REJECTS else "parquet", staging)

    @property
    def tops(self) -> tuple[str, str, str]:
        """The directories that are marked."""
        return self.path, f"{self.path}.late", f"{self.path}.rejects"

    @property
    def checkpoint(self) -> str:
        return f"{self.path}.checkpoint"

    @property
    def territory(self) -> tuple[str, ...]:
        """All that belongs to it: nobody else may have a place there."""
        return (*self.tops, self.checkpoint, staging_of(self.path))

    def manifest(self) -> Manifest | None:
        """What it says was published; None if nothing has been written."""
        disk, root = self.resolve(self.path)
        return Manifest.read(disk, root)

    def is_free(self) -> bool:
        """Whether a run may begin here."""
        return not any(disk.entries(root) for disk, root in map(self.resolve, self.tops))

    def refuse_foreign(self) -> None:
        """Raises SourceError if a directory of this name is there that Sash has not made."""
        for disk, root in map(self.resolve, self.tops):
            held = _names_in(disk, root)
            if held and not Manifest.marks(disk, root):
                if MARK in held:
                    raise SourceError(
                        f"{shown_place(root)} has a mark of Sash's (`{MARK}`) that is damaged, so nobody can say whose "
                        "the directory is; restore the mark from a backup, write INTO another directory, or empty this "
                        "one yourself"
                    )
                raise SourceError(
                    f"{shown_place(root)} is not an output of Sash: it holds {join_names(held)} and no mark of Sash's "
                    f"(`{MARK}`); write INTO another directory, or empty this one yourself"
                )

    def refuse_occupied(self, remedy: str = "run with --fresh to replace it") -> None:
        """Raises SourceError unless a run may begin here; `remedy` is how to make room."""
        self.refuse_foreign()
        if not self.is_free():
            raise SourceError(
                f"{shown_place(self.path)} holds the output of an earlier run that cannot be gone on from; "
                f"{remedy}, or write INTO another directory"
            )

    def clear_staging(self) -> None:
        """Removes what earlier runs had under way, and what they had not finished removing."""
        disk, root = self.resolve(self.path)
        clear_staging(disk, staging_of(root))
        for top in (*self.tops, self.checkpoint):
            finish_removal(*self.resolve(top))

    def refuse_removal(self) -> None:
        """Raises SourceError if something stands in the output or its checkpoint that Sash has not written."""
        self.refuse_foreign()
        for disk, root in map(self.resolve, self.tops):
            strange = [shown_place(path) for path in strange_files(disk, root, is_parted=root.endswith(".late"))]
            if strange:
                raise SourceError(
                    f"{shown_place(root)} cannot be removed: {join_names(strange)} in it was not written by Sash; "
                    "move that away, or write INTO another directory"
                )
        refuse_checkpoint_removal(*self.resolve(self.checkpoint))

    def remove(self) -> None:
        """Removes the output with all its parts; first `refuse_removal` must have let it pass.

        The directory of the changes, which has the manifest, goes last: a crash before leaves an output that is seen to
        be incomplete.
        """
        self.clear_staging()
        for top in (self.checkpoint, *reversed(self.tops)):
            remove_directory(*self.resolve(top))

    def remove_batches(self, batches: Collection[int]) -> None:
        """Takes back batches that the manifest names, for whoever goes back to before they were written.

        They go before their lines: one that is there and not in the manifest would be held for somebody else's. A crash
        leaves what can be removed again.
        """
        manifest = self.manifest()
        if manifest is None or not batches:
            return
        disk, root = self.resolve(self.path)
        staging = staging_of(root)
        with telling_of(self.path):
            disk.make_directory(staging)
            for batch in sorted(batches, reverse=True):
                for place in manifest.lines[batch].files:
                    published = f"{self.resolve(self.sink(place).path)[1]}/batch={batch}"
                    if disk.exists(published):
                        disk.rename(published, f"{staging}/batch={batch}-{place.replace('/', '-')}-removed")
            manifest.forget(batches, staging)
            self.clear_staging()

    def new_head(
        self, query: str, text: str, plan: str, changes: pa.Schema, identity: str | None = None
    ) -> dict[str, Any]:
        """The first line of a manifest that is to be written; the output may have been given its identity before.
        `changes` is their schema, which says how they are to be read: not every format can.
        """
        return {
            "sash": FORMAT,
            "output": identity or uuid.uuid4().hex,
            "query": query,
            "text": text,
            "plan": plan,
            "format": self.format,
            "changes": base64.b64encode(changes.serialize()).decode(),
        }

    def resolve(self, path: str) -> tuple[Disk, str]:
        """The disk that one of its directories is on, and where there."""
        return FileSink(path, self.format).resolve(self.filesystem)


def _names_in(disk: Disk, directory: str) -> list[str]:
    try:
        return [info.base_name for info in disk.entries(directory)]
    except OSError as error:
        raise SourceError(
            f"{shown_place(directory)} cannot be an output: {error}; write INTO a directory that this user may write"
        ) from error
