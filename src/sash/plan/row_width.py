"""How many bytes a row takes, as far as its types tell."""

from __future__ import annotations

import pyarrow as pa

TEXT_BYTES = 16
"""About so long is a value whose type does not say how long it is."""
OFFSET_BYTES = 8


def row_bytes(schema: pa.Schema) -> float:
    """Of the columns of a row."""
    return sum(_value_bytes(field.type) for field in schema)


def _value_bytes(type: pa.DataType) -> float:
    try:
        return type.bit_width / 8
    except ValueError:
        return OFFSET_BYTES + TEXT_BYTES
