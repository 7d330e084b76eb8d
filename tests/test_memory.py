"""Queries under a limit on memory, as users run them: the same answer, files that come and go, and what goes wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.operators.window_join import WindowJoin
from sash.store.spill_arena import SpillArena
from sash.store.spill_pages import PageWriter
from sash.testing import assert_changes

N_ROWS, N_KEYS, ROWS_PER_PUSH = 3000, 500, 250
TEXT = "SELECT A.k, A.v, B.s FROM a A, b B WHERE A.k = B.k WINDOW 1500 MILLISECONDS"


def rows_of(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = pa.array(1000 * np.arange(N_ROWS), pa.timestamp("us"))
    strings = pa.array([f"row {number} of {seed}" for number in range(N_ROWS)])
    return pa.table({"k": rng.integers(0, N_KEYS, N_ROWS), "v": np.arange(N_ROWS), "s": strings, "ts": times})


ROWS = {"a": rows_of(1), "b": rows_of(2)}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    yield
    sash.configure()


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    return sash.sql(TEXT, **ROWS)


def start(spill: Path, memory: str = "200k") -> sash.Query:
    sash.configure(memory=memory, spill=spill)
    return sash.query(TEXT, **ROWS)


def pushes(n_rows: int = ROWS_PER_PUSH) -> Iterator[tuple[str, pa.Table]]:
    for first in range(0, N_ROWS, n_rows):
        yield from ((name, rows.slice(first, n_rows)) for name, rows in ROWS.items())


def test_the_answer_is_the_same_and_no_file_is_left(tmp_path: Path, expected: pa.Table) -> None:
    running, n_files = start(tmp_path), []
    changes = []
    for name, rows in pushes():
        changes.append(running.push(name, rows))
        n_files.append(len(list(tmp_path.iterdir())))
    changes.append(running.finish())
    assert_changes(pa.concat_tables(changes), expected)
    assert max(n_files) > 4
    del running
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_while_windows_fit(tmp_path: Path, expected: pa.Table) -> None:
    running = start(tmp_path / "not there", "64m")
    changes = [running.push(name, rows) for name, rows in pushes()]
    assert_changes(pa.concat_tables([*changes, running.finish()]), expected)
    assert not (tmp_path / "not there").exists()


def arenas_of(running: sash.Query) -> list[SpillArena]:
    """Where the windows of its joins are."""
    joins = [operator for _, operator in running.operators() if isinstance(operator, WindowJoin)]
    arenas = [join._finder.windows[0].arena for join in joins]
    return [arena for arena in arenas if isinstance(arena, SpillArena)]


def test_few_rows_at_a_time_are_sealed_as_many_are(tmp_path: Path, expected: pa.Table) -> None:
    """Heads are not left to grow into mapped files because each step has hardly any rows."""
    running, changes, n_segments = start(tmp_path, "400k"), [], []
    for name, rows in pushes(20):
        changes.append(running.push(name, rows))
        n_segments.append(len([each for each in tmp_path.rglob("*") if each.is_file()]))
        assert [each.n_file_bytes for each in arenas_of(running)] == [0]
    assert max(n_segments) > 4
    assert_changes(pa.concat_tables([*changes, running.finish()]), expected)


def test_a_session_shares_a_limit(tmp_path: Path, expected: pa.Table) -> None:
    sash.configure(spill=tmp_path)
    session = sash.Session(memory="200k")
    for name, rows in ROWS.items():
        session.stream(name, rows)
    session.query("joined", TEXT)
    session.query("counted", "SELECT A.k, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.k WINDOW 1 SECOND")
    changes = session.run()
    assert_changes(changes["joined"], expected)
    sash.configure()
    assert_changes(
        changes["counted"],
        sash.sql("SELECT A.k, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.k WINDOW 1 SECOND", **ROWS),
    )


def test_a_full_disk_is_told_before_the_next_rows_are_taken(
    tmp_path: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are answered as long as they fit; then nothing is taken until there is room again."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    running, steps = start(tmp_path), list(pushes())
    changes = [running.push(name, rows) for name, rows in steps[:8]]
    with monkeypatch.context() as full:
        full.setattr(PageWriter, "_flush", refuse)
        full.setattr(os, "posix_fallocate", refuse)
        rest = (running.push(name, rows) for name, rows in steps[8:])
        with pytest.raises(sash.ResourceError, match=f"no room for a window in `{tmp_path}`: No space left"):
            changes.extend(rest)
        before = running.n_read, running.clock, running.n_state_rows
        with pytest.raises(sash.ResourceError, match="make room there"):
            running.push(*steps[len(changes)])
        assert (running.n_read, running.clock, running.n_state_rows) == before
    assert 8 < len(changes) < len(steps)
    changes += [running.push(name, rows) for name, rows in steps[len(changes) :]]
    assert_changes(pa.concat_tables([*changes, running.finish()]), expected)


@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone"])
def test_a_damaged_file_is_told_by_name(tmp_path: Path, expected: pa.Table, damage: str) -> None:
    """Never a wrong row."""
    running, steps = start(tmp_path), list(pushes())
    changes = [running.push(name, rows) for name, rows in steps[:14]]
    for path in tmp_path.iterdir():
        content = bytearray(path.read_bytes())
        if damage == "gone":
            path.unlink()
        else:
            content[len(content) // 3] ^= 4
            path.write_bytes(content if damage == "flipped" else content[: len(content) // 3])
    with pytest.raises(sash.SashError, match=f"{tmp_path}/sash-spill-"):
        changes += [running.push(name, rows) for name, rows in steps[14:]]
    got = pa.concat_tables(changes)
    assert set(map(str, got.to_pylist())) <= set(map(str, expected.to_pylist()))


PEAK = """
import json, sys, threading, time
import numpy as np, pyarrow as pa, sash

