"""Publishes the batches of one output: each is written down in the manifest, and then becomes visible."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sash.io.disk import telling_of
from sash.io.manifest import MARK, Line, Manifest
from sash.io.output_dir import CHANGES, OutputDir
from sash.io.sink import Part, staging_of


class Ledger:
    """What is published of an output, and the only way to publish more. One run at a time has one.

    Without a manifest the output is new: it gets `head` for one, with the first batch.
    """

    def __init__(self, output: OutputDir, manifest: Manifest | None, head: Mapping[str, Any]):
        self._output = output
        self._disk, self._root = output.resolve(output.path)
        self._staging = staging_of(self._root)
        self._is_new = manifest is None
        self.manifest = manifest or Manifest(self._disk, f"{self._root}/{MARK}", head)
        with telling_of(self.manifest.path):
            self._mend()

    def publish(
        self,
        batch: int,
        parts: Mapping[str, Sequence[Part]],
        input: str | None = None,
        tables: Mapping[str, str] | None = None,
        clock_us: int | None = None,
    ) -> None:
        """Makes the parts of a batch visible, by place. What was published of it before stays as it is. `tables` are
        the versions of those that it has met. With `clock_us` all changes up to that time are published.
        """
        line = Line(batch, input, dict(self._files(batch, parts)), dict(tables or {}), clock_us)
        with telling_of(self.manifest.path):
            self._write_down(line)
        for place in sorted({CHANGES, *parts}):
            self._output.sink(place).publish(batch, parts.get(place, []), self._output.filesystem)

    def _files(self, batch: int, parts: Mapping[str, Sequence[Part]]) -> Iterator[tuple[str, dict]]:
        """What the batch is made of: in each place what was published before, or else these parts."""
        before = self.manifest.lines.get(batch)
        known = before.files if before else {}
        for place in sorted({*parts, *known}):
            disk, root = self._output.resolve(self._output.sink(place).path)
            if place in known and disk.exists(f"{root}/batch={batch}"):
                yield place, dict(known[place])
            elif parts.get(place):
                yield place, {part.name: [part.n_bytes, part.sha256] for part in parts[place]}

    def _write_down(self, line: Line) -> None:
        self._mend()
        if self._is_new:
            self._disk.make_directory(self._root)
            self.manifest.create(self._staging)
            self._disk.sync(os.path.dirname(self._root))
            self._is_new = False
        if self.manifest.lines.get(line.batch) != line:
            self.manifest.add(line)
        for place in sorted({place.partition("/")[0] for place in line.files} - {CHANGES}):
            self._mark(f"{self._root}.{place}")

    def _mend(self) -> None:
        """Takes out a line that was torn: by a crash, or by a disk that was full when this ledger wrote it."""
        if self.manifest.is_torn:
            self.manifest.forget((), self._staging)

    def _mark(self, directory: str) -> None:
        """So that a directory beside the output can be told from somebody else's."""
        if not self._disk.exists(f"{directory}/{MARK}"):
            self._disk.make_directory(directory)
            Manifest(self._disk, f"{directory}/{MARK}", self.manifest.head).create(self._staging)
