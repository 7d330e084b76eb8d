"""For your own tests of queries: streams as text, the meaning of a query in plain Python, and the snapshot law.

    changes = sash.sql(text, a=a, b=b)
    assert_snapshot(text, changes, a=a, b=b)

Hypothesis strategies for whole queries with their input are in `sash.testing.strategies`.
"""

from __future__ import annotations

from sash.testing.answers import answer_at
from sash.testing.case import Advance, Case, Push
from sash.testing.literals import draw, stream_of
from sash.testing.oracle import assert_changes, assert_snapshot, bind_frames, interesting_instants, snapshot
from sash.testing.reference import evaluate, expected_changes

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
