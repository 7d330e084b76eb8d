"""Rows too far ahead, without Spark: readers of files and of frames, and the groups that hear of them, against the law.

However rows are spread over files and files over batches, and wherever groups start anew from their state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.frames import table_catalog
from sash.io.records import REJECT_SCHEMA, Records
from sash.oracle.reference import split_late
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.runtime.job import Tally
from sash.spark.exchange import Message, Packer, message, to_all_groups
from sash.spark.group import Group
from sash.spark.packing import FileReader, file_origin, pack_frame
from sash.spark.sorting import late_rows, too_far_rows
from sash.spark.spark_notes import ArrivalNotes
from sash.sql.bind import bind
from sash.sql.parse import parse_query

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
SHARED = pa.schema([(name, pa.int64()) for name in ("ts", "k", "v", "w")])
TEXT = "SELECT A.k FROM a A, a B WHERE A.k = B.k WINDOW 5 MICROSECONDS"
N_GROUPS = 3
TIMES = st.lists(st.sampled_from([*range(10), 30, 31, 50, 70, 99, 99, 99]), max_size=14)
CUTS = st.lists(st.integers(0, 14), max_size=5)


def make_plan() -> Plan:
    stream = sash.stream(SCHEMA.empty_table(), time="ts", slack="2 us", ahead="10 us")
    return Plan.alone(plan_query(bind(parse_query(TEXT), table_catalog({"a": stream})[0])))


class World:
    """The groups of a plan, and what has come out of them."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.groups = [self._make(number) for number in range(N_GROUPS)]
        self.entries: list[dict[str, bytes]] = [{} for _ in self.groups]
        self.n_read = 0
        self.files: dict[str, pa.Table] = {}
        self.found: dict[str, list[int]] = {"changes": [], "late": [], "rejects": []}

    def _make(self, number: int) -> Group:
        return Group(self.plan, self.plan.fragment_pipeline(0, {}), 0, number, N_GROUPS)

    def restart(self) -> None:
        """Groups of another process, from the state of these."""
        old, self.groups = self.groups, [self._make(number) for number in range(N_GROUPS)]
        for before, group, entries in zip(old, self.groups, self.entries):
            puts, deletes = before.take_changes()
            entries.update(puts)
            for key in deletes:
                del entries[key]
            group.restore(before.head(), entries)

    def run_batch(self, messages: list[Message]) -> None:
        self._take([each for each in messages if each.kind in ("late", "rejects")])
        for group in self.groups:
            own = [each.packed() for each in messages if each.grp == group.number and each.stage == 0]
            self._take(list(group.step(own)))
        assert len({group.clock for group in self.groups}) == 1

    def complete(self, until_us: int | None = None) -> None:
        self.run_batch(list(to_all_groups(message("complete", {"complete_us": until_us}), self.plan, N_GROUPS)))

    def read(self, path: str, *times: int) -> None:
        """A batch of one file; its rows are numbered on from those of the files before."""
        self.run_batch(read_file(self, path, rows_at(times, self.n_read), 100))
        self.n_read += len(times)

    @property
    def standing(self) -> dict[str, int]:
        """How far the stream is."""
        return self.groups[0].progress["a"]["after"]

    def end(self, is_confirmed: bool, rows: pa.Table) -> pa.Table:
        """The end of a finite run, and in the next one a row that confirms what is held, or contradicts it."""
        self.complete()
        self.restart()
        times = rows.column("ts").to_pylist()
        if not times:
            return rows
        following = self.standing["held_us"] if self.standing["n_held"] and is_confirmed else self.standing["newest_us"]
        last = rows_at([following + 1], rows.num_rows)
        self.run_batch(read_file(self, "last.csv", last, 100))
        return pa.concat_tables([rows, last])

    def _take(self, answers: list[Message]) -> None:
        for each in answers:
            if each.kind in ("changes", "late"):
                self.found[each.kind] += each.table.column("k").to_pylist()
            elif each.kind == "rejects":
                self.found["rejects"] += [json.loads(text)["k"] for text in each.table.column("text").to_pylist()]
            elif each.kind == "reread":
                self.found["rejects"] += [json.loads(text)["k"] for _, text, *_ in each.facts["kept"]]
                if not each.facts["late"] and not each.facts["too_far"]:
                    continue
                rows, info = self.files[each.facts["path"]], self.plan.streams["a"]
                self.found["late"] += late_rows(rows, info, each.facts).column("k").to_pylist()
                too_far, reasons = too_far_rows(rows, info, each.facts)
                assert len(reasons) == too_far.num_rows
                self.found["rejects"] += too_far.column("k").to_pylist()


def rows_at(times: Sequence[int], first: int = 0) -> pa.Table:
    numbers = range(first, first + len(times))
    return pa.table({"ts": pa.array(times, pa.int64()), "k": pa.array(numbers, pa.int64())})


