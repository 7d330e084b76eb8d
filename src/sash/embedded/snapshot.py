"""Snapshots as bytes: sealed, so that whoever restores one knows that it is whole, whose it is, and of which version.

    SASHSNAP | version | sha256 of the version and the rest | the rest: a pickle of (kind, state)

This layout stays in every version, so that an older Sash can tell a newer snapshot from a damaged one. Nothing is
unpickled before the checksum has been found right.
"""

from __future__ import annotations

import hashlib
import pickle
import struct
from typing import Any

from sash.errors import SourceError

MAGIC = b"SASHSNAP"
VERSION = 2
"""Of what the pickles hold; a snapshot with another number is refused."""
_HEAD = struct.Struct(f">{len(MAGIC)}sI32s")


def seal(kind: str, state: Any) -> bytes:
    """A snapshot of `kind`, such as "query"; `unseal` gives the state back."""
    body = pickle.dumps((kind, state))
    return _HEAD.pack(MAGIC, VERSION, _checksum(VERSION, body)) + body


def unseal(kind: str, snapshot: bytes) -> Any:
    """The state in a snapshot of `kind`. Raises SourceError if it is damaged, or of another kind or version."""
    version, checksum, body = _parts(snapshot)
    if _checksum(version, body) != checksum:
        raise SourceError(
            "the snapshot is damaged: its checksum does not fit its content; restore an earlier one, or begin anew"
        )
    if version != VERSION:
        raise SourceError(
            f"the snapshot has version {version}, and this Sash reads version {VERSION}; restore it with the Sash that "
            "it was taken with"
        )
    try:
        found, state = pickle.loads(body)
    except Exception as error:  # whatever classes of another Python or Arrow raise
        raise SourceError(
            f"the snapshot is whole but cannot be read here ({type(error).__name__}: {error}); restore it with the "
            "versions of Python and pyarrow that it was taken with"
        ) from None
    if found != kind:
        raise SourceError(f"the snapshot was taken of a {found}; restore it there, not into a {kind}")
    return state


def _parts(snapshot: bytes) -> tuple[int, bytes, memoryview]:
    if not isinstance(snapshot, bytes | bytearray | memoryview):
        raise SourceError(f"a snapshot is bytes, not {type(snapshot).__qualname__}; pass what `snapshot()` returned")
    view = memoryview(snapshot)
    if len(view) < _HEAD.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise SourceError(
            f"these {len(view)} bytes are no snapshot, or a damaged one: a snapshot begins with `{MAGIC.decode()}`; "
            "pass what `snapshot()` returned"
        )
    _, version, checksum = _HEAD.unpack(view[: _HEAD.size])
    return version, checksum, view[_HEAD.size :]


def _checksum(version: int, body: bytes | memoryview) -> bytes:
    checksum = hashlib.sha256(version.to_bytes(4, "big"))
    checksum.update(body)
    return checksum.digest()
