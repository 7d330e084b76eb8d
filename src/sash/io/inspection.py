"""Compares what an output's manifest says with the files that are there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow.fs

from sash.errors import SourceError
from sash.io.disk import Disk
from sash.io.files import is_hidden
from sash.io.manifest import Manifest
from sash.io.output_dir import CHANGES, REJECTS, OutputDir
from sash.io.places import shown_place
from sash.io.removal import join_names, strange_files
from sash.io.sink import list_batches


@dataclass(slots=True)
class Findings:
    """Where files and manifest differ."""

    unpublished: dict[int, list[str]] = field(default_factory=dict)
    """By batch that was written down: directories that are not there."""
    missing: dict[int, list[str]] = field(default_factory=dict)
    """By batch: files that are not there, though their directory is."""
    changed: dict[int, list[str]] = field(default_factory=dict)
    """By batch: files that are not what was written."""
    unknown: list[str] = field(default_factory=list)
    """Whatever was never written down and a reader would take for a part of the output."""


def inspect(output: OutputDir, manifest: Manifest | None, hashed: int | None = None) -> Findings:
    """Looks at the names and sizes of all files, and at the content of those from batch `hashed` on (None: of none)."""
    findings = Findings()
    disk, _ = output.resolve(output.path)
    lines = manifest.lines if manifest else {}
    for place in sorted(_places(output, disk) | {place for line in lines.values() for place in line.files}):
        _, root = output.resolve(output.sink(place).path)
        present = dict(list_batches(disk, root))
        expected = {batch: line.files[place] for batch, line in lines.items() if place in line.files}
        findings.unknown += [path for batch, path in present.items() if batch not in expected]
        for batch, files in expected.items():
            if batch in present:
                is_hashed = hashed is not None and batch >= hashed
                _compare(findings, disk, batch, present[batch], files, is_hashed)
            else:
                findings.unpublished.setdefault(batch, []).append(f"{root}/batch={batch}")
    for top in output.tops:
        findings.unknown += _strange(disk, output.resolve(top)[1], known=findings.unknown)
    return findings


def refuse_changed(
    output: OutputDir, manifest: Manifest | None, newest: int, remedy: str, hashed: int | None = None
) -> None:
    """Raises SourceError if something is not as it was written, or is not in the manifest.

    A batch after `newest` need not be there: a crash has interrupted it. What is there of it has to be whole, as it
    would not be published anew. The content is looked at from batch `hashed` on, by default from the newest.
    """
    found = inspect(output, manifest, newest if hashed is None else hashed)
    gone = [path for batch, paths in found.unpublished.items() if batch <= newest for path in paths]
    gone += [path for paths in found.missing.values() for path in paths]
    changed = [path for paths in found.changed.values() for path in paths]
    for named, what in (
        (gone, f"is missing from the output; {remedy}"),
        (changed, f"is not what was written; {remedy}"),
        (found.unknown, "was not written by this output's runs; move it away"),
    ):
        if named:
            raise SourceError(f"{join_names([shown_place(path) for path in named])} {what}")


def _compare(
    findings: Findings,
    disk: Disk,
    batch: int,
    directory: str,
    files: Mapping[str, tuple[int, str]],
    is_hashed: bool,
) -> None:
    found = {info.base_name: info for info in disk.entries(directory)}
    for name, (n_bytes, sha256) in files.items():
        path = f"{directory}/{name}"
        if name not in found:
            findings.missing.setdefault(batch, []).append(path)
        elif found[name].size != n_bytes or (is_hashed and _hash(disk, path) != sha256):
            findings.changed.setdefault(batch, []).append(path)
    findings.unknown += [info.path for name, info in found.items() if name not in files and not is_hidden(name)]


def _strange(disk: Disk, root: str, known: Collection[str]) -> list[str]:
    """What has no name that Sash gives. Hidden files are nobody's rows: systems and editors leave such behind."""
    found = strange_files(disk, root, is_parted=root.endswith(".late"))
    return [path for path in found if path not in known and not is_hidden(os.path.basename(path))]


def _places(output: OutputDir, disk: Disk) -> set[str]:
    """Where something may be, whether it was written down or not."""
    late = output.resolve(f"{output.path}.late")[1]
    streams = (info.base_name for info in disk.entries(late) if info.type == pyarrow.fs.FileType.Directory)
    return {CHANGES, REJECTS, *(f"late/{name}" for name in streams if not name.startswith("."))}


def _hash(disk: Disk, path: str) -> str:
    return hashlib.sha256(disk.read(path) or b"").hexdigest()


def shown_batches(batches: Iterator[int] | list[int]) -> str:
    """Some numbers for a message: `batch 4`, `batches 4 to 7`."""
    numbers = sorted(batches)
    if len(numbers) == 1:
        return f"batch {numbers[0]}"
    return f"batches {numbers[0]} to {numbers[-1]}"
