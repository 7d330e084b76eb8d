"""A version of a table that changes, as it is polled."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

VERSION = b"sash.version"
"""In the metadata of a table's schema: which of its versions it is, for people."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table calls its version, and its rows; None if they are those of the version that was known."""

    name: str
    rows: pa.Table | None
