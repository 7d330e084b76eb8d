"""Versions of a table of PostgreSQL that has a history: what is declared with OPTIONS (…, history 'yes').

    version = horizon = the server's own snapshot:  100:106:102,104
                                                    below 100 all transactions are over, from 106 on none has begun,
                                                    and of those between, 102 and 104 are open

    Law: a row is in the version  iff  the transaction that wrote it was over, and none that was over has deleted it.

A transaction that is over stays so, and has written all that it will: the version reads the same for ever. One that is
held open is seen whole, when it is over, and first in exactly one version. The oldest open transaction alone would not
do for a horizon: one with a lower number may have replaced what one with a higher number had written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sash.errors import PlanError, SourceError
from sash.io.postgres_connection import ask_server, identifiers_of
from sash.io.postgres_history import (
    CREATED,
    DELETED,
    FROM,
    SYSTEM,
    TO,
    TRIGGERS,
    HistoryMark,
    count_triggers,
    history_of,
)
from sash.io.postgresql import PostgresTable
from sash.io.table_version import VERSION, Gather, KnownVersion, TableVersion, gather_in_memory

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

OPTIONS = ("table", "history", "horizon")
_PREFIX = "horizon "
_HORIZON = re.compile(r"\d+:\d+:(\d+(,\d+)*)?")
_LOOK = """
SELECT pg_current_snapshot()::text, obj_description(h.oid, 'pg_class'), t.typrelid, pg_is_in_recovery()
FROM pg_class h JOIN pg_attribute a ON a.attrelid = h.oid AND a.attname = 'sash_row'
JOIN pg_type t ON t.oid = a.atttypid
WHERE h.oid = {}::regclass
"""
_IS_OVER = """
SELECT pg_snapshot_xmax(pg_current_snapshot()) >= pg_snapshot_xmax({0}::pg_snapshot) AND NOT EXISTS (
  SELECT FROM pg_snapshot_xip(pg_current_snapshot()) AS x WHERE pg_visible_in_snapshot(x, {0}::pg_snapshot)
), pg_visible_in_snapshot({1}::xid8, {0}::pg_snapshot)
"""
_SINCE = """
({0} >= pg_snapshot_xmin({1}::pg_snapshot) AND pg_visible_in_snapshot({0}, {2})
 AND NOT pg_visible_in_snapshot({0}, {1}))
"""
"""Of a transaction: whether it was over at the second of two horizons, and not at the first. With what indexes find."""
_HAS_CHANGED = "SELECT EXISTS (SELECT FROM {0} WHERE {1}) OR EXISTS (SELECT FROM {0} WHERE {2})"
_COUNT = "SELECT count(*) FROM {0} WHERE pg_visible_in_snapshot(sash_created, {1}) AND {2}"
_SHAPE = """
SELECT coalesce(string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid,
  (SELECT string_agg(e.oid || e.enumlabel, ' ' ORDER BY e.oid) FROM pg_enum e WHERE e.enumtypid = a.atttypid)
), ',' ORDER BY a.attnum), '') FROM pg_attribute a WHERE a.attrelid = {0} AND a.attnum > 0 AND NOT a.attisdropped
"""
_ROWS = """
(SELECT (sash_row).*, sash_from, CASE WHEN pg_visible_in_snapshot(sash_deleted, {1}) THEN sash_to END AS sash_to
 FROM {0} WHERE pg_visible_in_snapshot(sash_created, {1}) AND {2}) AS history
"""
_THERE = """
(sash_deleted IS NULL OR sash_deleted >= pg_snapshot_xmin({0}::pg_snapshot) AND NOT
 pg_visible_in_snapshot(sash_deleted, {0}))
