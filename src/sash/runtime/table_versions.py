"""Which content of a table a query was started with. It is pinned: going on with another one is refused.

    Law:  two tables have the same version  iff  they hold the same rows, equally often, in whatever order.

What was joined before a restart was joined with the rows that the table had then; with others now, an answer would be
neither that of the one nor of the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from sash.errors import SourceError
from sash.io.table_version import VERSION
from sash.plan.physical import Plan
from sash.store.keys import hash_whole_rows

SHOWN_DIGITS = 12
PART_ROWS = 1 << 18
"""So many rows are hashed at once: a table may be larger than memory, and mapped."""
_NAMED = " ("


def version_of(table: pa.Table) -> str:
    """For people, too: how many rows there are, a digest of them all, and what the table itself calls its version."""
    digest = hashlib.sha256(str([(field.name, str(field.type)) for field in table.schema]).encode())
    if table.num_columns:
        hashes = [hash_whole_rows(pa.Table.from_batches([part])) for part in table.to_batches(PART_ROWS)]
        digest.update(np.sort(np.concatenate([np.empty(0, np.uint64), *hashes])).tobytes())
    rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
    name = (table.schema.metadata or {}).get(VERSION, b"").decode()
    return f"{rows}, {digest.hexdigest()[:SHOWN_DIGITS]}{f'{_NAMED}{name})' if name else ''}"


def versions_of(plan: Plan, relations: Mapping[str, pa.Table]) -> dict[str, str]:
    """By name, of the tables that a plan looks rows up in, but for those that it reads as of arrival."""
    lookups = [lookup for query in plan.queries.values() for lookup in query.lookups if not lookup.source.is_arrival]
    names = {name for lookup in lookups for name in lookup.tables}
    return {name: version_of(relations[name]) for name in sorted(names)}


def refuse_changed(known: Mapping[str, str], now: Mapping[str, str], remedy: str) -> None:
    """Raises SourceError if a table is not what it was when a query began to look rows up in it."""
    for name in sorted(known.keys() & now.keys()):
        if _content(known[name]) != _content(now[name]):
            first = "read that version again" if _NAMED in known[name] else "put back what it held"
            raise SourceError(
                f"table `{name}` has changed since the query began: it had {known[name]}; it has {now[name]}; "
                f"{first}, or {remedy}"
            )


def _content(version: str) -> str:
    """A version without its name: another one may hold the same rows."""
    return version.partition(_NAMED)[0]
