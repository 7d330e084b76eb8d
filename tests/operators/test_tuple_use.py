"""How many tuples operators work on at once follows from what they make of them."""

from __future__ import annotations

import sash
from sash.operators.tuple_use import use_of
from sash.store.bites import Use
from sash.testing import stream_of

ROWS = stream_of("""
ts | k | v
1  | 1 | 1
""")


def use_of_query(text: str) -> Use:
    frames = {name: sash.stream(ROWS, time="ts", slack="5 us") for name in "ab" if f"{name} {name.upper()}" in text}
    return use_of(operator for _, operator in sash.query(text, **frames).operators())


def test_joins_keep_in_pieces_unless_something_keeps_all() -> None:
    assert use_of_query("SELECT A.v FROM a A WINDOW 5 us") is Use.PASSED_ON
    join = "FROM a A, b B WHERE A.k = B.k"
    assert use_of_query(f"SELECT A.v, B.v AS w {join} WINDOW 5 us") is Use.KEPT_IN_PIECES
    assert use_of_query(f"SELECT A.v, B.v AS w {join} WINDOW 5 us EMIT CHANGES") is Use.KEPT
    assert use_of_query(f"SELECT A.v, COUNT(*) AS n {join} GROUP BY A.v WINDOW 5 us") is Use.KEPT
