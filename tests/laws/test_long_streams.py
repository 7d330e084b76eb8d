"""Laws 1, 2, 4 and 7 where volume matters: blocks die, logs are compacted, buckets grow, arrays are moved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.frames import Stream
from sash.sql.bound_query import BoundQuery
from sash.testing import Case, Push, assert_changes, expected_changes
from sash.testing.case import Step
from support.bound import DeclaredState

N_ROWS, N_KEYS = 400, 20
QUERIES = {
    "time": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 64 us",
    "time, changes": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k AND A.v < B.v WINDOW 64 us EMIT CHANGES",
    "nested loops": "SELECT /*+ wnl */ A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 64 us EMIT CHANGES",
    "rows": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k AND A.v < B.v WINDOW 90 ROWS",
    "rows and time": "SELECT A.v, B.v AS w FROM a A [ROWS 70], b B [RANGE 64 us] WHERE A.k = B.k EMIT CHANGES",
    "partitions": "SELECT A.v, B.v AS w FROM a A [PARTITION BY k ROWS 3], b B [PARTITION BY v ROWS 1] WHERE A.k = B.k",
    "three": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.k = B.k AND C.k = A.k WINDOW 30 us",
    "three kinds": "SELECT A.v, B.v AS w FROM a A [RANGE 64 us], b B [ROWS 30], a C [RANGE 20 us] "
    "WHERE A.k = B.k AND A.k = C.k EMIT CHANGES",
    "pairs": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.k = B.k AND C.k = A.k "
    "WINDOW (A, B) = 64 us AND DWINDOW (B, C) = 20 us",
    "pairs without keys": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.v - B.v BETWEEN -1 AND 1 DWINDOW (A, B) = 9 us "
    "EMIT CHANGES",
    "pairs and two keys": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.k = B.k AND B.v = C.v "
    "DWINDOW (A, B) = 20 us AND DWINDOW (B, C) = 5 us AND WINDOW (A, C) = 64 us",
    "one": "SELECT v FROM a [PARTITION BY k ROWS 3] WHERE v > 2",
}


def make_stream(rng: np.random.Generator, n_rows: int, n_keys: int) -> Stream:
    """Rows about a microsecond apart, in bursts and pauses, up to 5 microseconds late."""
    ts = np.cumsum(rng.choice([0, 1, 2, 40], n_rows, p=[0.3, 0.5, 0.19, 0.01]))
    arrival = np.argsort(ts + rng.integers(0, 6, n_rows), kind="stable")
    columns = {"ts": ts[arrival], "k": rng.integers(0, n_keys, n_rows), "v": rng.integers(0, 10, n_rows)}
    return sash.stream(pa.table(columns), time="ts", slack="5 us")


def cut_in_step(case: Case, rng: np.random.Generator, n_cuts: int) -> list[Step]:
    """Batches of all streams, so that none runs far ahead of the others."""
    steps: list[Step] = []
    done = dict.fromkeys(case.arrivals, 0)
    for share in [*np.sort(rng.random(n_cuts)), 1.0]:
        for name, table in case.arrivals.items():
            stop = max(done[name], int(share * table.num_rows))
            steps.append(Push(name, done[name], stop))
            done[name] = stop
    return steps


def check_laws(case: Case, steps: list[Step]) -> None:
    assert isinstance(case.bound, BoundQuery)
    expected = expected_changes(case.bound, case.tables)
    assert_changes(case.run(), expected)
    restarted, _ = case.replay(steps, restart_after=range(5, len(steps), 11))
    assert_changes(restarted, expected)
    running, declared, changes = case.start(), DeclaredState(case), []
    for step in steps:
        declared.arrive(step)
        changes.append(case.take(running, step))
        assert running.n_state_rows <= declared.n_rows(running.clock)
    assert_changes(pa.concat_tables([*changes, running.finish()]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_long_streams(name: str) -> None:
    rng = np.random.default_rng(len(name))
    case = Case(QUERIES[name], {stream: make_stream(rng, N_ROWS, N_KEYS) for stream in "ab"})
    check_laws(case, cut_in_step(case, rng, 50))


@pytest.mark.slow
def test_many_tuples_in_the_window() -> None:
    rng = np.random.default_rng(0)
    frames: Mapping = {stream: make_stream(rng, 8000, 3000) for stream in "ab"}
    text = "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 4 ms"
    case = Case(text, frames)
    check_laws(case, cut_in_step(case, rng, 20))