def read_file(world: World, path: str, rows: pa.Table, stretch: int) -> list[Message]:
    world.files[path] = rows
    reader = FileReader(Packer(world.plan, "a", N_GROUPS), path, file_origin(path, 0))
    messages: list[Message] = []
    for start in range(0, rows.num_rows, stretch):
        part = rows.slice(start, stretch)
        lines = np.arange(start, start + part.num_rows)
        messages += reader.take(Records(part, lines, REJECT_SCHEMA.empty_table()))
    return [*messages, *reader.end()]


def parts(n_rows: int, cuts: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(sorted({0, *(min(cut, n_rows) for cut in cuts), n_rows})))


@pytest.mark.slow
@given(
    times=TIMES, files=CUTS, batches=CUTS, stretch=st.integers(1, 5), restarts=st.booleans(), is_confirmed=st.booleans()
)
def test_files_give_what_the_law_says(
    times: list[int], files: list[int], batches: list[int], stretch: int, restarts: bool, is_confirmed: bool
) -> None:
    rows = rows_at(times)
    world, cut = World(make_plan()), parts(rows.num_rows, files)
    for first, last in parts(len(cut), batches):
        messages: list[Message] = []
        for number in range(first, last):
            low, high = cut[number]
            messages += read_file(world, f"{number:03d}.csv", rows.slice(low, high - low), stretch)
        world.run_batch(messages)
        if restarts:
            world.restart()
    rows = world.end(is_confirmed, rows)
    check(world, split_late(rows, world.plan.streams["a"]))


@given(times=TIMES, batches=CUTS, readers=st.integers(1, 3), restarts=st.booleans(), is_confirmed=st.booleans())
def test_rows_of_a_micro_batch_count_in_order_of_their_times(
    times: list[int], batches: list[int], readers: int, restarts: bool, is_confirmed: bool
) -> None:
    rows = rows_at(times)
    world, ordered = World(make_plan()), [rows.slice(0, 0)]
    for low, high in parts(rows.num_rows, batches):
        batch = rows.slice(low, high - low)
        ordered.append(batch.sort_by("ts"))
        messages: list[Message] = []
        for reader in range(readers):
            share = batch.take(pa.array(range(reader, batch.num_rows, readers), pa.int64()))
            packed = pack_frame(Packer(world.plan, "a", N_GROUPS))(iter(share.to_batches()))
            messages += [Message(**row) for each in packed for row in each.to_pylist()]
        world.run_batch(messages)
        if restarts:
            world.restart()
    rows = world.end(is_confirmed, pa.concat_tables(ordered))
    check(world, split_late(rows, world.plan.streams["a"]))


def test_one_wrong_row_at_the_end_of_a_run_does_not_make_the_next_run_late() -> None:
    world = World(make_plan())
    world.read("1.csv", 5, 6, 99)
    world.complete()
    assert world.standing == {"newest_us": 6, "held_us": 99, "n_held": 1}
    world.restart()
    world.read("2.csv", 7, 8, 9, 10, 11)
    assert sorted(world.found["changes"]) == [0, 1, 3, 4, 5, 6, 7]
    assert (world.found["late"], world.found["rejects"]) == ([], [2])


def test_what_is_held_at_the_end_of_a_run_is_taken_if_the_next_run_confirms_it() -> None:
    world = World(make_plan())
    world.read("1.csv", 5, 99)
    world.complete()
    assert world.found["changes"] == [0]
    world.restart()
    world.read("2.csv", 98)
    assert world.found == {"changes": [0, 1, 2], "late": [], "rejects": []}


def test_a_completion_with_a_time_takes_what_is_not_too_far_ahead_of_it() -> None:
    world = World(make_plan())
    world.read("1.csv", 5, 99)
    world.complete(88)
    assert world.standing == {"newest_us": 88, "held_us": 99, "n_held": 1}
    world.complete(89)
    assert world.standing["n_held"] == 0
    assert world.found["changes"] == [0, 1]


def test_rows_that_wait_are_counted_whatever_files_and_readers_bring_them() -> None:
    world = World(make_plan())
    world.run_batch([*read_file(world, "1.csv", rows_at([5, 99, 99]), 1), *read_file(world, "2.csv", rows_at([99]), 1)])
    assert world.standing["n_held"] == 3
    world.restart()
    assert world.standing["n_held"] == 3
    world.read("3.csv", 99, 99)
    assert world.standing["n_held"] == 5
    world.read("4.csv", 6)
    assert (world.standing["n_held"], len(world.found["rejects"])) == (0, 5)


def test_a_held_row_is_rejected_whole_also_if_its_file_has_been_archived() -> None:
    world = World(make_plan())
    world.read("1.csv", 5, 99)
    del world.files["1.csv"]
    world.restart()
    world.read("2.csv", 6)
    assert world.found["rejects"] == [1]


