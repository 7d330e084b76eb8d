"""Histories of tables of PostgreSQL: what `sash relation history` sets up, and takes away again.

    rooms_history   sash_row        a row of the table, as a value of its row type
                    sash_created    the transaction that wrote it        sash_from   and when
                    sash_deleted    the one that replaced or deleted it  sash_to     and when; NULL while it is there

A trigger keeps it, in the transaction of whoever writes. Law: for every snapshot of the server, the rows whose
`sash_created` is over in it and whose `sash_deleted` is not are those that the table had then. That never changes any
more, so a version can be read again as long as the history is there (`postgres_versions`); times of commits could not
say it, as whoever commits late appears in the past.

Rows are values of the table's row type, so that a column which is renamed or dropped there is so here, and the server
itself refuses what no trigger would see: another type, or a new column with a default.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sash.errors import SourceError
from sash.io.postgres_connection import ask_server, check_address, first_line, identifiers_of, is_table_name

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

ROW, CREATED, DELETED, FROM, TO = "sash_row", "sash_created", "sash_deleted", "sash_from", "sash_to"
TRIGGERS = ("sash_history", "sash_history_truncate")
FORMAT = 1
LEAST_SERVER = 130000
_LONGEST = 63 - len("_keeper")
"""Of a history's name, in bytes: the server cuts longer ones off."""
_KEEPER = """
DECLARE
  own xid8 := pg_current_xact_id();
  since timestamptz := clock_timestamp();
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      RAISE EXCEPTION 'a table with a history is truncated in READ COMMITTED alone'
        USING HINT = 'DELETE the rows, or SET TRANSACTION ISOLATION LEVEL READ COMMITTED.';
    END IF;
    DELETE FROM {history} WHERE sash_deleted IS NULL AND sash_created = own;
    UPDATE {history} SET sash_deleted = own, sash_to = greatest(since, sash_from) WHERE sash_deleted IS NULL;
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' AND NOT (OLD *<> NEW) THEN
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN
    -- What the transaction itself has written was never there for others. By its whole content, as within a statement
    -- another row may have the key already.
    DELETE FROM {history} WHERE sash_deleted IS NULL AND sash_created = own AND {is_old} AND sash_row *= OLD
      RETURNING sash_from INTO since;
    IF NOT FOUND THEN
      since := clock_timestamp();
      UPDATE {history} SET sash_deleted = own, sash_to = greatest(since, sash_from)
        WHERE sash_deleted IS NULL AND {is_old} AND sash_row *= OLD RETURNING sash_to INTO since;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'the history of this table lacks a row that is in it'
          USING HINT = 'Somebody else has changed the history: remove it with sash relation history --remove.';
      END IF;
    END IF;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO {history} (sash_row, sash_created, sash_from) VALUES (NEW, own, since);
  END IF;
  RETURN NULL;
END
"""
_TABLE_FACTS = """
SELECT c.oid, n.nspname, c.relname, c.relkind = 'r', c.relrowsecurity, c.relhassubclass, c.relpersistence = 'p',
  ARRAY(SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
        WHERE i.indrelid = c.oid AND i.indisprimary)::text[],
  EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('sash_from', 'sash_to'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s::regclass
"""
_GRANTEES = """
SELECT DISTINCT CASE WHEN acl.grantee = 0 THEN NULL ELSE pg_get_userbyid(acl.grantee) END
FROM pg_class c, aclexplode(c.relacl) acl
WHERE c.oid = %s AND acl.privilege_type = 'SELECT' AND acl.grantee <> c.relowner
"""
_MARK = "SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NOT NULL"
_FIRED = "SELECT count(*) FROM pg_trigger WHERE tgrelid = %s AND tgname = ANY (%s) AND tgenabled IN ('O', 'A')"
SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """What stands in the comment of a history: by it, it is known to be one."""

    begun: int
    """The transaction that set it up; what was before is not known."""
    system: str
    """The server, as transactions are counted anew elsewhere."""

    @classmethod
    def read(cls, comment: str | None) -> HistoryMark | None:
        """None if the comment is none of a history."""
        try:
            said = json.loads(comment or "")
            return cls(int(said["begun"]), str(said["system"])) if said["sash_history"] == FORMAT else None
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def text(self) -> str:
        return json.dumps({"sash_history": FORMAT, "begun": str(self.begun), "system": self.system})


