"""What a run counts."""

from __future__ import annotations

from sash.cli.show import _format_work
from sash.runtime.job import Tally


def state(rows_in: int, hits: int, rebuilds: int = 0) -> dict:
    """What a group tells of itself."""
    join = {"rows_in": rows_in, "rows_out": 2, "rows": 10, "blocks": 1, "bytes": 100, "ms": 3.0}
    return {
        "n_rows": 10,
        "n_bytes": 100,
        "hits": hits,
        "rebuilds": rebuilds,
        "evictions": 0,
        "kernel_ms": 3.0,
        "conversion_ms": 1.0,
        "state_ms": 2.0,
        "operators": {"0-2-WindowJoin": join},
    }


def test_work_is_added_up_and_what_is_held_is_that_of_the_last_batch() -> None:
    tally = Tally()
    tally.add_states([state(5, 0, 1), state(7, 0, 1)])
    tally.add_states([state(1, 1), state(2, 1)])
    tally.n_batches = 2
    assert (tally.n_state_rows, tally.n_state_bytes) == (20, 200)
    assert (tally.n_index_hits, tally.n_index_rebuilds, tally.n_evictions) == (2, 2, 0)
    assert tally.operators == {
        "0-2-WindowJoin": {"rows_in": 15, "rows_out": 8, "ms": 12.0, "rows": 20, "blocks": 2, "bytes": 200}
    }
    assert _format_work(tally) == "kernel 6 convert 2 state 4 ms; index 2 found, 2 rebuilt"


def test_an_engine_that_does_not_tell_shows_nothing() -> None:
    assert _format_work(Tally(n_batches=3)) == ""
