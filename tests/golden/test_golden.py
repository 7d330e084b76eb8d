"""Every golden case as a user would run it, and again under hostile settings: the answer must never change.

What the files look like is said in conftest.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

import sash
from sash.index import circular_buckets, hash_index, join_index, key_tables, multiway_index, probe_index
from sash.index.circular_buckets import CircularBuckets
from sash.operators import join_methods
from sash.store import keys
from sash.store.block_log import BlockLog
from sash.testing import assert_snapshot


def whole_tables(case) -> Iterator[tuple[str, pa.Table]]:
    """Each stream in one batch."""
    yield from ((name, stream.frame) for name, stream in case.streams.items())


def rows_stream_by_stream(case) -> Iterator[tuple[str, pa.Table]]:
    """One row at a time; a stream begins when the one before it has ended."""
    for name, table in whole_tables(case):
        yield from ((name, table.slice(row, 1)) for row in range(table.num_rows))


def rows_round_robin(case) -> Iterator[tuple[str, pa.Table]]:
    """One row at a time, from each stream in turn."""
    batches = ([(name, table.slice(row, 1)) for row in range(table.num_rows)] for name, table in whole_tables(case))
    for turn in zip_longest(*batches):
        yield from filter(None, turn)


def go_on(query: sash.Query, case) -> sash.Query:
    """The same query."""
    return query


def restart_from_snapshot(query: sash.Query, case) -> sash.Query:
    """Another query that takes over where this one stands."""
    fresh = start(case)
    fresh.restore(query.snapshot())
    return fresh


class RestartFromJournal:
    """Like `restart_from_snapshot`, but the state comes from a store that was told of changes only, as on Spark."""

    def __init__(self) -> None:
        self._store: dict[str, bytes] = {}

    def __call__(self, query: sash.Query, case) -> sash.Query:
        puts, deletes = query._job.pipeline.take_changes()
        self._store.update(puts)
        for key in deletes:
            del self._store[key]
        fresh = start(case)
        fresh._job.pipeline.restore(self._store, query._job.pipeline.registers())
        fresh._intake.import_state(query._intake.export_state())
        return fresh


def start(case) -> sash.Query:
    """The case's query before its first row; it is planned only once."""
    if not hasattr(case, "plan"):
        query = sash.query(case.sql, **case.frames)
        case.plan = query.plan
        return query
    return sash.Query(case.plan, {name.lower(): each.frame for name, each in case.relations.items()})


def run_case(case, batches: Callable = whole_tables, between: Callable = go_on) -> tuple[pa.Table, dict[str, pa.Table]]:
    """The changes and the late rows of a case fed batch by batch."""
    query = start(case)
    changes = []
    for name, batch in batches(case):
        changes.append(query.push(name, batch))
        query = between(query, case)
    if case.advance_us is not None:
        changes.append(query.advance(case.advance_us))
    changes.append(query.finish())
    late = {name: stream.frame.slice(0, 0) for name, stream in case.streams.items()}
    late |= {name: pa.concat_tables([late[name], *query.late[name.lower()]]) for name in case.streams}
    return pa.concat_tables(changes), late


def test_golden(case, request: pytest.FixtureRequest) -> None:
    text = case.render(*run_case(case))
    if request.config.getoption("--rewrite-goldens", default=False):
        case.rewrite(text)
    else:
        assert text == case.text


def test_sql_gives_the_golden_answer(case) -> None:
    if case.advance_us is not None:
        pytest.skip("sash.sql ends with the last row")
    if "late " in case.expected:
        with pytest.warns(sash.SashWarning, match="came later than its slack allows"):
            changes = sash.sql(case.sql, **case.frames)
    else:
        changes = sash.sql(case.sql, **case.frames)
    assert case.render_answer(changes, {}) == case.expected.split("\n\n")[0]
    # What is final is no answer at an instant; `tests/laws/test_emit_final.py` asks DuckDB for it.
    if "EMIT FINAL" not in case.sql and not any(pa.types.is_nested(field.type) for field in changes.schema):
        assert_snapshot(case.sql, changes, **case.frames)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [rows_round_robin, rows_stream_by_stream])
def test_rows_one_at_a_time(case, batches: Callable) -> None:
    assert case.render_answer(*run_case(case, batches)) == case.expected


def test_restart_from_snapshot_after_every_batch(case) -> None:
    assert case.render_answer(*run_case(case, rows_round_robin, restart_from_snapshot)) == case.expected


@pytest.mark.slow
def test_restart_from_journal_after_every_batch(case) -> None:
    assert case.render_answer(*run_case(case, rows_round_robin, RestartFromJournal())) == case.expected


@pytest.mark.slow
def test_all_rows_in_one_bucket(case, monkeypatch: pytest.MonkeyPatch) -> None:
    """And room for one pair, or combination, at a time; in a join of many, turns of single rows."""
    init = CircularBuckets.__init__
    monkeypatch.setattr(CircularBuckets, "__init__", lambda self, sides, _=None, *args: init(self, sides, 1, *args))
    monkeypatch.setattr(join_methods, "HashIndex", type("OneBucket", (CircularBuckets,), {}))
    monkeypatch.setattr(join_index, "PAIRS_PER_CHUNK", 1)
    monkeypatch.setattr(multiway_index, "COMBINATIONS_PER_CHUNK", 1)
    monkeypatch.setattr(probe_index, "ROWS_PER_TURN", 1)
    monkeypatch.setattr(probe_index, "MIN_ROWS_PER_TURN", 1)
    assert case.render_answer(*run_case(case, rows_round_robin)) == case.expected


@pytest.mark.slow
def test_all_hashes_collide(case, monkeypatch: pytest.MonkeyPatch) -> None:
    """And buckets that are too few, in a log that is rewritten whenever a row has died."""
    monkeypatch.setattr(keys, "hash_rows", lambda arrays: np.zeros(len(arrays[0]), np.uint64))
    monkeypatch.setattr(circular_buckets, "FIRST_BUCKETS", 1)
    monkeypatch.setattr(hash_index, "FIRST_SLOTS", 1)
    monkeypatch.setattr(key_tables, "FIRST_SLOTS", 1)
    monkeypatch.setattr(BlockLog, "is_sparse", property(lambda log: any(block.n_dead for block in log.blocks)))
    assert case.render_answer(*run_case(case, rows_round_robin)) == case.expected


@pytest.mark.slow
def test_without_numba() -> None:
    """Numba wraps 64-bit products silently; plain NumPy says so in a warning."""
    quiet = "ignore:overflow encountered:RuntimeWarning"
    some = f"{__file__}::{test_golden.__name__}"
    which = str(Path(__file__).parent) if settings.get_current_profile_name() == "deep" else some
    command = [sys.executable, "-m", "pytest", which, "-m", "not slow", "-W", quiet]
    done = subprocess.run(command, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