def history_of(names: Sequence[str]) -> list[str]:
    """The name of a table's history, by the parts of that of the table."""
    return [*names[:-1], f"{names[-1]}_history"]


def count_triggers(connection: psycopg.Connection, table: int) -> int:
    """How many of the triggers of a table fire that keep its history."""
    row = connection.execute(_FIRED, [table, list(TRIGGERS)]).fetchone()
    return row[0] if row else 0


def set_up_history(address: str, table: str) -> str:
    """Gives a table a history, which begins now; nothing if it has one. Says what was done. SourceError if it cannot
    have one, or the history that it has is not whole.
    """
    return _change(address, table, lambda connection: _HistoryChange(connection, table).set_up())


def remove_history(address: str, table: str) -> str:
    """Takes away what `set_up_history` has made, and nothing else. Says what was done."""
    return _change(address, table, lambda connection: _HistoryChange(connection, table).remove())


def _change(address: str, table: str, work: Any) -> str:
    check_address(address)
    if not is_table_name(table):
        raise SourceError(
            f"`{table}` is no name of a table; write schema.name, with double quotes where they are needed"
        )
    from_server = f"`{table}` in {address}"

    def describe(error: psycopg.Error, is_broken: bool) -> str:
        from psycopg import errors

        if is_broken:
            return f"the connection was lost: {first_line(error)}; nothing was changed, run again"
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return f"there is no {from_server}; check the name, or create the table"
        if isinstance(error, errors.InsufficientPrivilege):
            return f"{first_line(error)}; run it as the owner of `{table}`, who may create tables beside it"
        return f"the history of {from_server} was left as it was: {first_line(error)}; remove the cause, and run again"

    return ask_server(address, work, describe)


