"""A snapshot that is damaged, another query's, or of another version is refused by name, and nothing has changed."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import pytest

import sash
from sash.embedded import snapshot as snapshots
from sash.errors import SourceError
from sash.testing import stream_of

READINGS = stream_of("""
    ts                  | k | v
    2026-01-01 12:00:00 | 1 | 10
    2026-01-01 12:00:01 | 2 | 20
    2026-01-01 12:00:02 | 1 | 30
    2026-01-01 12:00:03 | 2 | 40
    2026-01-01 12:00:04 | 1 | 50
""")
TEXT = "SELECT k, sum(v) AS total FROM readings [RANGE 3 SECONDS] GROUP BY k"


def make_query(text: str = TEXT) -> sash.Query:
    return sash.query(text, readings=sash.stream(READINGS.schema, slack="1 second"))


def make_session() -> sash.Session:
    session = sash.Session()
    session.stream("readings", READINGS.schema, slack="1 second")
    session.query("totals", TEXT)
    return session


def taken(made: sash.Query | sash.Session) -> bytes:
    made.push("readings", READINGS.slice(0, 3))
    return made.snapshot()


def damaged(snapshot: bytes, chance: random.Random) -> bytes:
    """The snapshot with one to four bits flipped, cut short, or with bytes behind it or in its middle."""
    match chance.randrange(4):
        case 0:
            body = bytearray(snapshot)
            for place in chance.sample(range(len(body) * 8), chance.randint(1, 4)):
                body[place // 8] ^= 1 << place % 8
            return bytes(body)
        case 1:
            return snapshot[: chance.randrange(len(snapshot))]
        case 2:
            return snapshot + chance.randbytes(chance.randint(1, 64))
    place = chance.randrange(len(snapshot))
    return snapshot[:place] + chance.randbytes(chance.randint(1, 64)) + snapshot[place:]


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_query, make_session])
def test_none_of_400_damaged_snapshots_is_restored(make: Callable[[], sash.Query | sash.Session]) -> None:
    snapshot, chance = taken(make()), random.Random(7)
    for _ in range(400):
        with pytest.raises(SourceError, match="damaged"):
            make().restore(damaged(snapshot, chance))


def test_a_query_that_refused_a_snapshot_goes_on_as_before() -> None:
    query, other = make_query(), make_query()
    snapshot = taken(query)
    taken(other)
    with pytest.raises(SourceError, match="its checksum does not fit its content"):
        other.restore(snapshot[:-1])
    assert other.push("readings", READINGS.slice(3)).equals(query.push("readings", READINGS.slice(3)))


def test_a_snapshot_of_a_newer_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "VERSION", snapshots.VERSION + 1)
    snapshot = taken(make_query())
    monkeypatch.undo()
    with pytest.raises(SourceError) as error:
        make_query().restore(snapshot)
    assert str(error.value) == (
        f"the snapshot has version {snapshots.VERSION + 1}, and this Sash reads version {snapshots.VERSION}; "
        "restore it with the Sash that it was taken with"
    )


def test_a_snapshot_of_another_query_or_of_a_session_is_named() -> None:
    with pytest.raises(SourceError, match="the snapshot belongs to another query"):
        make_query("SELECT k FROM readings [RANGE 3 SECONDS]").restore(taken(make_query()))
    with pytest.raises(SourceError, match="was taken of a session; restore it there, not into a query"):
        make_query().restore(taken(make_session()))
    with pytest.raises(SourceError, match="was taken of a query; restore it there, not into a session"):
        make_session().restore(taken(make_query()))


@pytest.mark.parametrize("bad", [b"", pickle.dumps((1, 2, 3)), "text", None])
def test_what_is_no_snapshot_is_named(bad: bytes) -> None:
    with pytest.raises(SourceError, match=r"no snapshot|a snapshot is bytes"):
        make_query().restore(bad)
