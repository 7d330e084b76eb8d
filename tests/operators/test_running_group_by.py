"""Groups that no tuple leaves, against a plain count of all tuples so far.

Law: at every instant the answer has one row for each group with a tuple, however the input is cut into steps and
wherever the operator is stopped; its state is a row for each group, however many tuples have come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.operators import running_group_by
from sash.operators.grouping import Call
from sash.operators.operator import export_live, import_live
from sash.operators.running_group_by import RunningGroupBy, RunningGroupBySpec
from sash.store.batch import BEGINNING, NEVER, OP, SIGNED_FIELDS, TS
from sash.store.directory import Directory
from sash.store.vector import Memory, dump, load

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("time", pa.int64()), *SIGNED_FIELDS])
CALLS = (
    Call("count", None, "n", pa.int64()),
    Call("sum", "v", "sum", pa.decimal128(38, 0)),
    Call("min", "v", "min", pa.int64()),
    Call("last", "v", "last", pa.int64()),
)
SPEC = RunningGroupBySpec(keys=("k",), calls=CALLS, time="time")

Tuple = tuple[int, str | None, int | None]
"""Its time, key and value."""
Change = tuple[int, int, Any]
"""Sign, time, and the rest of the row."""


def signed(tuples: Iterable[Tuple]) -> pa.Table:
    rows = [{"k": k, "v": v, "time": ts, TS: ts, "_expires": NEVER, OP: 1} for ts, k, v in tuples]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def changes_of(batch: pa.Table) -> list[Change]:
    """In order of time, key and sign."""
    names = [name for name in batch.column_names if name not in (field.name for field in SIGNED_FIELDS)]
    rows = [(row[OP], row[TS], tuple(row[name] for name in names)) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row[1], str(row[2][0]), row[0]))


def step(operator: RunningGroupBy, *tuples: Tuple) -> list[Change]:
    return changes_of(operator.process([signed(tuples)], max((ts for ts, _, _ in tuples), default=0)))


def entries_of(operator: RunningGroupBy) -> dict[str, Mapping[str, bytes]]:
    return {name: log.entries() for name, log in operator.logs().items()}


def restart(operator: RunningGroupBy) -> RunningGroupBy:
    fresh = RunningGroupBy(operator.spec, SCHEMA)
    fresh.restore(entries_of(operator), operator.registers())
    return fresh


def expected(tuples: list[Tuple]) -> list[Change]:
    """The changes of the answer, from all tuples up to each instant."""
    rows: dict[str | None, tuple] = {}
    held: dict[str | None, list[Tuple]] = defaultdict(list)
    changes = []
    for now in sorted({ts for ts, _, _ in tuples}):
        for ts, k, v in tuples:
            if ts == now:
                held[k].append((ts, k, v))
        for k, members in held.items():
            row = (k, *aggregates(members))
            if rows.get(k) != row:
                changes += [(-1, now, rows[k])] if k in rows else []
                changes.append((1, now, row))
                rows[k] = row
    return sorted(changes, key=lambda row: (row[1], str(row[2][0]), row[0]))


def aggregates(members: list[Tuple]) -> tuple:
    values = [v for _, _, v in members if v is not None]
    last = max((ts, v is not None, v or 0) for ts, _, v in members)
    return len(members), sum(values) if values else None, min(values, default=None), last[2] if last[1] else None


def test_a_row_changes_once_at_an_instant() -> None:
    """
    in     +a 5 at 1   +a 7 at 2   +a 1 at 2   +b 1 at 2
    out    +a 5 at 1   -a 5 +a 13 +b 1 at 2
    """
    operator = RunningGroupBy(RunningGroupBySpec(keys=("k",), calls=CALLS[1:2]), SCHEMA)
    assert step(operator, (1, "a", 5)) == [(1, 1, ("a", 5))]
    assert step(operator, (2, "a", 7), (2, "a", 1), (2, "b", 1)) == [
        (-1, 2, ("a", 5)),
        (1, 2, ("a", 13)),
        (1, 2, ("b", 1)),
    ]


def test_a_row_that_comes_out_the_same_does_not_change() -> None:
    operator = RunningGroupBy(RunningGroupBySpec(keys=("k",), calls=CALLS[2:3]), SCHEMA)
    assert step(operator, (1, "a", 5)) == [(1, 1, ("a", 5))]
    assert step(operator, (2, "a", 7), (3, "a", 5), (4, "a", None)) == []
    assert step(operator, (5, "a", 4)) == [(-1, 5, ("a", 5)), (1, 5, ("a", 4))]


def test_the_group_of_everything_is_there_from_the_beginning() -> None:
    operator = RunningGroupBy(RunningGroupBySpec(keys=(), calls=CALLS[:2]), SCHEMA)
    assert step(operator) == [(1, BEGINNING, (0, None))]
    operator = restart(operator)
    assert step(operator) == []
    assert step(operator, (3, "a", None)) == [(-1, 3, (0, None)), (1, 3, (1, None))]
    assert step(restart(operator), (4, "b", 2)) == [(-1, 4, (1, None)), (1, 4, (2, 2))]


def test_having_lets_a_row_in_and_out() -> None:
    operator = RunningGroupBy(RunningGroupBySpec(keys=("k",), calls=CALLS[:1], having='"n" % 2 = 0'), SCHEMA)
    assert step(operator, (1, "a", 1), (2, "a", 1), (3, "a", 1)) == [(1, 2, ("a", 2)), (-1, 3, ("a", 2))]


def test_the_newest_row_replaces_the_older_one_where_nothing_is_taken_back() -> None:
    operator = RunningGroupBy(RunningGroupBySpec(keys=("k",), calls=CALLS[:1], retracts=False), SCHEMA)
    assert step(operator, (1, "a", 1), (2, "a", 1)) == [(1, 1, ("a", 1)), (1, 2, ("a", 2))]


def test_a_group_keeps_its_identity_over_a_restart() -> None:
    operator = RunningGroupBy(RunningGroupBySpec(keys=("k",), calls=CALLS[:1], id_column="_id._row"), SCHEMA)
    assert step(operator, (1, "a", 1), (2, "b", 1)) == [(1, 1, ("a", 1, 0)), (1, 2, ("b", 1, 1))]
    step(operator, (3, "a", 1))
    operator = restart(operator)
    assert step(operator, (4, "b", 1), (5, "c", 1)) == [
        (-1, 4, ("b", 1, 1)),
        (1, 4, ("b", 2, 1)),
        (1, 5, ("c", 1, 2)),
    ]


@pytest.mark.parametrize("column", [OP, "_expires"])
def test_a_tuple_that_leaves_is_a_bug(column: str) -> None:
    batch = signed([(1, "a", 1)])
    field = SCHEMA.field(column)
    batch = batch.set_column(SCHEMA.get_field_index(column), field, pa.array([-1], field.type))
    with pytest.raises(AssertionError):
        RunningGroupBy(SPEC, SCHEMA).process([batch], 1)


TUPLES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(-3, 3)), max_size=12
)


@given(st.lists(st.tuples(TUPLES, st.booleans()), max_size=6), st.booleans())
def test_steps_and_restarts_do_not_show(steps: list[tuple[list[Tuple], bool]], is_compact: bool) -> None:
    """Each step is later than the one before it."""
    steps = [([(4 * idx + ts, k, v) for ts, k, v in tuples], stops) for idx, (tuples, stops) in enumerate(steps)]
    operator, seen = RunningGroupBy(SPEC, SCHEMA), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running_group_by, "MIN_GONE", 0 if is_compact else 1024)
        for tuples, stops in steps:
            seen += step(operator, *tuples)
            operator = restart(operator) if stops else operator
    everything = [each for tuples, _ in steps for each in tuples]
    assert seen == expected(everything)
    n_alive = sum(block.n_alive for block in operator.logs()["groups"].blocks)
    assert n_alive == len({k for _, k, _ in everything})


@pytest.mark.slow
def test_state_follows_the_groups_not_the_tuples() -> None:
    """Some groups are heard of once, others in every step; strings of the past are forgotten."""
    calls = (*CALLS, Call("max", "k", "greatest", pa.string()))
    operator = RunningGroupBy(RunningGroupBySpec(keys=("k",), calls=calls, time="time"), SCHEMA)
    stored: dict[str, bytes] = {}
    for now in range(3000):
        step(operator, (now, f"old {now % 50}" if now < 50 else "old 1", now), (now, "hot", -now))
        puts, deletes = operator.logs()["groups"].take_changes()
        stored = {key: value for key, value in (stored | puts).items() if key not in deletes}
    log = operator.logs()["groups"]
    assert log.n_rows <= 2 * 51 + running_group_by.MIN_GONE
    assert log.rows.n_rows <= 2 * 51 + running_group_by.MIN_GONE
    assert len(log.blocks) <= running_group_by.MAX_BLOCKS
    assert operator._accumulators[3]._members._strings.n_strings < 300  # type: ignore[attr-defined]
    fresh = RunningGroupBy(operator.spec, SCHEMA)
    fresh.restore({"groups": stored}, operator.registers())
    assert step(fresh, (9000, "old 7", 1), (9000, "hot", 1)) == step(operator, (9000, "old 7", 1), (9000, "hot", 1))


def test_many_small_blocks_become_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step brings groups that are new, so that no row is ever gone."""
    monkeypatch.setattr(running_group_by, "MAX_BLOCKS", 8)
    monkeypatch.setattr(running_group_by, "MIN_BLOCK_ROWS", 16)
    operator = RunningGroupBy(SPEC, SCHEMA)
    for now in range(100):
        step(operator, (now, f"{now}", now))
        assert len(operator.logs()["groups"].blocks) <= 8
    assert step(restart(operator), (100, "17", 3)) == [(-1, 100, ("17", 1, 17, 17, 17)), (1, 100, ("17", 2, 20, 3, 3))]
    assert step(operator, (100, "17", 3)) == [(-1, 100, ("17", 1, 17, 17, 17)), (1, 100, ("17", 2, 20, 3, 3))]


def test_another_process_goes_on_with_the_vectors(tmp_path: Path) -> None:
    arena = Directory(tmp_path)
    operator = RunningGroupBy(SPEC, SCHEMA)
    operator.reset(arena)
    step(operator, (1, "a", 5), (2, "b", 7))
    state, arena = dump(export_live(operator), arena), Directory(tmp_path)
    other = RunningGroupBy(SPEC, SCHEMA)
    import_live(other, load(state, arena))
    assert step(other, (3, "a", 1)) == [(-1, 3, ("a", 1, 5, 5, 5)), (1, 3, ("a", 2, 6, 1, 1))]
    other.reset(Memory())
    assert step(other, (3, "a", 1)) == [(1, 3, ("a", 1, 1, 1, 1))]
