"""Windows on disk, and a disk that is full, damaged, or left by a process that dies, at any operation.

killed     at every open, write, fsync, rename, mkdir and unlink of the spill directory: what was published is a part
           of the answer, the next run gives all of it, and removes what the dead process has left
full       an error with the directory and the size; nothing of the step is taken, and it goes on when there is room
damaged    an error that names the file, or the right answer; never a wrong row
"""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from tests.faults.conftest import Done, Place, is_deep
from tests.faults.killed_runs import killed_runs
from tests.faults.killed_spills import COMMAND
from tests.faults.spill_operations import SpillOperations

import sash
from sash.store.segment import WindowSegment
from sash.testing import assert_changes

T = TypeVar("T")
N_FILES, ROWS_PER_FILE, N_KEYS = 5, 40, 5
SCRIPT = """CREATE STREAM a (k INT, v INT, s VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts FROM 'a' FORMAT csv;
CREATE STREAM b (k INT, v INT, s VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts FROM 'b' FORMAT csv;
CREATE QUERY q AS SELECT A.k, A.v, B.s FROM a A, b B WHERE A.k = B.k WINDOW 70 SECONDS INTO 'out/q' FORMAT csv;
"""
TAKING_ROOM = ("write", "posix_fallocate")
TEXT = "SELECT A.k, A.v, B.s FROM a A, b B WHERE A.k = B.k WINDOW 70 MILLISECONDS"
COUNTED = "SELECT A.k, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.k WINDOW 40 MILLISECONDS"
EXCEPT = " EXCEPT ".join(f"SELECT k, v, s FROM {name} [RANGE 70 MILLISECONDS]" for name in "ab")
Published = dict[str, bytes]
Pushed = tuple[str, pa.Table]


def sampled(places: Sequence[T], n_places: int = 12) -> Sequence[T]:
    """All if tests are asked for volume; otherwise so many, from the first to the last."""
    if is_deep() or len(places) <= n_places:
        return places
    return [places[round(at)] for at in np.linspace(0, len(places) - 1, n_places)]