def check(world: World, expected: Any) -> None:
    for kind, table in zip(("changes", "late", "rejects"), expected):
        assert Counter(world.found[kind]) == Counter(table.column("k").to_pylist()), kind


class TestNotes:
    """What the summary of a run says."""

    def test_what_waits_at_the_end_is_told_until_it_is_decided(self) -> None:
        world, notes = World(make_plan()), ArrivalNotes(make_plan().streams)
        notes.see(answers_of(world, "1.csv", 5, 99, 99))
        assert notes.notes == [
            "2 rows of `a` are more than 10 microseconds ahead and wait for the next one to confirm them"
        ]
        notes.see(answers_of(world, "2.csv", 6))
        assert notes.notes == []
        notes.see(answers_of(world, "3.csv", 99))
        assert notes.notes == [
            "1 row of `a` is more than 10 microseconds ahead and waits for the next one to confirm it"
        ]

    def test_the_file_is_named_that_moved_the_clock_and_not_one_that_was_rejected(self) -> None:
        world, notes = World(make_plan()), ArrivalNotes(make_plan().streams)
        notes.see(answers_of(world, "1.csv", 5, 6, 99, 7, 8, 30, 31))
        notes.see(answers_of(world, "2.csv", *range(20)))
        assert "since a row of 1.csv moved its clock to 31 microseconds;" in notes.notes[0]

    def test_a_row_that_waited_is_named_by_its_file(self) -> None:
        world, notes = World(make_plan()), ArrivalNotes(make_plan().streams)
        notes.see(answers_of(world, "1.csv", 5, 99))
        notes.see(answers_of(world, "2.csv", 98, *range(20)))
        assert "since a row of 1.csv moved its clock to 99 microseconds;" in notes.notes[0]

    def test_after_a_restart_only_the_clock_is_known(self) -> None:
        world = World(make_plan())
        answers_of(world, "1.csv", 5, 31)
        answers_of(world, "2.csv", 32)
        world.restart()
        notes = ArrivalNotes(make_plan().streams)
        notes.see(answers_of(world, "3.csv", *range(19), 32))
        assert "19 of the last 20 rows of stream `a` came too late, since its clock stood at 32" in notes.notes[0]

    def test_files_of_one_row_are_told_of_too(self) -> None:
        world, notes = World(make_plan()), ArrivalNotes(make_plan().streams)
        notes.see(answers_of(world, "100.csv", 9))
        for number in range(9):
            notes.see(answers_of(world, f"{200 + number}.csv", number % 5))
        assert "9 of the last 10 rows of stream `a` came too late, since a row of 100.csv moved" in notes.notes[0]


def answers_of(world: World, path: str, *times: int) -> list[Message]:
    """What the driver hears of a batch of one file."""
    n_late = len(world.found["late"])
    arrivals = [each for each in read_file(world, path, rows_at(times), 100) if each.kind == "arrival" and not each.grp]
    world.read(path, *times)
    late = message("late", {"n_rows": len(world.found["late"]) - n_late}, stream="a")
    return [*arrivals, late, message("state", {"streams": world.groups[0].progress})]


def test_the_account_of_two_runs_is_right_while_rows_wait_and_after() -> None:
    first = Tally(n_read=3, n_held=1)
    assert first.n_accepted == 2
    second = Tally(n_read=1, n_held_before=1, n_late=1, n_rejected=1)
    assert second.n_accepted == 0


def test_what_waits_goes_on_waiting_with_the_columns_of_a_query_that_came_later() -> None:
    frames = {name: sash.stream(SHARED, time="ts", slack="2 us", ahead="10 us") for name in ("a", "b")}
    catalog = table_catalog({name: replace(each, frame=SHARED.empty_table()) for name, each in frames.items()})[0]
    one, two = (
        plan_query(bind(parse_query(f"SELECT A.k, A.{column} FROM a A, b B WHERE A.k = B.k WINDOW 5 US"), catalog))
        for column in ("v", "w")
    )
    before, after = Plan.sharing({"one": one}), Plan.sharing({"one": one, "two": two})
    group = Group(before, before.fragment_pipeline(0, {}), 0, 0, 1)

    def push(times: list[int], group: Group, plan: Plan) -> list[Message]:
        rows = pa.table({"ts": times, "k": [1] * len(times), "v": times, "w": times}, schema=SHARED)
        batches = rows.select(plan.columns_read("a")).to_batches()
        packed = pack_frame(Packer(plan, "a", 1))(iter(batches))
        return list(group.step([Message(**row) for each in packed for row in each.to_pylist()]))

    push([5, 99], group, before)
    later = Group(after, after.fragment_pipeline(0, {}), 0, 0, 1)
    puts, _ = group.take_changes()
    later.restore(group.head(), puts)
    push([99], later, after)
    assert later.progress["a"]["after"]["n_held"] == 2
    rejects = [each for each in push([6], later, after) if each.kind == "rejects"]
    assert [each.n_rows for each in rejects] == [2]
