"""Removes directories that are Sash's, each at once, and finds in them what is not.

A directory is renamed to `.NAME.removed-…` beside it and then emptied, so that a crash never leaves half of one under
its name; the next run finishes what a crash has interrupted.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Sequence

import pyarrow.fs

from sash.errors import SourceError
from sash.io.disk import Disk
from sash.io.files import FORMATS
from sash.io.manifest import MARK
from sash.io.places import shown_place

CHECKPOINT_MARK = "sash.json"
"""The file of a checkpoint that says what it belongs to."""
_CHECKPOINT_NAMES = re.compile(r"(sash\.json|manifest\.jsonl)(\.new)?|control|relations|spark|tables")
_BEFORE_THE_MARK = {"control", f"{CHECKPOINT_MARK}.new"}
"""What a run that is killed while it marks a checkpoint leaves there; nothing has been said by then."""
_PARTS = re.compile(rf"part-[0-9a-f]+-[\w-]+\.({'|'.join(FORMATS)})")
_BATCHES = re.compile(r"batch=(0|[1-9][0-9]*)")
_N_NAMED = 5


def remove_directory(disk: Disk, path: str) -> None:
    """Removes a directory with all that is in it; nothing if there is none. What cannot be removed is a SourceError."""
    try:
        if disk.exists(path):
            parent, name = os.path.split(path)
            disk.rename(path, f"{parent}/{_removed(name)}{uuid.uuid4().hex}")
            disk.sync(parent)
        finish_removal(disk, path)
    except OSError as error:
        raise SourceError(
            f"{shown_place(path)} cannot be removed: {error}; give this user the right, or remove it yourself"
        ) from error


def finish_removal(disk: Disk, path: str) -> None:
    """Removes what earlier calls of `remove_directory` for this path had begun with."""
    parent, name = os.path.split(path)
    for info in disk.entries(parent):
        if re.fullmatch(re.escape(_removed(name)) + "[0-9a-f]{32}", info.base_name):
            disk.remove_tree(info.path)


def strange_files(disk: Disk, root: str, is_parted: bool = False) -> Iterator[str]:
    """What stands in a marked directory and has no name that Sash gives; `is_parted`: it has one more level."""
    for info in disk.entries(root):
        is_directory = info.type == pyarrow.fs.FileType.Directory
        if is_parted and is_directory:
            yield from strange_files(disk, info.path)
        elif _BATCHES.fullmatch(info.base_name) and is_directory:
            yield from (file.path for file in disk.entries(info.path) if not _PARTS.fullmatch(file.base_name))
        elif info.base_name != MARK:
            yield info.path


def refuse_checkpoint_removal(disk: Disk, path: str) -> None:
    """Raises SourceError if a directory is no checkpoint of Sash's, or something else is in it."""
    names = [info.base_name for info in disk.entries(path)]
    is_begun = _BEFORE_THE_MARK.issuperset(names) and not disk.entries(f"{path}/control")
    if names and not is_begun and not _is_marked(disk, path):
        raise SourceError(
            f"{shown_place(path)} is not a checkpoint of Sash: it holds {join_names(names)} and no mark of Sash's "
            f"(`{CHECKPOINT_MARK}`); write INTO another directory, or remove this one yourself"
        )
    strange = [name for name in names if not _CHECKPOINT_NAMES.fullmatch(name)]
    if strange:
        raise SourceError(
            f"{shown_place(path)} cannot be removed: {join_names(strange)} in it was not written by Sash; "
            "move that away"
        )


def _is_marked(disk: Disk, path: str) -> bool:
    """Whether a directory has a checkpoint's mark, of whatever version, and whatever became of its content."""
    try:
        return {"format", "plan", "groups"} <= json.loads(disk.read(f"{path}/{CHECKPOINT_MARK}") or b"").keys()
    except (OSError, ValueError, AttributeError):
        return False


def join_names(names: Sequence[str]) -> str:
    """Some names for a message."""
    named = ", ".join(f"`{name}`" for name in names[:_N_NAMED])
    return named if len(names) <= _N_NAMED else f"{named} and {len(names) - _N_NAMED} more"


def _removed(name: str) -> str:
    return f".{name}.removed-"