@pytest.fixture
def spill(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the windows go of a script whose input there is."""
    monkeypatch.setenv("SASH_SPILL", str(place.root / "spill"))
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # a process that dies takes nothing from the disk
    Path("script.sql").write_text(SCRIPT)
    for stream in "ab":
        Path(stream).mkdir()
        for number in range(N_FILES):
            path, arrived = Path(stream, f"{number}.csv"), 1000 + 2 * number + (stream == "b")
            path.write_text("".join(["k,v,s,ts\n", *_lines(stream, number)]))
            os.utime(path, (arrived, arrived))
    return place.root / "spill"


def _lines(stream: str, number: int) -> Iterator[str]:
    for row in range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE):
        time = f"2026-01-01 00:{row // 60:02d}:{row % 60:02d}"
        yield f"{_key(stream, row)},{row},row {row} of {stream},{time}\n"


def _key(stream: str, row: Any) -> Any:
    return (row * 7 + (stream == "b")) % N_KEYS


@pytest.fixture
def command(spill: Path, sash: Callable[..., Done]) -> Callable[..., Done]:
    """Runs the script in this process, with little memory."""
    return lambda *options: sash(*COMMAND, *options)


def published() -> Published:
    """By name of its batch, what any reader would find in the output."""
    files = sorted(Path("out/q").glob("batch=*/*"))
    found: Published = {}
    for path in files:
        found[path.parent.name] = found.get(path.parent.name, b"") + path.read_bytes()
    return found


def undisturbed(spill: Path, command: Callable[..., Done]) -> tuple[Published, list[str]]:
    """The whole answer, and what was done in the spill directory for it."""
    operations = SpillOperations(spill)
    with operations.watched():
        assert command("--fresh").code == 0
    assert list(spill.iterdir()) == []
    assert {"mkdir", "open", "write", "fsync", "rename", "unlink"} <= set(operations.seen)
    assert operations.seen.count("rename") > 8, "segments are written all the time"
    spill.rmdir()
    return published(), operations.seen


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_process_that_is_killed_at_any_operation(spill: Path, command: Callable[..., Done]) -> None:
    whole, operations = undisturbed(spill, command)
    n_left = 0
    with killed_runs(Path(), "killed_spills") as killed:
        for at in sampled(range(len(operations))):
            assert killed.run(at, is_fresh=True) == -signal.SIGKILL, (at, operations[at])
            assert published().items() <= whole.items(), (at, operations[at])
            n_left += len(list(spill.iterdir())) if spill.exists() else 0
            assert command("--fresh").code == 0
            assert published() == whole, (at, operations[at])
            assert list(spill.iterdir()) == [], (at, operations[at])
            spill.rmdir()
    assert n_left


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_lasting", [False, True], ids=["for a moment", "for good"])
def test_a_disk_that_is_full_at_any_write(spill: Path, command: Callable[..., Done], is_lasting: bool) -> None:
    """A run goes on if there is room in the next step; otherwise it ends with the directory and the size."""
    whole, operations = undisturbed(spill, command)
    n_refused = 0
    for at in sampled([number for number, operation in enumerate(operations) if operation in TAKING_ROOM]):

        def is_wrong(number: int, operation: str, at: int = at) -> bool:
            return operation in TAKING_ROOM and (number >= at if is_lasting else number == at)

        with SpillOperations(spill, is_wrong).watched():
            done = command("--fresh")
        gc.collect()  # what an error still holds
        assert not list(spill.iterdir())
        if done.code:
            n_refused += 1
            assert done.is_refused
            assert re.search(rf"no room for .*window in `{spill}`: No space left on device", done.said)
            assert re.search(r"\d+ bytes of a (file|window)", done.said)
            assert published().items() <= whole.items()
            assert command("--fresh").code == 0
        assert published() == whole, at
    assert bool(n_refused) == is_lasting


def rows_of(stream: str) -> pa.Table:
    numbers = np.arange(N_FILES * ROWS_PER_FILE)
    strings = [f"row {number} of {stream}" for number in numbers]
    times = pa.array(1000 * numbers, pa.timestamp("us"))
    return pa.table({"k": _key(stream, numbers), "v": numbers, "s": strings, "ts": times})


ROWS = {"a": rows_of("a"), "b": rows_of("b")}


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Little memory for what starts now, and where the rest goes."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    sash.configure(memory="16k", spill=tmp_path / "spill")
    yield tmp_path / "spill"
    sash.configure()


def pushes(rows_per_push: int = ROWS_PER_FILE) -> Iterator[Pushed]:
    for first in range(0, N_FILES * ROWS_PER_FILE, rows_per_push):
        yield from ((name, rows.slice(first, rows_per_push)) for name, rows in ROWS.items())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("text", [TEXT, EXCEPT], ids=["join", "traces"])
def test_a_query_goes_on_when_there_is_room(text: str, limited: Path) -> None:
    """At any write: the step that is refused has changed nothing, and is pushed again."""
    sash.configure(memory="24k", spill=limited)
    operations = SpillOperations(limited)
    with operations.watched():
        expected = pa.concat_tables([*_pushed(sash.query(text, **ROWS), list(pushes()))])
    n_refused = 0
    for at in sampled([number for number, operation in enumerate(operations.seen) if operation in TAKING_ROOM]):
        running, steps, changes = sash.query(text, **ROWS), list(pushes()), []
        full = SpillOperations(limited, lambda number, operation, at=at: operation in TAKING_ROOM and number >= at)
        with full.watched():
            with suppress(sash.ResourceError):
                for name, rows in steps:
                    changes.append(running.push(name, rows))
            if len(changes) < len(steps):
                before = running.n_read, running.clock, running.n_state_rows
                with pytest.raises(sash.ResourceError, match=rf"no room for .*window in `{limited}`: No space left"):
                    running.push(*steps[len(changes)])
                assert (running.n_read, running.clock, running.n_state_rows) == before
                n_refused += 1
        changes += _pushed(running, steps[len(changes) :])
        assert_changes(pa.concat_tables(changes), expected)
        del running
        assert not list(limited.iterdir())
    assert n_refused


def _pushed(running: sash.Query, steps: Sequence[Pushed]) -> list[pa.Table]:
    return [*(running.push(name, rows) for name, rows in steps), running.finish()]


def flip(kind: str, segment: WindowSegment) -> bool:
    """Changes a bit in the middle of the first page of a kind; whether the segment has such a page."""
    page_bytes = segment.files.settings.page_bytes
    if kind == "payload":
        first = int(segment.guide.read().starts[0])
    else:
        region = getattr(segment.regions, kind)
        if region is None:
            return False
        first = region.first_page * page_bytes
    path = segment.files.directory / segment.name
    content = bytearray(path.read_bytes())
    content[first + min(page_bytes, len(content) - first) // 2] ^= 8  # the last page is as long as what is in it
    path.write_bytes(content)
    return True


def lose(kind: str, segment: WindowSegment) -> bool:
    (segment.files.directory / segment.name).unlink()
    return True


def live_segments(session: sash.Session) -> list[WindowSegment]:
    operators = [operator for job in session._running().jobs for _, operator in job.pipeline.operators()]
    return [segment for operator in operators for log in operator.logs().values() for segment in log.segments]


def open_session() -> sash.Session:
    session = sash.Session()
    for name, rows in ROWS.items():
        session.stream(name, rows.schema)
    session.query("joined", TEXT)
    session.query("counted", COUNTED)
    return session


def of_kind(kind: str, segments: list[WindowSegment]) -> list[WindowSegment]:
    """Those that have such pages; rows that only wait for the clock have no keys or labels on disk."""
    return [each for each in segments if getattr(each.regions, kind, True) is not None]


DAMAGES = {
    **{f"a flipped bit in {kind}": (flip, kind) for kind in ("keys", "origins", "labels", "payload")},
    "a segment that is gone": (lose, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment_gives_no_wrong_row(limited: Path, damage: str) -> None:
    """Between any two steps of a session, one segment of those that are there: its rows are asked for, or it just goes.

    Whoever takes a snapshot reads all of it.
    """
    apply, kind = DAMAGES[damage]
    session, steps = open_session(), list(pushes())
    expected: dict[str, list[dict]] = {"joined": [], "counted": []}
    n_live = []
    for name, rows in steps:
        for query, changes in session.push(name, rows).items():
            expected[query] += changes.to_pylist()
        n_live.append(len(of_kind(kind, live_segments(session))))
    assert max(n_live) > 4
    n_told = 0
    for at in sampled([number for number, n_segments in enumerate(n_live[:-1]) if n_segments], 3):
        for place in (0, n_live[at] - 1):
            session, got = open_session(), {query: [] for query in expected}
            _take(session, steps[: at + 1], got)
            segment = of_kind(kind, live_segments(session))[place]
            assert apply(kind, segment)
            told = _refusal(session, steps[at + 1 :], got)
            assert told is None or f"{limited}/{segment.name}" in told
            n_told += told is not None
            for query, rows in got.items():
                assert rows == expected[query][: len(rows)], (at, query)
    assert n_told


def _refusal(session: sash.Session, steps: Sequence[Pushed], got: dict[str, list[dict]]) -> str | None:
    """Why a session does not go on; None if it does."""
    try:
        _take(session, steps[:1], got)
        session.snapshot()
        _take(session, steps[1:], got)
    except sash.SashError as error:
        return str(error)
    return None


def _take(session: sash.Session, steps: Sequence[Pushed], got: dict[str, list[dict]]) -> None:
    for name, rows in steps:
        for query, changes in session.push(name, rows).items():
            got[query] += changes.to_pylist()
