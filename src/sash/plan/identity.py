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
from typing import TypeAlias, TypeGuard

import pyarrow as pa

from sash.operators.node import Node

_Json: TypeAlias = "bool | int | float | str | list[_Json] | dict[str, _Json] | None"


def identify(**parts: object) -> str:
    """The hash of named parts."""
    return hashlib.sha256(json.dumps(_plain(parts, {}), sort_keys=True).encode()).hexdigest()


def _plain(part: object, seen: dict[Node, int]) -> _Json:
    """The part as JSON has it. Fields that are for people alone, which `repr` leaves out, are left out here too. A node
    that was `seen` before is known by its number.
    """
    if part is None or isinstance(part, str | bool | int | float):
        return part
    if isinstance(part, Enum):
        return [type(part).__name__, part.name]
    if isinstance(part, pa.Schema):
        return [[field.name, str(field.type), field.nullable] for field in part]
    if isinstance(part, pa.DataType):
        return str(part)
    if isinstance(part, Node):
        if part in seen:
            return ["Node", seen[part]]
        seen[part] = len(seen)
    if is_dataclass(part):
        named = {field.name: _plain(getattr(part, field.name), seen) for field in fields(part) if field.repr}
        return [type(part).__name__, named]
    if _is_mapping(part):
        return {str(name): _plain(each, seen) for name, each in part.items()}
    if _is_collection(part):
        plain = [_plain(each, seen) for each in part]
        return sorted(plain, key=json.dumps) if isinstance(part, Set) else plain
    raise TypeError(f"a {type(part).__name__} has no identity")


def _is_mapping(part: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(part, Mapping)


def _is_collection(part: object) -> TypeGuard[Set[object] | Sequence[object]]:
    return isinstance(part, Set | Sequence)
