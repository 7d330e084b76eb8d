"""Tables of PostgreSQL, read from a server."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import PlanError, ResourceError, SourceError
from sash.io import postgresql
from sash.io.postgres_connection import AddressError
from sash.io.postgresql import PostgresTable
from sash.io.tables import declared_table
from sash.runtime.script import bind_script
from support.postgres_server import PASSWORD, Server

ROOMS = pa.schema([("location", pa.int32()), ("room", pa.string())])
ALL_TYPES = {
    "tiny": ("smallint", pa.int8()),
    "small": ("smallint", pa.int16()),
    "whole": ("integer", pa.int32()),
    "large": ("bigint", pa.int64()),
    "positive": ("bigint", pa.uint64()),
    "exact": ("numeric(9, 2)", pa.decimal128(9, 2)),
    "any_digits": ("numeric", pa.decimal128(38, 0)),
    "single": ("real", pa.float32()),
    "wider": ("real", pa.float64()),
    "double": ("double precision", pa.float64()),
    "flag": ("boolean", pa.bool_()),
    "name": ("text", pa.string()),
    "short": ("varchar(5)", pa.string()),
    "day": ("date", pa.date32()),
    "moment": ("timestamp", pa.timestamp("us")),
    "instant": ("timestamptz", pa.timestamp("us", "UTC")),
    "id": ("uuid", pa.string()),
    "document": ("jsonb", pa.string()),
}
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
VALUES = {
    "name": st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    "whole": st.none() | st.integers(-(2**31), 2**31 - 1),
    "exact": st.none() | st.decimals(-9_999_999, 9_999_999, places=2),
    "double": st.none() | st.floats(allow_nan=False),
    "single": st.none() | st.floats(width=32, allow_nan=False),
    "flag": st.none() | st.booleans(),
    "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "moment": st.none() | TIMES,
    "instant": st.none() | TIMES.map(lambda time: time.replace(tzinfo=UTC)),
}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the developer's own connections use is none of these tests' business."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))


@pytest.fixture
def rooms(postgres: Server) -> Server:
    """With a table `rooms`, new for each test."""
    postgres.execute(
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "GRANT USAGE ON SCHEMA public TO reader",
        "CREATE TABLE rooms (location integer, room text)",
        "INSERT INTO rooms VALUES (1, 'hall'), (2, NULL), (NULL, ''), (3, 'a\nb,\"c\"')",
    )
    return postgres


def read(server: Server, schema: pa.Schema = ROOMS, table: str = "rooms", user: str = "owner") -> pa.Table:
    return PostgresTable(server.address(user), table, schema).read("r")


def complaint(server: Server, schema: pa.Schema = ROOMS, table: str = "rooms", user: str = "owner") -> str:
    """What is said of a table that cannot be read, with nothing of psycopg's left in the error."""
    with pytest.raises(SourceError) as raised:
        read(server, schema, table, user)
    assert raised.value.__context__ is None
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))
    return str(raised.value).replace(server.address(user), "ADDRESS").replace(str(server.sockets), "SOCKETS")


