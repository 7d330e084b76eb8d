"""Reads the files of a checkpoint; those that are damaged are told of by name, with the reason and what to do."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sash.errors import SourceError, describe_os_error

_RESTORE = "restore it from a backup, or run with --fresh to start afresh"


def read_object(path: Path) -> dict:
    """A JSON object."""
    try:
        with reading(path):
            content = json.loads(path.read_bytes())
    except ValueError:
        raise damaged(path, "it is not JSON") from None
    if not isinstance(content, dict):
        raise damaged(path, "it is not a JSON object")
    return content


def read_hashes(path: Path) -> dict[str, dict]:
    """What the manifest says of each file; a line that a crash has torn says nothing."""
    if not path.exists():
        return {}
    files: dict[str, dict | None] = {}
    with reading(path):
        lines = path.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
        except ValueError:
            raise damaged(path, f"line {number} is not JSON") from None
        if not isinstance(said, dict) or not all(seen is None or _is_look(seen) for seen in said.values()):
            raise damaged(path, f"line {number} does not say what files hold")
        files |= said
    return {name: seen for name, seen in files.items() if seen is not None}


def _is_look(seen: object) -> bool:
    return isinstance(seen, dict) and isinstance(seen.get("sha256"), str)


def verify_hash(path: Path, sha256: str) -> None:
    """SourceError if a file is not what was written. It may be gone: Spark removes old ones in a thread of its own."""
    with suppress(FileNotFoundError), reading(path):
        if hash_file(path) != sha256:
            raise damaged(path, "its content is not what was written")


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of(path: Path) -> Path:
    """Where Hadoop keeps the checksum of a file."""
    return path.with_name(f".{path.name}.crc")


def fits_checksum(path: Path) -> bool:
    """Whether a file is what Hadoop says, if it does: `crc`, a length, and a CRC for each so many bytes."""
    try:
        said, content = checksum_of(path).read_bytes(), memoryview(path.read_bytes())
    except OSError:
        return True  # one of them is gone
    length = int.from_bytes(said[4:8])
    if not said.startswith(b"crc\0") or not 0 < length < 2**31:
        return False
    chunks = (content[low : low + length] for low in range(0, len(content), length))
    return said[8:] == b"".join(zlib.crc32(chunk).to_bytes(4) for chunk in chunks)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tells of a file that cannot be read, such as a directory in its place; not of one that is gone."""
    try:
        yield
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise damaged(path, "it is a directory, not a file") from None
    except NotADirectoryError:
        raise damaged(path, "a part of its path is a file") from None
    except OSError as error:
        raise describe_os_error(error, str(path)) from error


def damaged(path: Path, what: str) -> SourceError:
    """The error for a file that is there, and wrong."""
    return SourceError(f"{path} is damaged: {what}; {_RESTORE}")


def missing(path: Path) -> SourceError:
    """The error for a file that is needed, and gone."""
    return SourceError(f"{path} is missing, without which the run cannot go on; {_RESTORE}")
