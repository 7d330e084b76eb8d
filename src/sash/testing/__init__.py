"""For your own tests of queries: streams as text, the meaning of a query in plain Python, and the snapshot law.

    changes = sash.sql(text, a=a, b=b)
    assert_snapshot(text, changes, a=a, b=b)

Hypothesis strategies for whole queries with their input are in `sash.testing.strategies`.
"""

from __future__ import annotations

from sash.oracle.answers import answer_at
from sash.oracle.literals import draw, stream_of
from sash.oracle.reference import evaluate, expected_changes
from sash.oracle.snapshot_law import assert_changes, assert_snapshot, bind_frames, interesting_instants, snapshot
from sash.testing.case import Advance, Case, Push

__all__ = [
    "Advance",
    "Case",
    "Push",
    "answer_at",
    "assert_changes",
    "assert_snapshot",
    "bind_frames",
    "draw",
    "evaluate",
    "expected_changes",
    "interesting_instants",
    "snapshot",
    "stream_of",
]
