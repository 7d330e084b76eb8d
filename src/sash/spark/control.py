"""What the driver says to a running query: files of one JSON object each, in a directory that Spark watches.

    {"run": "3f2a…", "stream": "clicks", "complete_us": 1767268800000000}

A file of somebody else's would declare streams complete that are not, and their rows late. So each carries the stamp of
the run it is meant for, which is kept in the checkpoint, and one without it is refused by its name.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sash.errors import SourceError


class Punctuation(NamedTuple):
    """A stream, or all if it has no name, is complete up to a time, or up to the newest timestamp seen."""

    stream: str
    complete_us: int | None


@dataclass(frozen=True, slots=True)
class Control:
    """The control directory of a run, and its stamp."""

    directory: Path
    stamp: str

    def say(self, said: Punctuation) -> None:
        """Tells the running query; a reader sees the file whole or not at all."""
        name = f"{self.stamp[:16]}-{uuid.uuid4().hex}.json"
        (self.directory / f".{name}").write_text(json.dumps({"run": self.stamp} | said._asdict()) + "\n")
        (self.directory / f".{name}").rename(self.directory / name)

    def is_own(self, path: str) -> bool:
        """Whether a file has a name that this run gives."""
        return Path(path).name.startswith(f"{self.stamp[:16]}-")

    def check(self) -> None:
        """SourceError if the directory holds what this run has not said."""
        for path in sorted(self.directory.glob("*")):
            if not path.name.startswith((".", "_")):
                if path.is_dir():
                    raise SourceError(f"`{path}` was not written by this run: it is a directory; move it away")
                hear(path.read_bytes(), str(path), self.stamp)

    def forget(self, heard: Iterable[str]) -> None:
        """Removes what has been heard for good."""
        for path in heard:
            if self.is_own(path):
                Path(path).unlink(missing_ok=True)


def hear(content: bytes, path: str, stamp: str) -> Punctuation:
    """What a control file says; SourceError if it is not of this run."""
    try:
        said = json.loads(content)
        if said["run"] == stamp:
            return Punctuation(str(said["stream"]), None if said["complete_us"] is None else int(said["complete_us"]))
    except (ValueError, TypeError, KeyError):
        pass
    raise SourceError(f"control file `{path}` was not written by this run: it has not its stamp; remove the file")
