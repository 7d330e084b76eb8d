"""How changes are to be read, told in the metadata of their schema: so it goes where the table goes, into Parquet too.

{"replaced_by": ["location"], "final_us": 1767268860000000}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pyarrow as pa

READING = b"sash.changes"
ANSWER = b"sash.answer"
"""Where the schema of an answer says of which instant it is, as people read it."""


@dataclass(frozen=True, slots=True)
class ChangesReading:
    """What the changes of a query do not say themselves."""

    replaced_by: tuple[str, ...] | None = None
    """The columns that tell which older row a row replaces; () if each replaces the one before it. None: rows are
    counted.
    """
    final_us: int | None = None
    """Up to and including this time nothing is missing, if that is known."""

    @classmethod
    def of(cls, schema: pa.Schema) -> ChangesReading | None:
        """What is told in a schema; None if it tells nothing."""
        known = (schema.metadata or {}).get(READING)
        return None if known is None else cls.parse(known)

    @classmethod
    def parse(cls, text: str | bytes) -> ChangesReading:
        """What `text` says again."""
        told = json.loads(text)
        by = told["replaced_by"]
        return cls(None if by is None else tuple(by), told.get("final_us"))

    @property
    def text(self) -> str:
        """As it is told."""
        final = {} if self.final_us is None else {"final_us": self.final_us}
        return json.dumps({"replaced_by": self.replaced_by, **final})

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Of a schema that tells it."""
        return {READING: self.text.encode()}

    def tell(self, changes: pa.Table) -> pa.Table:
        """The changes with this in their schema."""
        return changes.replace_schema_metadata({**(changes.schema.metadata or {}), **self.metadata})


def tell_final(changes: pa.Table, final_us: int | None) -> pa.Table:
    """Changes that say of themselves up to when they are final, if that is known."""
    told = ChangesReading.of(changes.schema)
    return changes if told is None else replace(told, final_us=final_us).tell(changes)
