"""Until when rows of a table are valid that say only since when: until the next one of their key begins.

    item  since        valid_to
    tea   NULL         12:00
    tea   12:00        14:00
    tea   14:00        NULL
    milk  13:00        NULL

Two rows of a key that begin at once are refused, as it is not known which of them replaces the other.
"""

from __future__ import annotations

import pyarrow as pa

from sash.errors import SourceError
from sash.io.values import connection
from sash.sql.catalog import Validity


def with_ends(name: str, table: pa.Table, validity: Validity | None) -> pa.Table:
    """The table with the column that says until when its rows are valid, where that is to be found out."""
    if validity is None or not validity.key:
        return table
    keys = [f"k{number}" for number in range(len(validity.key))]
    columns = [table.column(column) for column in (*validity.key, validity.start)]
    rows = pa.table([*columns, pa.array(range(table.num_rows), pa.int64())], names=[*keys, "begin", "place"])
    by = ", ".join(keys)
    found = (
        connection()
        .from_arrow(rows)
        .project(
            f"place, lead(begin) OVER (PARTITION BY {by} ORDER BY begin NULLS FIRST) AS finish, "
            f"count(*) OVER (PARTITION BY {by}, begin) > 1 AS is_twin"
        )
        .order("place")
        .to_arrow_table()
    )
    if True in (twins := found.column("is_twin").to_pylist()):
        raise SourceError(_describe_twin(name, table.slice(twins.index(True), 1), validity))
    return table.append_column(
        pa.field(validity.end, table.schema.field(validity.start).type),
        found.column("finish").cast(table.schema.field(validity.start).type),
    )


def _describe_twin(name: str, row: pa.Table, validity: Validity) -> str:
    key, begin = (", ".join(f"{column} = {row.column(column)[0]}" for column in validity.key)), row[validity.start][0]
    return (
        f"table `{name}`: two rows of {key} begin at {begin}, and neither comes after the other; "
        "keep one of them, or declare until when each is valid (`VALID FROM … TO …`)"
    )
