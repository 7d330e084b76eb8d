"""What a plan is known by: a hash of its parts, each with its name, so that neither order nor wording of code matters.

A part is made of dataclasses, sequences, mappings, Arrow types and plain values. Of anything else nobody knows what it
is known by: it is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pyarrow as pa


def identify(**parts: Any) -> str:
    """The hash of named parts."""
    return hashlib.sha256(json.dumps(_plain(parts), sort_keys=True).encode()).hexdigest()


def _plain(part: Any) -> Any:
    """The part as JSON has it. Fields that are for people alone, which `repr` leaves out, are left out here too."""
    if part is None or isinstance(part, str | bool | int | float):
        return part
    if isinstance(part, Enum):
        return [type(part).__name__, part.name]
    if isinstance(part, pa.Schema):
        return [[field.name, str(field.type), field.nullable] for field in part]
    if isinstance(part, pa.DataType):
        return str(part)
    if is_dataclass(part):
        named = {field.name: _plain(getattr(part, field.name)) for field in fields(part) if field.repr}
        return [type(part).__name__, named]
    if isinstance(part, Mapping):
        return {str(name): _plain(each) for name, each in part.items()}
    if isinstance(part, Set):
        return sorted(map(_plain, part), key=json.dumps)
    if isinstance(part, Sequence):
        return [_plain(each) for each in part]
    raise TypeError(f"a {type(part).__name__} has no identity")
