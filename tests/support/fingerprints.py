"""What an object holds, all the way down, as a mapping that can be compared: by path, what is there.

    operator            _buffer._rows[0].array      int64 (3,) 5f1c…       arrays and Arrow data by their bytes
      _buffer           _buffer._clock              int 7                  the rest by type and value
      _spec             _spec                       the same as _buffer.spec

Nothing is passed over in silence: an object that cannot be looked into is an error.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, UnionType
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

Fingerprint: TypeAlias = dict[str, str]

_VALUES = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type, date, Decimal, Enum, Path),
    *(np.generic, np.dtype, pa.DataType, pa.Field, pa.Schema, itertools.count),
    *(ModuleType, BuiltinFunctionType, UnionType),
)
_ARROW = (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)


def fingerprint_of(members: Mapping[str, Any]) -> Fingerprint:
    """Of all that can be reached from members, by their names."""
    found: Fingerprint = {}
    first_paths: dict[int, str] = {}
    # What is made while looking has to stay, or another object may get its number.
    made: list[Any] = []
    waiting: list[tuple[str, Any]] = list(members.items())[::-1]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _VALUES):
            found[path] = f"{type(value).__name__} {value!r}"
            continue
        made.append(value)
        if id(value) in first_paths:
            found[path] = f"the same as {first_paths[id(value)]}"
            continue
        first_paths[id(value)] = path
        found[path] = _describe(value)
        waiting += reversed([(f"{path}{step}", each) for step, each in _parts_of(value)])
    return found


def members_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, whether it has slots, a dictionary, or both."""
    slots = (name for each in type(value).__mro__ for name in _names_of(vars(each).get("__slots__", ())))
    own = {name: getattr(value, name) for name in slots if name not in _HOUSEKEEPING and hasattr(value, name)}
    return own | getattr(value, "__dict__", {})


def differences(before: Fingerprint, after: Fingerprint) -> list[str]:
    """The paths of what has changed, come, or gone."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


_HOUSEKEEPING = ("__dict__", "__weakref__")


def _names_of(slots: str | tuple[str, ...]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _describe(value: Any) -> str:
    """What there is to tell of an object beside its parts."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{kind} {value.dtype} {value.shape} {'' if value.dtype.hasobject else _digest(value.tobytes())}"
    if isinstance(value, _ARROW):
        return f"{kind} {len(value)} {_digest(*_buffers_of(value))}"
    if isinstance(value, bytearray | memoryview | mmap.mmap):
        return f"{kind} {_digest(bytes(value))}"
    if isinstance(value, FunctionType | MethodType) or hasattr(value, "py_func"):
        return f"{kind} {value.__module__}.{value.__qualname__}"
    return kind


def _parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object is made of, by the step from its path to theirs."""
    match value:
        case np.ndarray():
            yield from _numbered(value.flat if value.dtype.hasobject else ())
        case pa.ChunkedArray() | pa.Array() | bytearray() | memoryview() | mmap.mmap():
            pass
        case pa.RecordBatch() | pa.Table():
            yield ".schema", value.schema
        case dict() | WeakValueDictionary() | Mapping():
            yield from ((f"[{key!r}]", each) for key, each in value.items())
        case list() | tuple() | deque():
            yield from _numbered(value)
        case set() | frozenset():
            yield from _numbered(sorted(value, key=repr))
        case partial():
            yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
        case MethodType():
            yield ".__self__", value.__self__
        case FunctionType():
            yield from _numbered(value.__closure__ or ())
            yield from ((".__defaults__", value.__defaults__), (".__dict__", value.__dict__))
        case CellType():
            yield ".cell_contents", value.cell_contents
        case _ if hasattr(value, "py_func"):
            pass  # a kernel, which numba has compiled
        case _:
            yield from _attributes_of(value)


def _attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    has_attributes = hasattr(value, "__dict__") or any("__slots__" in vars(each) for each in type(value).__mro__)
    if not has_attributes:
        raise TypeError(f"no way is known to look into a `{type(value).__module__}.{type(value).__qualname__}`")
    yield from ((f".{name}", each) for name, each in members_of(value).items())


def _numbered(values: Any) -> Iterator[tuple[str, Any]]:
    return ((f"[{number}]", each) for number, each in enumerate(values))


def _buffers_of(value: Any) -> Iterator[bytes]:
    columns = value.columns if isinstance(value, pa.RecordBatch | pa.Table) else [value]
    for column in columns:
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            yield f"{chunk.offset} {len(chunk)}".encode()
            yield from (b"" if buffer is None else buffer.to_pybytes() for buffer in chunk.buffers())


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