def resident():
    facts = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return sum(int(facts[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024

memory, n_rows, rows_per_push = int(sys.argv[1]), int(sys.argv[2]), 20_000
filler = pa.array(["x" * 100] * rows_per_push)
rng = np.random.default_rng(1)

def part(first):
    times = pa.array(1000 * (first + np.arange(rows_per_push)), pa.timestamp("us"))
    return pa.table({"k": rng.integers(0, n_rows, rows_per_push), "s": filler, "ts": times})

TEXT = "SELECT A.k, A.s, B.s AS other FROM a A, b B WHERE A.k = B.k WINDOW 1000 SECONDS"
sash.sql(TEXT, a=part(0), b=part(0))
sash.configure(memory=max(memory, 1 << 14), spill=sys.argv[3])
sash.sql(TEXT, a=part(0), b=part(0))
running = sash.query(TEXT, a=part(0), b=part(0))
idle, peak, is_over = resident(), 0, False

def watch():
    global peak
    while not is_over:
        peak = max(peak, resident())
        time.sleep(0.02)

watching = threading.Thread(target=watch)
watching.start()
n_changes = 0
for first in range(0, n_rows, rows_per_push):
    for name in "ab":
        n_changes += running.push(name, part(first)).num_rows
is_over = True
watching.join()
print(json.dumps({"above_idle": peak - idle, "n_changes": n_changes, "n_bytes": running.n_state_bytes}))
"""


@pytest.mark.slow
def test_memory_stays_within_the_limit(tmp_path: Path) -> None:
    """Rows of ten times the limit, and twice that with what an index takes; 150 MiB are for Python and a step."""
    memory, n_rows = 16 << 20, 700_000
    command = [sys.executable, "-c", PEAK, str(memory), str(n_rows), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["n_bytes"] > 10 * memory
    assert facts["n_changes"] > n_rows // 2
    assert facts["above_idle"] <= memory + (150 << 20)
    assert list(tmp_path.iterdir()) == []
