"""Queries under a limit on memory, as users run them: the same answer, files that come and go, and what goes wrong."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.operators.node import Node
from sash.operators.operator_tree import OperatorTree
from sash.operators.reorder import Reorder
from sash.operators.window_join import WindowJoin
from sash.store.block_log import BlockLog
from sash.store.spill_arena import SpillArena
from sash.store.spill_pages import PageWriter
from sash.testing import assert_changes
from support.memory_peaks import measure_peak

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_few_rows_at_a_time_are_sealed_as_many_are(tmp_path: Path, expected: pa.Table) -> None:
    """Heads are not left to grow into mapped files because each step has hardly any rows."""
    running, changes, n_segments = start(tmp_path, "400k"), [], []
    for name, rows in pushes(20):
        changes.append(running.push(name, rows))
        n_segments.append(len([each for each in tmp_path.rglob("*") if each.is_file()]))
        assert [each.n_file_bytes for each in arenas_of(running)] == [0]
    assert max(n_segments) > 4
    assert_changes(pa.concat_tables([*changes, running.finish()]), expected)


def held_by(running: sash.Query) -> list[BlockLog]:
    """What waits for the clock."""
    return [operator.logs()["held"] for _, operator in running.operators() if isinstance(operator, Reorder)]


@pytest.mark.slow
def test_an_idle_stream_does_not_fill_memory(tmp_path: Path, expected: pa.Table) -> None:
    """Rows of the other one wait on disk, as far as a snapshot and whoever goes on from it are concerned as well."""
    running = start(tmp_path, "64k")
    (arena,) = arenas_of(running)
    mapped = arena.n_file_bytes  # the arrays of windows that are empty
    changes = [running.push("a", ROWS["a"].slice(first, 250)) for first in range(0, N_ROWS, 250)]
    assert sum(table.num_rows for table in changes) == 0
    assert (arena.n_file_bytes, arena.n_bytes <= arena.budget.state_bytes) == (mapped, True)
    assert max(len(log.segments) for log in held_by(running)) > 4
    fresh = start(tmp_path / "again", "32k")
    fresh.restore(running.snapshot())
    (arena,) = arenas_of(fresh)
    assert arena.n_bytes <= arena.budget.state_bytes
    assert max(len(log.segments) for log in held_by(fresh)) > 4
    for query in (running, fresh):
        changes = [query.push("b", ROWS["b"].slice(first, 250)) for first in range(0, N_ROWS, 250)]
        assert_changes(pa.concat_tables([*changes, query.finish()]), expected)
    assert [log.n_rows for log in (*held_by(running), *held_by(fresh))] == [0] * 4
    del running, fresh, query, arena
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_an_idle_stream_does_not_fill_the_memory_of_queries_that_share_a_join(tmp_path: Path) -> None:
    """What has waited comes out bit by bit, below the join, when the clock has passed it at last."""
    texts = {"few": TEXT, "many": TEXT.replace("1500 MILLISECONDS", "1 SECOND")}
    alone = {name: sash.sql(text, **ROWS) for name, text in texts.items()}
    sash.configure(memory="128k", spill=tmp_path)
    session = sash.Session()
    for name, rows in ROWS.items():
        session.stream(name, rows.schema)
    for name, text in texts.items():
        session.query(name, text)
    assert session.explain().startswith("Shared join")
    found: dict[str, list[pa.Table]] = {name: [] for name in texts}
    for stream, rows in ROWS.items():
        for first in range(0, N_ROWS, 250):
            for name, changes in session.push(stream, rows.slice(first, 250)).items():
                found[name].append(changes)
        assert list(tmp_path.iterdir())
    for name, changes in session.finish().items():
        assert_changes(pa.concat_tables([*found[name], changes]), alone[name])


@pytest.mark.slow
def test_a_query_that_joins_later_begins_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in its windows makes far more pairs than memory has room for."""
    rows = {name: each.slice(0, 500).set_column(0, "k", pa.array(np.arange(500) % 3)) for name, each in ROWS.items()}
    sizes: list[int] = []
    process = OperatorTree.process

    def weigh(tree: OperatorTree, node: Node, inputs: list[pa.Table], clock: int) -> pa.Table:
        sizes.extend(table.nbytes for table in inputs)
        return process(tree, node, inputs, clock)

    def run(memory: str | None) -> pa.Table:
        session = sash.Session(memory=memory)
        for name, each in rows.items():
            session.stream(name, each.schema)
        text = "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k AND {} WINDOW {}"
        session.query("one", text.format("A.v + 400 < B.v", "1500 MILLISECONDS"))
        session.query("other", text.format("A.v + 400 < B.v", "1 SECOND"))
        for first in range(0, 400, 100):
            for name, each in rows.items():
                session.push(name, each.slice(first, 100))
        session.query("late", text.format("A.v < B.v + 100", "1200 MILLISECONDS"))
        assert "once for 3 queries" in session.explain()
        changes = [session.push(name, each.slice(400))["late"] for name, each in rows.items()]
        return pa.concat_tables([*changes, session.finish()["late"]])

    expected = run(None)
    monkeypatch.setattr(OperatorTree, "process", weigh)
    sash.configure(spill=tmp_path)
    assert_changes(run("256k"), expected)
    assert sum(sizes) > 1 << 20
    assert max(sizes) <= 128 << 10


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("memory", "n_window_bytes"),
    [
        pytest.param(8 << 20, 160 << 20, marks=pytest.mark.slow),
        pytest.param(64 << 20, 1280 << 20, marks=[pytest.mark.deep, pytest.mark.timeout(14_400)]),
    ],
    ids=["160 MiB in 8 MiB", "1.25 GiB in 64 MiB"],
)
def test_memory_stays_within_the_limit(tmp_path: Path, memory: int, n_window_bytes: int) -> None:
    """A window of twenty times the limit; 150 MiB are for Python and its libraries.

    Windows of 5 GiB take half an hour: `python -m support.memory_peaks 256m 20`.
    """
    found = measure_peak(memory, n_window_bytes, tmp_path)
    assert found.n_window_bytes > 19 * memory
    assert found.is_exact
    assert found.n_changes == found.n_expected > 0
    assert found.above_idle <= memory + (150 << 20)


@pytest.mark.slow
def test_a_snapshot_is_in_memory_once(tmp_path: Path) -> None:
    """What is on disk is read block by block, by whoever takes it and by whoever restores it."""
    text = "SELECT A.v, A.long, B.long AS other FROM a A, b B WHERE A.k = B.k WINDOW 1 HOUR"
    long = [rows.append_column("long", pa.array(["x" * 500] * N_ROWS)) for rows in ROWS.values()]
    frames = {name: rows.set_column(0, "k", pa.array(np.arange(N_ROWS))) for name, rows in zip(ROWS, long)}
    sash.configure(memory="200k", spill=tmp_path)
    running, fresh = sash.query(text, **frames), sash.query(text, **frames)
    for first in range(0, N_ROWS, ROWS_PER_PUSH):
        for name, rows in frames.items():
            running.push(name, rows.slice(first, ROWS_PER_PUSH))
    tracemalloc.start()
    snapshot = running.snapshot()
    _, at_most = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    n_before, _ = tracemalloc.get_traced_memory()
    fresh.restore(snapshot)
    _, while_restored = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(snapshot) > 10 * 200_000
    assert at_most < 1.5 * len(snapshot)
    assert while_restored - n_before < len(snapshot)
    assert fresh.finish().equals(running.finish())
