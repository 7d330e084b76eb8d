"""Histories of PostgreSQL tables: every version that was looked at can be read again."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import PlanError, SourceError
from sash.io.postgres_history import remove_history, set_up_history
from sash.io.table_version import VERSION, KnownVersion, TableVersion
from sash.io.tables import TableSource, VersionedSource, declared_table
from support.commands import run_command
from support.postgres_server import PASSWORD, Server
from support.profiles import volume

ROOMS = pa.schema([("location", pa.int32()), ("room", pa.string())])
WHOLE = pa.schema([*ROOMS, ("sash_from", pa.timestamp("us", "UTC")), ("sash_to", pa.timestamp("us", "UTC"))])
OBJECTS = """
SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1
"""
KEYS = range(4)
STATEMENTS = st.sampled_from(
    ["put", "put", "delete", "move", "rename", "undo", "commit", "commit", "roll back", "look"]
)
STEPS = st.lists(st.tuples(st.integers(0, 2), STATEMENTS, st.sampled_from(KEYS), st.integers(0, 2)), max_size=25)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


@pytest.fixture
def rooms(postgres: Server) -> Server:
    make_rooms(postgres)
    set_up_history(postgres.address(), "rooms")
    return postgres


def make_rooms(server: Server) -> None:
    server.execute(
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "GRANT USAGE ON SCHEMA public TO reader",
        "CREATE TABLE rooms (location integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, room text)",
        "INSERT INTO rooms VALUES (0, 'hall'), (1, NULL)",
        "GRANT SELECT ON rooms TO reader",
    )


def source(server: Server, schema: pa.Schema = ROOMS, user: str = "owner", **options: str) -> TableSource:
    chosen = {"table": "rooms", "history": "yes"} | options
    return declared_table(server.address(user), "postgresql", schema, tuple(chosen.items()))


def rows_of(table: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def horizon_of(table: pa.Table) -> str:
    return (table.schema.metadata or {})[VERSION].decode().removeprefix("horizon ")


def test_it_has_what_is_there(rooms):
    assert rows_of(source(rooms).read("rooms")) == [(0, "hall"), (1, None)]
    rooms.execute("UPDATE rooms SET room = 'attic' WHERE location = 0", "DELETE FROM rooms WHERE location = 1")
    assert rows_of(source(rooms).read("rooms")) == [(0, "attic")]


def test_a_version_is_read_again(rooms):
    before = source(rooms).read("rooms")
    rooms.execute("TRUNCATE rooms", "INSERT INTO rooms VALUES (5, 'roof')", "UPDATE rooms SET room = 'loft'")
    assert rows_of(source(rooms).read("rooms")) == [(5, "loft")]
    again = source(rooms, horizon=horizon_of(before)).read("rooms")
    assert rows_of(again) == rows_of(before)
    assert again.schema.metadata == before.schema.metadata


def test_a_transaction_that_is_held_open_is_seen_once_and_whole(rooms):
    """Also if it has a lower number than another that it comes after: the oldest open one is no horizon."""
    with ExitStack() as held:
        late, other, oldest = (held.enter_context(psycopg.connect(rooms.address())) for _ in range(3))
        late.execute("INSERT INTO rooms VALUES (2, 'late')")
        oldest.execute("SELECT pg_current_xact_id()")
        other.execute("UPDATE rooms SET room = 'other' WHERE location = 0")
        seen = [source(rooms).read("rooms")]
        other.commit()
        seen.append(source(rooms).read("rooms"))
        late.execute("UPDATE rooms SET room = 'late' WHERE location = 0")
        seen.append(source(rooms).read("rooms"))
        late.commit()
        seen.append(source(rooms).read("rooms"))
    expected = [
        [(0, "hall"), (1, None)],
        [(0, "other"), (1, None)],
        [(0, "other"), (1, None)],
        [(0, "late"), (1, None), (2, "late")],
    ]
    assert [rows_of(each) for each in seen] == expected
    assert [rows_of(source(rooms, horizon=horizon_of(each)).read("rooms")) for each in seen] == expected


class Writers:
    """Three connections that write, none waiting for another, and what was seen meanwhile."""

    def __init__(self, server: Server, held: ExitStack):
        self.server = server
        self.connections = [held.enter_context(psycopg.connect(server.address())) for _ in range(3)]
        self.owners: dict[int, int] = {}
        """By key, who has locked it."""
        self.seen: list[tuple[str, list[tuple]]] = []

    def take(self, writer: int, statement: str, key: int, value: int) -> None:
        if statement == "look":
            self.look()
            return
        connection = self.connections[writer]
        if statement in ("commit", "roll back"):
            connection.commit() if statement == "commit" else connection.rollback()
            self.owners = {each: owner for each, owner in self.owners.items() if owner != writer}
            return
        target = (key + 1) % len(KEYS)
        if any(self.owners.get(each, writer) != writer for each in (key, target)):
            return
        self.owners |= {key: writer, target: writer}
        self.write(connection, statement, key, target, f"{value}")

    def write(self, connection: psycopg.Connection, statement: str, key: int, target: int, value: str) -> None:
        put = "INSERT INTO rooms VALUES (%s, %s)"
        if statement == "put":
            connection.execute("DELETE FROM rooms WHERE location = %s", [key])
            connection.execute(put, [key, value])
        elif statement == "delete":
            connection.execute("DELETE FROM rooms WHERE location = %s", [key])
        elif statement == "rename":
            connection.execute("UPDATE rooms SET room = %s WHERE location = %s", [value, key])
        elif statement == "move":
            swap = "UPDATE rooms SET location = CASE location WHEN %s THEN %s ELSE %s END WHERE location IN (%s, %s)"
            connection.execute(swap, [key, target, key, key, target])
        else:
            with connection.transaction(force_rollback=True):
                connection.execute("UPDATE rooms SET room = 'undone' WHERE location = %s", [key])

    def look(self) -> None:
        """What the table has, and the version of its history, both of one moment."""
        with psycopg.connect(self.server.address()) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            found = connection.execute("SELECT location, room FROM rooms").fetchall()
            (horizon,) = connection.execute("SELECT pg_current_snapshot()::text").fetchone() or ("",)
            self.seen.append((horizon, sorted(found, key=repr)))


@settings(max_examples=volume(dev=10, ci=15, deep=300))
@given(STEPS)
def test_every_version_is_what_the_table_was(postgres, steps):
    make_rooms(postgres)
    set_up_history(postgres.address(), "rooms")
    with ExitStack() as held:
        writers = Writers(postgres, held)
        for step in steps:
            writers.take(*step)
        writers.look()
        seen = writers.seen
    for horizon, expected in seen:
        assert rows_of(source(postgres, horizon=horizon).read("rooms")) == expected


def test_all_rows_that_ever_were(rooms):
    """Of each key, one is valid at a time, and what a transaction replaced itself never was."""
    rooms.execute(
        "BEGIN; UPDATE rooms SET room = 'a' WHERE location = 0; UPDATE rooms SET room = 'b' WHERE location = 0; COMMIT",
        "UPDATE rooms SET room = 'c' WHERE location = 0",
        "UPDATE rooms SET room = 'c' WHERE location = 0",
        "BEGIN; INSERT INTO rooms VALUES (9, 'never'); DELETE FROM rooms WHERE location = 9; COMMIT",
        "DELETE FROM rooms WHERE location = 0",
    )
    found = sorted(source(rooms, WHOLE).read("rooms").to_pylist(), key=lambda row: (row["location"], row["sash_from"]))
    assert [(row["location"], row["room"]) for row in found] == [(0, "hall"), (0, "b"), (0, "c"), (1, None)]
    assert [row["sash_to"] for row in found] == [*(row["sash_from"] for row in found[1:3]), found[2]["sash_to"], None]
    assert found[2]["sash_to"] > found[2]["sash_from"]


class TestSettingUp:
    def test_twice_is_once(self, rooms):
        rooms.execute("DELETE FROM rooms")
        assert set_up_history(rooms.address(), "rooms") == "`rooms` has a history already: `rooms_history`"
        assert len(rows_of(source(rooms, WHOLE).read("rooms"))) == 2

    def test_what_it_made_is_removed_and_nothing_else(self, postgres, monkeypatch, capsys):
        make_rooms(postgres)
        before = postgres.execute(OBJECTS)
        assert run_command(monkeypatch, "relation", "history", postgres.address(), "public.rooms") == 0
        assert "has a history from now on: `rooms_history`" in capsys.readouterr().out
        assert len(postgres.execute(OBJECTS)) == len(before) + 4
        assert run_command(monkeypatch, "relation", "history", postgres.address(), "rooms", "--remove") == 0
        assert postgres.execute(OBJECTS) == before
        assert "nothing was removed" in remove_history(postgres.address(), "rooms")
        postgres.execute("UPDATE rooms SET room = 'free'")

    def test_a_table_of_that_name_that_is_not_ours_stays(self, postgres):
        make_rooms(postgres)
        postgres.execute("CREATE TABLE rooms_history (x integer)")
        with pytest.raises(
            SourceError, match=r"there is a table `rooms_history` already, which is no history of Sash's"
        ):
            set_up_history(postgres.address(), "rooms")
        assert "has no history of Sash's" in remove_history(postgres.address(), "rooms")
        postgres.execute("SELECT x FROM rooms_history")

    @pytest.mark.parametrize(
        ("ddl", "name", "reason"),
        [
            ("CREATE TABLE other (x integer)", "other", "it has no primary key, by which a row is known; add one"),
            ("CREATE VIEW seen AS SELECT * FROM rooms", "seen", "not an ordinary table"),
            ("CREATE UNLOGGED TABLE u (x integer PRIMARY KEY)", "u", "it is unlogged or temporary"),
            ("CREATE TABLE t (sash_to integer PRIMARY KEY)", "t", "a column `sash_from` or `sash_to` of its own"),
            (f"CREATE TABLE {'n' * 60} (x integer PRIMARY KEY)", "n" * 60, "its name is too long"),
            ("CREATE TABLE child () INHERITS (rooms)", "rooms", "tables inherit from it"),
            ("ALTER TABLE rooms ENABLE ROW LEVEL SECURITY", "rooms", "it has row security"),
        ],
    )
    def test_tables_that_cannot_have_one(self, postgres, ddl, name, reason):
        make_rooms(postgres)
        postgres.execute(ddl)
        with pytest.raises(SourceError, match=reason):
            set_up_history(postgres.address(), name)

    def test_a_table_that_is_not_there(self, postgres):
        make_rooms(postgres)
        with pytest.raises(SourceError, match=r"there is no `romes` in .*; check the name, or create the table"):
            set_up_history(postgres.address(), "romes")

    def test_whoever_does_not_own_it_may_not(self, postgres, monkeypatch):
        make_rooms(postgres)
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        with pytest.raises(SourceError, match=r"permission denied .*; run it as the owner of `rooms`"):
            set_up_history(postgres.address("reader"), "rooms")

    def test_whoever_may_read_the_table_may_read_its_history_and_writers_need_no_right(self, rooms, monkeypatch):
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        rooms.execute("GRANT INSERT ON rooms TO reader")
        with psycopg.connect(rooms.address("reader")) as connection:
            connection.execute("INSERT INTO rooms VALUES (7, 'own')")
        assert len(rows_of(source(rooms, user="reader").read("rooms"))) == 3


class TestBrokenHistories:
    def test_none(self, postgres):
        make_rooms(postgres)
        with pytest.raises(SourceError, match=r"`rooms` in .* has no history; set it up with `sash relation history "):
            source(postgres).read("rooms")

    @pytest.mark.parametrize("ddl", ["DISABLE TRIGGER sash_history", "DISABLE TRIGGER ALL"])
    def test_a_trigger_that_does_not_fire(self, rooms, ddl):
        rooms.execute(f"ALTER TABLE rooms {ddl}")
        with pytest.raises(SourceError, match=r"has a gap: a trigger that keeps it is gone or disabled"):
            source(rooms).read("rooms")
        with pytest.raises(SourceError, match=r"has a gap"):
            set_up_history(rooms.address(), "rooms")

    def test_another_server(self, rooms):
        rooms.execute("""COMMENT ON TABLE rooms_history IS '{"sash_history": 1, "begun": "1", "system": "42"}'""")
        with pytest.raises(SourceError, match=r"was kept on another server"):
            source(rooms).read("rooms")

    def test_a_row_that_is_missing_stops_whoever_writes(self, rooms):
        rooms.execute("DELETE FROM rooms_history")
        with pytest.raises(psycopg.Error, match=r"the history of this table lacks a row that is in it"):
            rooms.execute("DELETE FROM rooms")

    def test_truncate_sees_all_rows_or_is_refused(self, rooms):
        with pytest.raises(psycopg.Error, match=r"is truncated in READ COMMITTED alone"):
            rooms.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; TRUNCATE rooms; COMMIT")

    def test_versions_that_are_not_there(self, rooms):
        newest = horizon_of(source(rooms).read("rooms"))
        with pytest.raises(SourceError, match=f"has no version `horizon 1:999999:` yet; the newest is {newest}"):
            source(rooms, horizon="1:999999:").read("rooms")
        with pytest.raises(
            SourceError, match=r"begins with transaction .*, after `horizon 3:3:`; read a newer version"
        ):
            source(rooms, horizon="3:3:").read("rooms")

    def test_a_version_is_not_believed_while_a_transaction_of_it_is_open(self, rooms):
        with psycopg.connect(rooms.address()) as held:
            held.execute("INSERT INTO rooms VALUES (2, 'late')")
            (over,) = held.execute("SELECT (pg_current_xact_id()::text::bigint + 1)::text").fetchone() or ("",)
            rooms.execute("INSERT INTO rooms VALUES (3, 'other')")
            with pytest.raises(SourceError, match=f"has no version `horizon {over}:{over}:` yet"):
                source(rooms, horizon=f"{over}:{over}:").read("rooms")

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"history": "on"}, "option `history` is 'on' but must be 'yes' or 'no'"),
            ({"history": "no", "horizon": "1:2:"}, "option `horizon` is a version of a table's history"),
            ({"horizon": "12"}, "option `horizon` is '12' but must be one that was told"),
        ],
    )
    def test_options(self, options, reason):
        with pytest.raises(PlanError, match=reason):
            source(Server(Path("/nowhere")), **options)


class TestChangesOfTheTable:
    def test_a_column_that_is_renamed(self, rooms):
        rooms.execute("ALTER TABLE rooms RENAME room TO name", "UPDATE rooms SET name = 'a' WHERE location = 0")
        with pytest.raises(SourceError, match=r"has no column `room`; there is `location`, `name`"):
            source(rooms).read("rooms")

    @pytest.mark.parametrize("ddl", ["ALTER room TYPE varchar(9)", "ADD floor integer DEFAULT 7"])
    def test_what_no_trigger_sees_is_refused_by_the_server(self, rooms, ddl):
        with pytest.raises(psycopg.Error, match=r'because column "rooms_history.sash_row" uses its row type'):
            rooms.execute(f"ALTER TABLE rooms {ddl}")

    def test_a_column_that_is_added_or_dropped(self, rooms):
        rooms.execute("ALTER TABLE rooms ADD floor integer", "UPDATE rooms SET floor = 1 WHERE location = 0")
        floors = pa.schema([("location", pa.int32()), ("floor", pa.int32())])
        assert rows_of(source(rooms, floors).read("rooms")) == [(0, 1), (1, None)]
        rooms.execute("ALTER TABLE rooms DROP room", "UPDATE rooms SET floor = 2 WHERE location = 0")
        assert rows_of(source(rooms, floors).read("rooms")) == [(0, 2), (1, None)]


class Follower:
    """Asks for versions one after the other, and has what it was told of them."""

    def __init__(self, server: Server, schema: pa.Schema = ROOMS):
        found = source(server, schema)
        assert isinstance(found, VersionedSource)
        self._source, self._known = found, None
        self.rows: Counter = Counter()

    def poll(self) -> TableVersion:
        version, known = self._source.poll("rooms", self._known), self._known
        came = Counter(rows_of(version.rows)) if version.rows is not None else Counter()
        if version.gone is not None:
            gone = Counter(rows_of(version.gone))
            assert gone <= self.rows
            self.rows = self.rows - gone + came
        elif version.rows is not None:
            self.rows = came
        self._known = KnownVersion(version.name, version.n_rows(known), version.shape)
        assert self._known.n_rows == self.rows.total()
        return version


class TestDifferences:
    @settings(max_examples=volume(dev=10, ci=15, deep=300))
    @given(STEPS)
    def test_they_lead_from_version_to_version(self, postgres, steps):
        """Of the rows that are there, and of all that ever were."""
        make_rooms(postgres)
        set_up_history(postgres.address(), "rooms")
        followers = [(Follower(postgres), ROOMS), (Follower(postgres, WHOLE), WHOLE)]
        with ExitStack() as held:
            writers = Writers(postgres, held)
            for number, step in enumerate(steps):
                writers.take(*step)
                if number % 3 == 0:
                    self._check(postgres, followers)
        self._check(postgres, followers)

    def _check(self, server: Server, followers: list[tuple[Follower, pa.Schema]]) -> None:
        for follower, schema in followers:
            is_first = follower._known is None
            version = follower.poll()
            horizon = version.name.removeprefix("horizon ")
            assert follower.rows == Counter(rows_of(source(server, schema, horizon=horizon).read("rooms")))
            assert (version.rows is not None and version.gone is None) == is_first

    def test_only_what_has_changed_is_read(self, rooms):
        rooms.execute("INSERT INTO rooms SELECT n, 'room ' || n FROM generate_series(10, 999) AS n")
        follower = Follower(rooms)
        assert follower.poll().gone is None
        assert follower.poll().rows is None
        rooms.execute(
            "UPDATE rooms SET room = 'new' WHERE location = 10", "DELETE FROM rooms WHERE location IN (11, 12)"
        )
        version = follower.poll()
        assert version.rows is not None
        assert version.gone is not None
        assert rows_of(version.rows) == [(10, "new")]
        assert rows_of(version.gone) == [(10, "room 10"), (11, "room 11"), (12, "room 12")]

    def test_what_was_deleted_from_the_history_is_noticed(self, rooms):
        """Rows that went and are not there any more cannot be told: all is read."""
        follower = Follower(rooms)
        follower.poll()
        rooms.execute("DELETE FROM rooms WHERE location = 0", "INSERT INTO rooms VALUES (5, 'five')")
        rooms.execute("DELETE FROM rooms_history WHERE sash_to IS NOT NULL")
        assert follower.poll().gone is None
        assert follower.rows == Counter([(1, None), (5, "five")])

    @pytest.mark.parametrize(
        "ddl",
        [
            "ALTER TABLE rooms DROP COLUMN room; ALTER TABLE rooms ADD COLUMN room text",
            "ALTER TABLE rooms ADD COLUMN other text; ALTER TABLE rooms RENAME room TO old; "
            "ALTER TABLE rooms RENAME other TO room",
        ],
    )
    def test_columns_that_are_others_are_read_anew(self, rooms, ddl):
        follower = Follower(rooms)
        follower.poll()
        rooms.execute(ddl)
        assert follower.poll().gone is None
        assert follower.rows == Counter([(0, None), (1, None)])

    def test_a_value_of_an_enumeration_that_is_renamed(self, rooms):
        rooms.execute(
            "SELECT 1; DROP TABLE rooms_history, rooms CASCADE; CREATE TYPE kind AS ENUM ('a', 'b')",
            "CREATE TABLE rooms (location integer PRIMARY KEY, room kind)",
            "INSERT INTO rooms VALUES (0, 'a'), (1, 'b')",
            "DROP FUNCTION rooms_history_keeper",
        )
        set_up_history(rooms.address(), "rooms")
        follower = Follower(rooms)
        follower.poll()
        rooms.execute("ALTER TYPE kind RENAME VALUE 'a' TO 'z'", "DELETE FROM rooms WHERE location = 1")
        assert follower.poll().gone is None
        assert follower.rows == Counter([(0, "z")])

    def test_a_history_that_began_anew(self, rooms):
        follower = Follower(rooms)
        follower.poll()
        remove_history(rooms.address(), "rooms")
        rooms.execute("UPDATE rooms SET room = 'unseen' WHERE location = 0")
        set_up_history(rooms.address(), "rooms")
        assert follower.poll().gone is None
        assert follower.rows == Counter([(0, "unseen"), (1, None)])

    def test_after_a_restart_all_is_read_once(self, rooms):
        """It is not known of what columns were then."""
        follower = Follower(rooms)
        follower.poll()
        assert follower._known is not None
        follower._known = KnownVersion(follower._known.name, 2)
        assert follower.poll().rows is None
        rooms.execute("DELETE FROM rooms WHERE location = 0")
        assert follower.poll().gone is None
        rooms.execute("DELETE FROM rooms WHERE location = 1")
        assert follower.poll().gone is not None
        assert not follower.rows.total()
