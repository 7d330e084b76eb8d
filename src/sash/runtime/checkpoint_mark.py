"""The mark of a checkpoint, `sash.json`: which query it is of, in which format, and what else is noted of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sash.errors import SourceError
from sash.io.damaged_files import damaged, read_object
from sash.io.disk import Disk
from sash.io.removal import CHECKPOINT_MARK

FORMAT = 8
"""Of checkpoints. Another number is another format, which is refused."""


def read_mark(checkpoint: Path) -> dict[str, Any]:
    """What was noted when a checkpoint was last opened; nothing if it never was. Raises SourceError if it is of another
    format, or damaged.
    """
    place = checkpoint / CHECKPOINT_MARK
    noted: dict[str, Any] = read_object(place) if place.exists() else {}
    if noted and (noted.get("format") != FORMAT or "sum" not in noted):
        raise SourceError(
            f"{place} was written by another version of Sash: its format is {noted.get('format')}, this version "
            f"reads format {FORMAT}; go on with that version, or remove {checkpoint} to start afresh"
        )
    if noted and noted["sum"] != _sum(noted):
        raise damaged(place, "it is not what was written")
    return noted


def write_mark(checkpoint: Path, noted: Mapping[str, Any]) -> None:
    """At once: a crash leaves no half of it."""
    content = json.dumps({**noted, "sum": _sum(noted)}, indent=1)
    Disk().replace(str(checkpoint / CHECKPOINT_MARK), content.encode(), str(checkpoint))


def _sum(noted: Mapping[str, Any]) -> str:
    """Of what is noted, to tell whether it was changed."""
    content = {name: value for name, value in noted.items() if name != "sum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
