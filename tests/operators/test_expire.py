"""Negatives for what leaves by itself, against the lives of the tuples written down one by one.

Law: with its input, the output says of every tuple exactly once when it left, as soon as the clock has reached that.
"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.expire import Expire, ExpireSpec
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS

SCHEMA = pa.schema([*SIGNED_FIELDS, ("_id.A", pa.int64()), ("_id.B", pa.int64()), ("v", pa.string())])

Change = tuple[int, int, int, int, int]


def signed(changes: list[Change]) -> pa.Table:
    """Rows of (op, ts, expires, id of A, id of B)."""
    op, ts, expires, a, b = ([change[idx] for change in changes] for idx in range(5))
    return pa.table([ts, expires, op, a, b, [f"v{number % 2}" for number in a]], schema=SCHEMA)


def changes_of(batch: pa.Table) -> list[Change]:
    columns = (batch[name].to_pylist() for name in (OP, TS, EXPIRES, "_id.A", "_id.B"))
    return sorted(zip(*columns, strict=True), key=lambda change: (change[1], change[0], *change[2:]))


def restart(operator: Expire) -> Expire:
    fresh = Expire(operator.spec, SCHEMA)
    fresh.restore({name: log.entries() for name, log in operator.logs().items()}, operator.registers())
    return fresh


def test_a_tuple_leaves_when_the_clock_reaches_its_expiry() -> None:
    """
    clock      1    3    4    9
    out       +a        -a
    """
    operator = Expire(ExpireSpec(3), SCHEMA)
    assert changes_of(operator.process([signed([(1, 1, 4, 0, 0)])], 1)) == [(1, 1, 4, 0, 0)]
    assert changes_of(operator.process([signed([])], 3)) == []
    assert changes_of(operator.process([signed([])], 4)) == [(-1, 4, 4, 0, 0)]
    assert changes_of(operator.process([signed([])], 9)) == []
    assert operator.logs()["living"].n_rows == 0


def test_a_tuple_that_comes_and_goes_within_a_step() -> None:
    operator = Expire(ExpireSpec(3), SCHEMA)
    assert changes_of(operator.process([signed([(1, 1, 4, 0, 0)])], 9)) == [(1, 1, 4, 0, 0), (-1, 4, 4, 0, 0)]
    assert operator.logs()["living"].take_changes() == ({}, [])


def test_what_was_taken_back_does_not_leave_again() -> None:
    """Of tuples that share a member only the one that is named is taken back."""
    operator = Expire(ExpireSpec(9), SCHEMA)
    operator.process([signed([(1, 2, 9, 5, 0), (1, 2, 9, 5, 1)])], 3)
    assert changes_of(operator.process([signed([(-1, 5, 9, 5, 1)])], 5)) == [(-1, 5, 9, 5, 1)]
    assert changes_of(operator.process([signed([])], 20)) == [(-1, 9, 9, 5, 0)]


def test_what_never_expires_passes_by() -> None:
    operator = Expire(ExpireSpec(None), SCHEMA)
    assert changes_of(operator.process([signed([(1, 1, NEVER, 0, 0), (-1, 2, NEVER, 0, 0)])], 5)) == [
        (1, 1, NEVER, 0, 0),
        (-1, 2, NEVER, 0, 0),
    ]
    assert operator.logs()["living"].n_rows == 0


def test_no_identities_are_needed_where_nothing_is_taken_back() -> None:
    schema = pa.schema([*SIGNED_FIELDS, ("v", pa.string())])
    operator = Expire(ExpireSpec(3), schema)
    operator.process([pa.table([[1, 1], [4, 4], [1, 1], ["a", "a"]], schema=schema)], 2)
    assert operator.process([schema.empty_table()], 4)["v"].to_pylist() == ["a", "a"]


Life = tuple[int, int, int | None]


@given(
    lives=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.none() | st.integers(0, 5)), max_size=10),
    clocks=st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=6),
    window_us=st.sampled_from([6, 64]),
)
@example([(1, 3, None), (1, 3, 1)], [(3, True), (4, False)], 6)
@example([(1, 3, None), (1, 4, None)], [(3, True), (4, True), (5, False)], 64)
def test_every_tuple_leaves_exactly_once(lives: list[Life], clocks: list[tuple[int, bool]], window_us: int) -> None:
    """A block holds tuples that expire within an eighth of the window of each other.

    Lives are (ts, length, taken back after, if at all); tuples come in the step in which the clock reaches them."""
    positives = [(1, ts, ts + length, number // 2, number % 2) for number, (ts, length, _) in enumerate(lives)]
    retracted = [
        (-1, ts + after, ts + length, number // 2, number % 2)
        for number, (ts, length, after) in enumerate(lives)
        if after is not None and 0 < after < length
    ]
    ended = {change[3:] for change in retracted}
    by_itself = [(-1, expires, expires, a, b) for _, _, expires, a, b in positives if (a, b) not in ended]
    operator, seen, last = Expire(ExpireSpec(window_us), SCHEMA), [], -1
    for clock, restarts in [*sorted(clocks), (30, False)]:
        due = [change for change in [*positives, *retracted] if last < change[1] <= clock]
        out = changes_of(operator.process([signed(due)], clock))
        assert all(last < ts <= clock for _, ts, *_ in out)
        seen += out
        last = max(last, clock)
        operator = restart(operator) if restarts else operator
    everything = [*positives, *retracted, *by_itself]
    assert seen == sorted(everything, key=lambda change: (change[1], change[0], *change[2:]))
