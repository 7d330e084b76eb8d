"""After a long pause the clock moves bit by bit: what has piled up comes out in parts of bounded size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from sash.operators import pacing
from sash.testing import assert_changes

N_ROWS = 50_000
LIMIT = 1 << 10


@pytest.mark.slow
@pytest.mark.parametrize("hint", ["", "/*+ nta */ "])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT {}k, count(*) AS n FROM s GROUP BY k WINDOW 1 SECOND",
        "SELECT {}DISTINCT k FROM s WINDOW 1 SECOND EMIT CHANGES",
        "SELECT {}k FROM s WINDOW 1 SECOND EMIT CHANGES",
        "SELECT {}k FROM s EXCEPT ALL SELECT k FROM s WHERE k < 0 WINDOW 1 SECOND EMIT CHANGES",
    ],
    ids=["group by", "distinct", "expire", "except all"],
)
def test_a_pause_ends_in_parts(query: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "N_PACED", LIMIT)
    rows = pa.table({"ts": np.arange(N_ROWS), "k": np.arange(N_ROWS)})
    running = sash.query(query.format(hint), s=sash.stream(rows.slice(0, 0), "ts", "0 us"))
    before = running.push("s", rows)
    after = running.advance(10_000_000)
    assert before.num_rows >= N_ROWS - 1
    assert after.num_rows >= N_ROWS
    assert max(batch.num_rows for batch in after.to_batches()) <= 3 * LIMIT
    assert running.n_state_rows == 0


def test_what_expires_at_one_instant_comes_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "N_PACED", LIMIT)
    rows = pa.table({"ts": np.zeros(N_ROWS, np.int64), "k": np.arange(N_ROWS)})
    running = sash.query("SELECT k FROM s WINDOW 1 SECOND EMIT CHANGES", s=sash.stream(rows.slice(0, 0), "ts", "0 us"))
    running.push("s", rows)
    assert running.advance(10_000_000).filter(pc.field("_op") < 0).num_rows == N_ROWS


def test_rows_that_end_a_pause_come_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there from the first bit of the clock on, and are not brought in again with every other one."""
    monkeypatch.setattr(pacing, "N_PACED", 4)
    rows = pa.table({"ts": [*range(20), 5_000_000, 5_000_001], "k": range(22)})
    running = sash.query("SELECT k FROM s WINDOW 1 SECOND EMIT CHANGES", s=sash.stream(rows.slice(0, 0), "ts", "0 us"))
    changes = pa.concat_tables(
        [running.push("s", rows.slice(0, 20)), running.push("s", rows.slice(20)), running.finish()]
    )
    for sign in (1, -1):
        assert changes.filter(pc.field("_op") == sign)["k"].to_pylist() == list(range(22 if sign > 0 else 20))


def test_queries_that_share_a_join_see_what_expires_before_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of a shared join come to its queries as the clock reaches them, bit by bit, as they come to one alone."""

    def rows_of(seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        return pa.table(
            {"k": rng.integers(0, 3, 300), "v": rng.integers(0, 5, 300), "ts": np.sort(rng.integers(0, 1000, 300))}
        )

    frames = {name: sash.stream(rows_of(seed), "ts") for seed, name in enumerate("ab")}
    text = "SELECT A.v, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.v WINDOW {} MICROSECONDS"
    expected = {name: sash.sql(text.format(window), **frames) for name, window in (("long", 50), ("short", 30))}
    monkeypatch.setattr(pacing, "N_PACED", 16)
    session = sash.Session()
    for name, frame in frames.items():
        session.stream(name, frame.frame, time="ts")
    for name, window in (("long", 50), ("short", 30)):
        session.query(name, text.format(window))
    for name, changes in session.run().items():
        assert_changes(changes, expected[name])