class TestRows:
    def test_every_row_comes_once(self, rooms):
        rows = sorted(map(str, read(rooms).to_pylist()))
        expected = [(1, "hall"), (2, None), (None, ""), (3, 'a\nb,"c"')]
        assert rows == sorted(str({"location": location, "room": room}) for location, room in expected)

    def test_columns_may_stand_in_any_order_and_others_are_skipped(self, rooms):
        rooms.execute("ALTER TABLE rooms ADD hidden int[] DEFAULT '{1}'")
        assert read(rooms, pa.schema([("ROOM", pa.string())])).schema.names == ["ROOM"]
        assert read(rooms, pa.schema([ROOMS.field(1), ROOMS.field(0)])).column_names == ["room", "location"]

    def test_a_table_without_rows(self, rooms):
        rooms.execute("TRUNCATE rooms")
        assert read(rooms) == ROOMS.empty_table()

    def test_a_single_column_of_nulls(self, rooms):
        rooms.execute("UPDATE rooms SET room = NULL")
        assert read(rooms, pa.schema([("room", pa.string())])).to_pylist() == [{"room": None}] * 4

    def test_a_text_may_begin_with_a_byte_order_mark_or_look_like_null(self, rooms):
        texts = ["\ufeffx", r"\N", r"\.", "", " ", "NULL"]
        rooms.execute("DELETE FROM rooms", *(f"INSERT INTO rooms VALUES (1, '{text}')" for text in texts))
        assert read(rooms, pa.schema([("room", pa.string())])).column("room").to_pylist() == texts

    def test_every_type_with_its_extremes(self, rooms):
        columns = ", ".join(f"{name} {type}" for name, (type, _) in ALL_TYPES.items())
        rooms.execute(
            "SET TimeZone TO 'Asia/Kolkata'",
            f"CREATE TABLE types ({columns})",
            "INSERT INTO types VALUES (-128, -32768, -2147483648, -9223372036854775808, 0, -9999999.99, "
            "99999999999999999999999999999999999999, 3.4028235e38, 0.1, 5e-324, true, 'x', 'abcde', '0001-01-01', "
            "'0001-01-01 00:00:00.000001', '2026-01-01 12:00:00+01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', "
            """'{"b": 1, "a": [null]}')""",
            "INSERT INTO types (single, double) VALUES ('NaN', '-Infinity')",
            "INSERT INTO types DEFAULT VALUES",
        )
        schema = pa.schema([(name, type) for name, (_, type) in ALL_TYPES.items()])
        first, second, third = read(rooms, schema, "types").to_pylist()
        assert list(first.values()) == [
            *(-128, -32768, -(2**31), -(2**63), 0, Decimal("-9999999.99"), Decimal(10**38 - 1)),
            *(3.4028234663852886e38, 0.10000000149011612, 5e-324, True, "x", "abcde", date(1, 1, 1)),
            datetime(1, 1, 1, 0, 0, 0, 1),
            datetime(2026, 1, 1, 11, tzinfo=UTC),
            *("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '{"a": [null], "b": 1}'),
        ]
        assert (str(second["single"]), second["double"]) == ("nan", float("-inf"))
        assert set(third.values()) == {None}

    def test_domains_enumerations_and_padded_texts(self, rooms):
        rooms.execute(
            "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
            "CREATE DOMAIN small AS positive CHECK (VALUE < 100)",
            "CREATE TYPE mood AS ENUM ('sad', 'glad')",
            "CREATE TABLE others (n small, m mood, c char(5))",
            "INSERT INTO others VALUES (7, 'glad', 'ab')",
        )
        schema = pa.schema([("n", pa.int64()), ("m", pa.string()), ("c", pa.string())])
        assert read(rooms, schema, "others").to_pylist() == [{"n": 7, "m": "glad", "c": "ab"}]

    @pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
    def test_views(self, rooms, kind):
        rooms.execute(f"CREATE {kind} named AS SELECT * FROM rooms WHERE room <> ''")
        assert sorted(read(rooms, table="public.named").column("location").to_pylist()) == [1, 3]

    def test_names_are_read_as_postgresql_reads_them(self, rooms):
        rooms.execute('CREATE SCHEMA "My.Shop"', 'CREATE TABLE "My.Shop"."All ""rooms""" AS TABLE rooms')
        assert read(rooms, table='"My.Shop"."All ""rooms"""').num_rows == 4
        assert read(rooms, table="PUBLIC.Rooms").num_rows == 4

    @given(st.lists(st.fixed_dictionaries(VALUES), max_size=8))
    def test_what_a_client_has_written_is_read_again(self, postgres, rows):
        import psycopg

        schema = pa.schema([(name, ALL_TYPES[name][1]) for name in VALUES])
        columns = ", ".join(f"{name} {ALL_TYPES[name][0]}" for name in schema.names)
        with psycopg.connect(postgres.address(), autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS drawn; CREATE TABLE drawn ({columns})".encode())
            marks = ", ".join(["%s"] * len(schema))
            connection.cursor().executemany(
                f"INSERT INTO drawn VALUES ({marks})".encode(), [[row[name] for name in VALUES] for row in rows]
            )
        assert read(postgres, schema, "drawn").to_pylist() == rows


class TestErrors:
    def test_no_server(self, rooms):
        table = PostgresTable("postgresql://x@127.0.0.1:1/db", "rooms", ROOMS)
        with pytest.raises(SourceError) as raised:
            table.read("r")
        assert str(raised.value) == (
            'table `r`: connection to server at "127.0.0.1", port 1 failed: Connection refused; check its address, and '
            "that the server runs and can be reached from here"
        )

    def test_no_password(self, rooms):
        assert complaint(rooms, user="reader") == (
            "table `r`: the server asks for a password, and there is none; set PGPASSWORD, or write it into ~/.pgpass "
            "or a service file"
        )

    def test_a_wrong_password(self, rooms, monkeypatch):
        monkeypatch.setenv("PGPASSWORD", f"{PASSWORD}-not")
        assert complaint(rooms, user="reader") == (
            'table `r`: connection to server on socket "SOCKETS/.s.PGSQL.5432" failed: FATAL:  password authentication '
            'failed for user "reader"; check the user and the database in its address, and the password in PGPASSWORD '
            "or where you keep it"
        )

    def test_an_option_of_the_address_that_is_none(self):
        with pytest.raises(SourceError, match='invalid URI query parameter: "hots"; check its address'):
            PostgresTable("postgresql://x@/db?hots=y", "rooms", ROOMS).read("r")

    def test_a_table_that_is_gone(self, rooms):
        rooms.execute("DROP TABLE rooms")
        expected = "table `r`: there is no `{}` in ADDRESS; check the option `table`, or create it"
        assert complaint(rooms) == expected.format("rooms")
        assert complaint(rooms, table="other.rooms") == expected.format("other.rooms")

    def test_a_table_that_may_not_be_read(self, rooms, monkeypatch):
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        assert complaint(rooms, user="reader") == (
            "table `r`: `rooms` in ADDRESS may not be read: permission denied for table rooms; grant this user SELECT "
            "on it"
        )

    def test_a_column_that_was_renamed(self, rooms):
        rooms.execute("ALTER TABLE rooms RENAME location TO locations")
        assert complaint(rooms) == ("table `r`: `rooms` in ADDRESS has no column `location`; did you mean `locations`?")

    @pytest.mark.parametrize(
        ("type", "shown", "remedy"),
        [
            ("text", "text", "declare it VARCHAR"),
            ("double precision", "double precision", "declare it DOUBLE"),
            ("timestamp", "timestamp without time zone", "declare it TIMESTAMP"),
            ("integer[]", "integer[]", "cast it in a view, and read that"),
            ("bytea", "bytea", "cast it in a view, and read that"),
            ("interval", "interval", "cast it in a view, and read that"),
        ],
    )
    def test_a_column_of_another_type(self, rooms, type, shown, remedy):
        rooms.execute("ALTER TABLE rooms DROP location", f"ALTER TABLE rooms ADD location {type}")
        assert complaint(rooms) == (
            f"table `r`: column `location` of `rooms` in ADDRESS is {shown}, but declared INTEGER; {remedy}"
        )

    @pytest.mark.parametrize(
        ("type", "declared"),
        [
            ("integer", pa.string()),
            ("double precision", pa.float32()),
            ("numeric", pa.float64()),
            ("integer", pa.float64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestamptz", pa.timestamp("us")),
            ("date", pa.timestamp("us")),
            ("text", pa.bool_()),
        ],
    )
    def test_no_meaning_is_guessed_at(self, rooms, type, declared):
        rooms.execute(f"CREATE TABLE one (x {type})")
        assert "but declared" in complaint(rooms, pa.schema([("x", declared)]), "one")

    @pytest.mark.parametrize(
        ("type", "value", "declared", "shown"),
        [
            ("integer", "300", pa.int8(), "'300' is not a TINYINT"),
            ("bigint", "-1", pa.uint64(), "'-1' is not a UBIGINT"),
            ("numeric", "1.005", pa.decimal128(9, 2), "'1.005' is not a DECIMAL(9, 2)"),
            ("numeric", "NaN", pa.decimal128(9, 2), "'NaN' is not a DECIMAL(9, 2)"),
            ("numeric", "1.5", pa.int32(), "'1.5' is not a INTEGER"),
            ("timestamp", "infinity", pa.timestamp("us"), "'infinity' is not a TIMESTAMP"),
            ("date", "0044-03-15 BC", pa.date32(), "'0044-03-15 BC' is not a DATE"),
        ],
    )
    def test_a_value_that_the_declared_type_cannot_hold(self, rooms, type, value, declared, shown):
        rooms.execute(f"CREATE TABLE one (x {type})", f"INSERT INTO one VALUES ('{value}')")
        assert complaint(rooms, pa.schema([("x", declared)]), "one") == (
            f"table `r`: `one` in ADDRESS: field `x`: {shown}; declare another type, or correct the row"
        )

    def test_a_connection_that_is_lost_in_the_middle(self, rooms, monkeypatch):
        rooms.execute("INSERT INTO rooms SELECT i, repeat('x', 100) FROM generate_series(1, 100000) i")
        read_some = postgresql.CopiedBytes.read

        def cut(copied: postgresql.CopiedBytes, n_bytes: int) -> bytes:
            some = read_some(copied, 1)
            rooms.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'")
            return some

        monkeypatch.setattr(postgresql.CopiedBytes, "read", cut)
        said = complaint(rooms)
        assert said.startswith("table `r`: the connection was lost while `rooms` in ADDRESS was read: ")
        assert said.endswith("; run again")

    def test_a_view_that_fails(self, rooms):
        rooms.execute("CREATE VIEW broken AS SELECT 1 / (location - 3) AS location FROM rooms")
        assert complaint(rooms, pa.schema([("location", pa.int32())]), "broken") == (
            "table `r`: `broken` in ADDRESS cannot be read: division by zero; remove the cause, and run again"
        )


class TestOneMoment:
    def test_what_is_written_meanwhile_is_not_seen(self, rooms, monkeypatch):
        """Nor can the table be altered between the look at its columns and the copy."""
        select = PostgresTable._select

        def write(self, connection, table):
            items = select(self, connection, table)
            rooms.execute("DELETE FROM rooms WHERE location = 1", "INSERT INTO rooms VALUES (9, 'new')")
            for change in ("ALTER TABLE rooms RENAME room TO space", "TRUNCATE rooms"):
                with pytest.raises(Exception, match="lock timeout"):
                    rooms.execute("SET lock_timeout TO '1ms'", change)
            return items

        monkeypatch.setattr(PostgresTable, "_select", write)
        assert sorted(map(str, read(rooms).column("location").to_pylist())) == ["1", "2", "3", "None"]

    def test_the_lock_comes_before_the_snapshot(self, rooms):
        """Else a TRUNCATE that is waited for would leave a table that seems to have been empty before."""
        statements: list[str] = []

        class Spy:
            def execute(self, query, parameters=None):
                statements.append(query.as_string())
                return self

            def transaction(self):
                return nullcontext()

        from psycopg import sql

        PostgresTable(rooms.address(), "rooms", ROOMS).begin(Spy(), sql.Identifier("rooms"))  # pyright: ignore[reportArgumentType]
        assert [statement.split()[0] for statement in statements] == ["SET", "SET", "SET", "LOCK"]


class TestAddress:
    @pytest.mark.parametrize(
        "address",
        [
            f"postgresql://reader:{PASSWORD}@host/db",
            f"postgres://reader:{PASSWORD}@host/db",
            f"postgresql://:{PASSWORD}@host/db",
            f"postgresql://reader:a {PASSWORD}@host/db",
            f"postgresql://reader:a/{PASSWORD}@host/db",
            f"postgresql://reader:a?{PASSWORD}@host/db",
            f"postgresql://reader:a#{PASSWORD}@host/db",
            f"postgresql://reader@host/db?password={PASSWORD}",
            f"postgresql://reader@host/db?sslmode=require&PassWord={PASSWORD}",
            f"postgresql://reader@host/db?pass%77ord={PASSWORD}",
            f"postgresql://reader@host/db?sslpassword={PASSWORD}",
            f"host=localhost password={PASSWORD}",
            f"postgresql://[{PASSWORD}/db",
        ],
    )
    def test_a_password_is_refused_and_not_shown(self, address):
        written = address.replace("'", "''")
        text = f"CREATE TABLE rooms (k INT) FROM '{written}' FORMAT postgresql OPTIONS (table 'rooms');"
        with pytest.raises(AddressError) as raised:
            bind_script(f"{text} SELECT 1 AS one FROM rooms")
        assert PASSWORD not in "".join(traceback.format_exception(raised.value))
        assert str(raised.value).startswith(
            ("`rooms`: a password has no place in an address", "`rooms`: its address is")
        )

    def test_the_password_is_found_elsewhere(self, rooms, monkeypatch, tmp_path):
        rooms.execute("GRANT SELECT ON rooms TO reader")
        for name, text in {
            "PGPASSWORD": PASSWORD,
            "PGPASSFILE": f"*:*:*:reader:{PASSWORD}\n",
            "PGSERVICEFILE": f"[shop]\npassword={PASSWORD}\n",
        }.items():
            with monkeypatch.context() as patch:
                if name == "PGPASSWORD":
                    patch.setenv(name, text)
                else:
                    (tmp_path / name).write_text(text)
                    (tmp_path / name).chmod(0o600)
                    patch.setenv(name, str(tmp_path / name))
                address = rooms.address("reader") + ("&service=shop" if name == "PGSERVICEFILE" else "")
                assert PostgresTable(address, "rooms", ROOMS).read("r").num_rows == 4


class TestDeclarations:
    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ((), "`` is no name of a table; write OPTIONS (table 'schema.name')"),
            ((("table", "a.b.c"),), "`a.b.c` is no name of a table"),
            ((("table", 'a"b'),), '`a"b` is no name of a table'),
            ((("tabel", "a"),), "format `postgresql` has no option `tabel`; did you mean `table`?"),
        ],
    )
    def test_options(self, options, reason):
        with pytest.raises(PlanError) as raised:
            declared_table("postgresql://h/d", "postgresql", ROOMS, options)
        assert reason in str(raised.value)

    def test_types_that_cannot_be_read(self):
        with pytest.raises(PlanError, match="column `x` is list<item: int64>, which is not read from PostgreSQL; "):
            PostgresTable("postgresql://h/d", "r", pa.schema([("x", pa.list_(pa.int64()))]))

    def test_a_stream_cannot_be_read_from_it(self):
        text = "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts FROM 'postgresql://h/d' FORMAT postgresql;"
        with pytest.raises(PlanError, match="`s`: `postgresql` holds tables, and no streams; write CREATE TABLE"):
            bind_script(text)

    def test_formats_are_suggested(self):
        with pytest.raises(PlanError, match="there is no format `postgres`; did you mean `postgresql`"):
            declared_table("postgresql://h/d", "postgres", ROOMS, ())

    def test_without_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(ResourceError) as raised:
            PostgresTable("postgresql://h/d", "r", ROOMS).read("r")
        assert str(raised.value) == (
            "a table of PostgreSQL needs psycopg, which is not installed; install it with "
            "`pip install 'sash[postgres]'`, or export it to a file"
        )
