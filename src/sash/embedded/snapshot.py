"""Snapshots as bytes: sealed, so that whoever restores one knows that it is whole, whose it is, and of which version.

    SASHSNAP | version | sha256 of the version and the rest | the rest: entries end to end, a pickle, and its length

The pickle is of (kind, state), in which mappings that make their entries as they are asked for stand for the places of
these entries. So a snapshot is never in memory more than once, neither when it is taken nor when it is restored.

The first line of this layout stays in every version, so that an older Sash can tell a newer snapshot from a damaged
one. Nothing is unpickled before the checksum has been found right.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from sash.errors import SourceError

MAGIC = b"SASHSNAP"
VERSION = 6
"""Of what follows the checksum; a snapshot with another number is refused."""
_HEAD = struct.Struct(f">{len(MAGIC)}sI32s")
_LENGTH = struct.Struct(">Q")

Places: TypeAlias = dict[str, tuple[int, int]]
"""By key, where an entry begins in a snapshot, and its length."""


def seal(kind: str, state: Any) -> bytes:
    """A snapshot of `kind`, such as "query"; `unseal` gives the state back. Mappings in it that are no dictionaries are
    of texts to bytes, and are read here, entry by entry.
    """
    sink, pickled = io.BytesIO(), io.BytesIO()
    sink.write(bytes(_HEAD.size))
    _Pickler(pickled, sink).dump((kind, state))
    sink.write(pickled.getbuffer())
    sink.write(_LENGTH.pack(pickled.tell()))
    with sink.getbuffer() as view:
        _HEAD.pack_into(view, 0, MAGIC, VERSION, _checksum(VERSION, view[_HEAD.size :]))
    return sink.getvalue()


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
        found, state = _load(body, memoryview(snapshot))
    except Exception as error:  # whatever classes of another Python or Arrow raise
        raise SourceError(
            f"the snapshot is whole but cannot be read here ({type(error).__name__}: {error}); restore it with the "
            "versions of Python and pyarrow that it was taken with"
        ) from None
    if found != kind:
        raise SourceError(f"the snapshot was taken of a {found}; restore it there, not into a {kind}")
    return state


class _Pickler(pickle.Pickler):
    """Writes the entries of mappings to a sink, and pickles where they are."""

    def __init__(self, file: io.BytesIO, sink: io.BytesIO):
        super().__init__(file)
        self._sink = sink

    def persistent_id(self, obj: Any) -> Places | None:
        if isinstance(obj, dict) or not isinstance(obj, Mapping):
            return None
        places: Places = {}
        for key, entry in obj.items():
            places[key] = self._sink.tell(), len(entry)
            self._sink.write(entry)
        return places


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, snapshot: memoryview):
        super().__init__(file)
        self._snapshot = snapshot

    def persistent_load(self, pid: Any) -> Mapping[str, bytes]:
        return _SealedEntries(self._snapshot, pid)


class _SealedEntries(Mapping[str, bytes]):
    """Entries of a snapshot, read as they are asked for."""

    def __init__(self, snapshot: memoryview, places: Places):
        self._snapshot = snapshot
        self._places = places

    def __getitem__(self, key: str) -> bytes:
        start, n_bytes = self._places[key]
        return bytes(self._snapshot[start : start + n_bytes])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _load(body: memoryview, snapshot: memoryview) -> Any:
    (n_bytes,) = _LENGTH.unpack(body[-_LENGTH.size :])
    pickled = body[-_LENGTH.size - n_bytes : -_LENGTH.size]
    return _Unpickler(io.BytesIO(pickled), snapshot).load()


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
