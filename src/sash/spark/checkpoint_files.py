"""What is known of the files of a checkpoint, and whether they are still what it says."""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from pathlib import Path

from sash.io.damaged_files import damaged, reading


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