"""
"""With what the index on `sash_deleted` finds: below the oldest open transaction, all that was deleted is gone."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HistorySource:
    """A table with a history. If its columns `sash_from` or `sash_to` are declared, it has all rows that ever were;
    else those that are there.
    """

    table: PostgresTable
    horizon: str | None = None
    """The version to read, whatever was written since; None: the newest."""

    @property
    def path(self) -> None:
        return None

    @property
    def no_versions(self) -> str | None:
        if self.horizon is None:
            return None
        return "it is declared with one horizon alone; leave the option `horizon` out"

    def read(self, name: str) -> pa.Table:
        """All rows of the version; SourceError if they cannot be had whole."""
        return self._asked(name, lambda connection: self._copy(connection, self._begin(connection)[0]))

    def poll(self, name: str, known: KnownVersion | None, gather: Gather = gather_in_memory) -> TableVersion:
        """The version that it has now; SourceError if its rows cannot be had whole.

        What has changed since the known version is read alone, where it is certain that it is all: rows that have gone
        may have been deleted from the history, and columns may be others.
        """

        def look(connection: psycopg.Connection) -> TableVersion:
            horizon, table = self._begin(connection)
            version, shape = f"{_PREFIX}{horizon}", self._shape(connection, table)
            if known is not None and known.shape in ("", shape):
                before = known.name.removeprefix(_PREFIX)
                if not self._has_changed(connection, before, horizon):
                    return TableVersion(version, None, shape=known.shape)
                found = known.shape and self._difference(connection, (before, horizon), known, gather)
                if found:
                    return found
            return TableVersion(version, self._copy(connection, horizon, gather), shape=shape)

        return self._asked(name, look)

    def _difference(
        self, connection: psycopg.Connection, horizons: tuple[str, str], known: KnownVersion, gather: Gather
    ) -> TableVersion | None:
        """What has changed between two horizons; None if that is not all."""
        changed = self._changed(*horizons)
        gone, came = (self._copy(connection, at, gather, changed) for at in horizons)
        found = TableVersion(f"{_PREFIX}{horizons[1]}", came, gone, known.shape)
        return found if found.n_rows(known) == self._count(connection, horizons[1]) else None

    def _asked(self, name: str, work: Callable[[psycopg.Connection], T]) -> T:
        try:
            return ask_server(self.table.address, work, self.table.describe_failure)
        except SourceError as error:
            reason = str(error)
        raise SourceError(f"table `{name}`: {reason}")

    def _begin(self, connection: psycopg.Connection) -> tuple[str, int]:
        """Begins the transaction that reads; the horizon to read at, and the table's number."""
        from psycopg import errors, sql

        try:
            self.table.begin(connection, self._history)
        except errors.UndefinedTable:
            raise self._missing() from None
        place = sql.Literal(self._history.as_string(connection))
        found = connection.execute(sql.SQL(_LOOK).format(place)).fetchone()
        mark = HistoryMark.read(found[1]) if found else None
        if found is None or mark is None:
            raise self._missing()
        newest, _, table, is_standby = found
        if is_standby:
            raise SourceError(
                f"{self.table.shown} is on a standby, which does not tell what is open; read from the primary"
            )
        self._refuse_broken(connection, mark, table)
        if self.horizon is not None:
            self._refuse_unknown(connection, self.horizon, mark, newest)
        return newest if self.horizon is None else self.horizon, table

    def _refuse_unknown(self, connection: psycopg.Connection, horizon: str, mark: HistoryMark, newest: str) -> None:
        from psycopg import sql

        found = connection.execute(
            sql.SQL(_IS_OVER).format(sql.Literal(horizon), sql.Literal(str(mark.begun)))
        ).fetchone()
        is_over, is_known = found or (False, False)
        if not is_over:
            raise SourceError(
                f"{self.table.shown} has no version `horizon {horizon}` yet; the newest is {newest}: read that, or wait"
            )
        if not is_known:
            raise SourceError(
                f"the history of {self.table.shown} begins with transaction {mark.begun}, after `horizon {horizon}`; "
                "read a newer version"
            )

    def _copy(
        self,
        connection: psycopg.Connection,
        horizon: str,
        gather: Gather = gather_in_memory,
        which: sql.Composable | None = None,
    ) -> pa.Table:
        """The rows of a version; of these, those that satisfy a condition."""
        from psycopg import sql

        conditions = [self._there(horizon), *([] if which is None else [which])]
        query = sql.SQL(_ROWS).format(self._history, sql.Literal(horizon), sql.SQL(" AND ").join(conditions))
        rows = self.table.copy(connection, query, gather)
        return rows.replace_schema_metadata({VERSION: f"{_PREFIX}{horizon}".encode()})

    def _there(self, horizon: str) -> sql.Composable:
        """Of what was written up to a horizon, what is in the version."""
        from psycopg import sql

        is_whole = {FROM, TO} & {name.lower() for name in self.table.schema.names}
        return sql.SQL("true") if is_whole else sql.SQL(_THERE).format(sql.Literal(horizon))

    def _since(self, before: str, horizon: str) -> list[sql.Composed]:
        """Of a row of the history: whether it was written, or deleted, between two horizons."""
        from psycopg import sql

        bounds = sql.Literal(before), sql.Literal(horizon)
        return [sql.SQL(_SINCE).format(sql.Identifier(column), *bounds) for column in (CREATED, DELETED)]

    def _changed(self, before: str, horizon: str) -> sql.Composable:
        """Whether a row is in one of two versions alone, or in both with another end."""
        from psycopg import sql

        return sql.SQL("({} OR {})").format(*self._since(before, horizon))

    def _has_changed(self, connection: psycopg.Connection, before: str, horizon: str) -> bool:
        from psycopg import sql

        query = sql.SQL(_HAS_CHANGED).format(self._history, *self._since(before, horizon))
        found = connection.execute(query).fetchone()
        return found is None or found[0]

    def _count(self, connection: psycopg.Connection, horizon: str) -> int:
        from psycopg import sql

        query = sql.SQL(_COUNT).format(self._history, sql.Literal(horizon), self._there(horizon))
        found = connection.execute(query).fetchone()
        return found[0] if found else 0

    def _shape(self, connection: psycopg.Connection, table: int) -> str:
        """Where columns were dropped, renamed or added, or values of an enumeration renamed, it is another one."""
        from psycopg import sql

        found = connection.execute(sql.SQL(_SHAPE).format(sql.Literal(table))).fetchone()
        return found[0] if found else ""

    def _refuse_broken(self, connection: psycopg.Connection, mark: HistoryMark, table: int) -> None:
        remedy = "begin a new one: `sash relation history --remove`, and then without"
        row = connection.execute(SYSTEM).fetchone()
        if row is None or row[0] != mark.system:
            raise SourceError(
                f"the history of {self.table.shown} was kept on another server, where transactions had other numbers; "
                f"{remedy}"
            )
        if count_triggers(connection, table) < len(TRIGGERS):
            raise SourceError(
                f"the history of {self.table.shown} has a gap: a trigger that keeps it is gone or disabled; {remedy}"
            )

    def _missing(self) -> SourceError:
        command = f"sash relation history '{self.table.address}' '{self.table.table}'"
        return SourceError(f"{self.table.shown} has no history; set it up with `{command}`")

    @property
    def _history(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*history_of(identifiers_of(self.table.table)))


def declared_postgres(
    address: str, schema: pa.Schema, options: Sequence[tuple[str, str]]
) -> PostgresTable | HistorySource:
    """What is declared by the texts of an OPTIONS clause, whose names are known to be right; PlanError for one that
    means nothing.
    """
    chosen = {name.lower(): text for name, text in options}
    table, history, horizon = PostgresTable(address, chosen.get("table", ""), schema), *_chosen(chosen)
    return HistorySource(table, horizon) if history else table


def _chosen(options: dict[str, str]) -> tuple[bool, str | None]:
    history, horizon = options.get("history", "no").lower(), options.get("horizon")
    if history not in ("yes", "no"):
        raise PlanError(f"option `history` is '{options['history']}' but must be 'yes' or 'no'")
    if horizon is not None and history == "no":
        raise PlanError("option `horizon` is a version of a table's history; write history 'yes' beside it")
    if horizon is not None and not _HORIZON.fullmatch(horizon):
        raise PlanError(f"option `horizon` is '{horizon}' but must be one that was told, such as '100:106:102'")
    return history == "yes", horizon