class _HistoryChange:
    """One transaction that sets a history up, or takes it away."""

    def __init__(self, connection: psycopg.Connection, table: str):
        from psycopg import sql

        self._connection = connection
        self._shown = table
        names = identifiers_of(table)
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(sql.Identifier(*names)))
        found = self._one(_TABLE_FACTS, sql.Identifier(*names).as_string(connection))
        self._oid, schema, name, *self._traits, self._key, self._has_own_times = found
        self._table = sql.Identifier(schema, name)
        self._history = sql.Identifier(*history_of([schema, name]))
        self._keeper = sql.Identifier(schema, f"{name}_history_keeper")
        self._name = f"{name}_history"
        place = self._history.as_string(connection)
        comment, self._is_there = self._one(_MARK, place, place)
        self._mark = HistoryMark.read(comment)

    def set_up(self) -> str:
        if self._mark is not None:
            self._refuse_gap()
            self._connection.rollback()
            return f"`{self._shown}` has a history already: `{self._name}`"
        if self._is_there:
            raise SourceError(
                f"there is a table `{self._name}` already, which is no history of Sash's; rename it, and run again"
            )
        self._refuse_unfit()
        self._create()
        self._connection.commit()
        return f"`{self._shown}` has a history from now on: `{self._name}`, kept by a trigger"

    def remove(self) -> str:
        if self._mark is None:
            self._connection.rollback()
            return f"`{self._shown}` has no history of Sash's; nothing was removed"
        for trigger in TRIGGERS:
            self._run("DROP TRIGGER IF EXISTS {trigger} ON {table}", trigger=_identifier(trigger))
        self._run("DROP FUNCTION IF EXISTS {keeper}()")
        self._run("DROP TABLE {history}")
        self._connection.commit()
        return f"the history of `{self._shown}` is gone: the table `{self._name}`, its function and the triggers"

    def _refuse_gap(self) -> None:
        if count_triggers(self._connection, self._oid) < len(TRIGGERS):
            raise SourceError(
                f"the history of `{self._shown}` has a gap: a trigger that keeps it is gone or disabled; begin a new "
                "one: run this with --remove, and then without"
            )

    def _refuse_unfit(self) -> None:
        is_table, has_policies, has_children, is_logged = self._traits
        reasons = {
            "it is not an ordinary table; take the tables that it is made of": not is_table,
            "tables inherit from it, whose rows no trigger of it sees; take those": has_children,
            "it has row security, and its history would show all rows; take a table without": has_policies,
            "it is unlogged or temporary, and a crash would empty it unseen; take one that is logged": not is_logged,
            "it has no primary key, by which a row is known; add one": not self._key,
            f"it has a column `{FROM}` or `{TO}` of its own; rename that": self._has_own_times,
            "its name is too long to put `_history` behind it; rename it": len(self._name.encode()) > _LONGEST,
        }
        for reason, is_so in reasons.items():
            if is_so:
                raise SourceError(f"`{self._shown}` cannot have a history: {reason}")
        if self._connection.info.server_version < LEAST_SERVER:
            raise SourceError(
                "the server is older than PostgreSQL 13, which first counts transactions for good; update it"
            )

    def _create(self) -> None:
        from psycopg import sql

        self._run(
            "CREATE TABLE {history} (sash_row {table} NOT NULL, sash_created xid8 NOT NULL, sash_deleted xid8, "
            "sash_from timestamptz NOT NULL, sash_to timestamptz)"
        )
        self._run(
            "INSERT INTO {history} (sash_row, sash_created, sash_from) "
            "SELECT t, pg_current_xact_id(), clock_timestamp() FROM {table} AS t"
        )
        key = sql.SQL(", ").join(sql.SQL("((sash_row).{})").format(sql.Identifier(name)) for name in self._key)
        self._run("CREATE INDEX ON {history} ({key}) WHERE sash_deleted IS NULL", key=key)
        for column in (CREATED, DELETED):
            self._run("CREATE INDEX ON {history} ({column})", column=_identifier(column))
        self._create_triggers()
        self._grant()
        begun, system = self._one("SELECT pg_current_xact_id()::text")[0], self._one(SYSTEM)[0]
        mark = HistoryMark(int(begun), system)
        self._run("COMMENT ON TABLE {history} IS {mark}", mark=sql.Literal(mark.text))

    def _create_triggers(self) -> None:
        from psycopg import sql

        is_old = sql.SQL(" AND ").join(
            sql.SQL("(sash_row).{0} = OLD.{0}").format(sql.Identifier(name)) for name in self._key
        )
        body = sql.SQL(_KEEPER).format(history=self._history, is_old=is_old).as_string(self._connection)
        self._run(
            "CREATE FUNCTION {keeper}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
            "SET search_path = pg_catalog, pg_temp AS {body}",
            body=sql.Literal(body),
        )
        for trigger, when in zip(
            TRIGGERS, ("INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW", "TRUNCATE ON {table}")
        ):
            self._run(f"CREATE TRIGGER {trigger} AFTER {when} EXECUTE FUNCTION {{keeper}}()")
            # Also for what a replica applies.
            self._run("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}", trigger=_identifier(trigger))

    def _grant(self) -> None:
        """Whoever may read the table may read its history."""
        from psycopg import sql

        for (grantee,) in self._connection.execute(_GRANTEES, [self._oid]).fetchall():
            to = sql.SQL("PUBLIC") if grantee is None else sql.Identifier(grantee)
            self._run("GRANT SELECT ON {history} TO {to}", to=to)

    def _run(self, text: str, **parts: sql.Composable) -> None:
        from psycopg import sql

        known = {"history": self._history, "table": self._table, "keeper": self._keeper}
        self._connection.execute(sql.SQL(text).format(**known, **parts))  # pyright: ignore[reportArgumentType]

    def _one(self, query: Any, *values: Any) -> Any:
        row = self._connection.execute(query, values or None).fetchone()
        assert row is not None
        return row


def _identifier(name: str) -> sql.Identifier:
    from psycopg import sql

    return sql.Identifier(name)
