"""Which types of PostgreSQL may be declared as which of Sash's, and how the server is to write their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import LiteralString, TypeAlias

import pyarrow as pa

Readers: TypeAlias = Mapping[Callable[[pa.DataType], bool], LiteralString]
"""As what a type may be declared, and the cast that makes the server write it so."""


def _is_single(dtype: pa.DataType) -> bool:
    return dtype == pa.float32()


def _is_double(dtype: pa.DataType) -> bool:
    return dtype == pa.float64()


_NUMBER: Readers = {pa.types.is_integer: "", pa.types.is_decimal: ""}
_READERS: Mapping[str, Readers] = {
    "int2": _NUMBER,
    "int4": _NUMBER,
    "int8": _NUMBER,
    "numeric": _NUMBER,
    "float4": {_is_single: "", _is_double: "::float8"},
    "float8": {_is_double: ""},
    "bool": {pa.types.is_boolean: "::text"},
    "date": {pa.types.is_date: ""},
    "timestamp": {lambda dtype: pa.types.is_timestamp(dtype) and dtype.tz is None: ""},
    "timestamptz": {lambda dtype: pa.types.is_timestamp(dtype) and dtype.tz is not None: ""},
}
"""By the server's name of a type."""
_AS_TEXT: Readers = {pa.types.is_string: "::text", pa.types.is_large_string: "::text"}
_TEXTS = ("uuid", "json", "jsonb", "inet", "cidr", "macaddr", "macaddr8", "xml")
_STRING, _ENUM = "S", "E"
"""Categories of types whose values are texts, too."""
_DECLARED = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "numeric": "DECIMAL, with as many digits as it needs",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
}


@dataclass(frozen=True, slots=True)
class ServerType:
    """A type of a column, as the server has it."""

    name: str
    category: str
    shown: str

    @property
    def readers(self) -> Readers:
        if self.name in _TEXTS or self.category in (_STRING, _ENUM):
            return _AS_TEXT
        return _READERS.get(self.name, {})

    @property
    def declared(self) -> str:
        return _DECLARED.get(self.name, "VARCHAR")
