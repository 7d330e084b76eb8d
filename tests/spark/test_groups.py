"""Laws 2 to 5 for what runs inside Spark's workers, without Spark: packing, groups, their state as entries of a store.

Many small cases, each with random micro-batches, partitions and restarts; a sample of the same cases runs on Spark
itself in `test_engines.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.frames import Stream, table_catalog
from sash.operators import operator_kinds
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.spark.exchange import OUTPUT, Message, Packer, message, to_all_groups
from sash.spark.group import Group
from sash.spark.packing import pack_frame
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.store.vector import Arena, Memory
from sash.testing.case import Case, Push
from sash.testing.plans import plans
from sash.testing.strategies import batch_cuts, cases
from support.generated.cases_for_spark import cases_for_spark
from support.multiway_strategies import multiway_cases
from support.profiles import law_of_groups
from support.small_arenas import SmallArenas


class Store:
    """What a state store keeps of a group: entries that are put and deleted."""

    def __init__(self) -> None:
        self.head = b""
        self.entries: dict[str, bytes] = {}

    def save(self, group: Group) -> None:
        self.head = group.head()
        puts, deletes = group.take_changes()
        self.entries.update(puts)
        for key in deletes:
            del self.entries[key]


class Stage:
    """The groups of a fragment, fed with micro-batches as Spark would."""

    def __init__(
        self,
        plan: Plan,
        relations: dict[str, pa.Table],
        fragment: int,
        n_groups: int,
        make_arena: Callable[[], Arena],
    ):
        def make(number: int) -> Group:
            group = Group(plan, plan.fragment_pipeline(fragment, relations), fragment, number, n_groups)
            group.reset(make_arena())
            return group

        self._make = make
        self._fragment = fragment
        numbers = range(plan.fragments[fragment].count_groups(n_groups))
        self._groups = [self._make(number) for number in numbers]
        self._stores = [Store() for _ in numbers]

    def run_batch(self, messages: list[Message], is_restarted: bool) -> list[Message]:
        """What leaves the stage: messages for others as they came, and what the groups say."""
        answers = [each for each in messages if each.stage != self._fragment]
        self.clocks: set[int] = set()
        for number, store in enumerate(self._stores):
            if is_restarted and store.head:
                self._groups[number] = self._make(number)
                self._groups[number].restore(store.head, store.entries)
            own = [each for each in messages if (each.stage, each.grp) == (self._fragment, number)]
            assert {each.kind for each in own} & {"arrival", "complete"}, "a group that does not hear of the clock"
            answers += [each.packed() for each in self._groups[number].step(own)]
            self.clocks.add(self._groups[number].clock)
            store.save(self._groups[number])
        return answers


class Chain:
    """The stages of a plan, one after the other."""

    def __init__(
        self, plan: Plan, relations: dict[str, pa.Table], n_groups: int, make_arena: Callable[[], Arena] = Memory
    ):
        self.plan, self.n_groups = plan, n_groups
        self.stages = [Stage(plan, relations, fragment.number, n_groups, make_arena) for fragment in plan.fragments]

    def run_batch(self, messages: list[Message], restarts: list[bool]) -> list[Message]:
        """The answers; a stage whose flag is set is first built anew from its stores."""
        n_arrivals = len([each for each in messages if (each.kind, each.grp) == ("arrival", 0)])
        for stage, is_restarted in zip(self.stages, restarts, strict=True):
            messages = stage.run_batch(messages, is_restarted)
        assert {each.stage for each in messages} <= {OUTPUT}
        assert len([each for each in messages if each.kind == "arrival"]) == n_arrivals
        assert len({clock for stage in self.stages for clock in stage.clocks}) == 1
        return messages

    def complete(self) -> list[Message]:
        end = to_all_groups(message("complete", {"complete_us": None}), self.plan, self.n_groups)
        return self.run_batch(list(end), [True] * len(self.stages))


def pack(plan: Plan, stream: str, rows: pa.Table, n_groups: int) -> list[Message]:
    packed = pack_frame(Packer(plan, stream, n_groups))(iter(rows.select(plan.columns_read(stream)).to_batches()))
    return [Message(**row) for batch in packed for row in batch.to_pylist()]


def with_slack(case: Case) -> dict:
    """A recording is put in order of time on its way in; here its rows come in that order to begin with."""
    arrivals = table_catalog(case.frames)[1]
    return {
        name: Stream(arrivals[name], frame.time, frame.slack_us or 0, frame.tie) if isinstance(frame, Stream) else frame
        for name, frame in case.frames.items()
    }


@pytest.mark.slow
@law_of_groups()
@given(st.data())
def test_groups_give_what_embedded_gives(data):
    check_groups(data, data.draw(plans() | cases()))


@pytest.mark.slow
@law_of_groups()
@given(st.data())
def test_groups_of_joins_of_many_streams_give_what_embedded_gives(data):
    check_groups(data, data.draw(multiway_cases()))


@pytest.mark.slow
@law_of_groups()
@given(st.data(), st.integers(0, 1 << 30))
def test_groups_give_what_embedded_gives_for_any_statement(data, seed):
    """Whatever a user may write: outer joins, OVER, top-k, sessions, subqueries, and so on."""
    generated = next(case for case, _ in cases_for_spark(seed) if not case.params)
    check_groups(data, Case(generated.text, generated.frames))


@pytest.mark.slow
@law_of_groups()
@given(st.data())
def test_groups_with_hardly_any_memory_give_what_embedded_gives(data):
    """Whatever can be sealed is sealed in every step, also while a group is restored."""
    with TemporaryDirectory() as directory:
        check_groups(data, data.draw(plans() | cases()), SmallArenas(Path(directory)).create)


def check_groups(data: st.DataObject, case: Case, make_arena: Callable[[], Arena] = Memory) -> None:
    frames = with_slack(case)
    catalog, streams, relations = table_catalog(frames)
    plan = Plan.alone(plan_query(bind(parse_query(case.text), catalog)))
    chain = Chain(plan, relations, data.draw(st.sampled_from([3, 1])), make_arena)
    changes = [case.plan.schema.empty_table()]
    for step in data.draw(batch_cuts(case, with_advances=False)):
        assert isinstance(step, Push)
        if step.stream in plan.streams and step.start < step.stop:
            rows = streams[step.stream].slice(step.start, step.stop - step.start)
            messages = pack(plan, step.stream, rows, chain.n_groups)
            restarts = [data.draw(st.booleans()) for _ in chain.stages]
            changes += tables(chain.run_batch(messages, restarts), "changes")
    changes += tables(chain.complete(), "changes")
    assert sorted_rows(pa.concat_tables(changes)) == sorted_rows(case.run())


def tables(answers: list[Message], kind: str) -> list[pa.Table]:
    return [each.table for each in answers if each.kind == kind]


def sorted_rows(changes: pa.Table) -> list[str]:
    return sorted(repr(row) for row in changes.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("key", [1, 2, 3])
def test_groups_that_number_alike_do_not_take_back_each_others_tuples(key):
    """Every group of the first fragment has a first row of `a` and of `b`; in the second all meet. One is displaced."""
    rows = [(key, "x", number) for number, key in enumerate((1, 2, 3, key))]
    a, b, c = rows, [(key, "x", 10 + key) for key in (1, 2, 3)], [(0, "x", 0)]
    frames = {name: sash.stream(timed(table), time="ts") for name, table in (("a", a), ("b", b), ("c", c))}
    case = Case(
        "SELECT A.v, B.v AS w FROM a A [PARTITION BY k ROWS 1], b B [RANGE 9 us], c C [RANGE 9 us] "
        "WHERE A.k = B.k AND B.j = C.j",
        frames,
    )
    chain, answers = Chain(Plan.alone(case.plan), {}, 3), []
    assert [fragment.is_partitioned for fragment in Plan.alone(case.plan).fragments] == [True, True]
    for stream, start, stop in (("b", 0, 3), ("c", 0, 1), ("a", 0, 3), ("a", 3, 4)):
        rows = case.arrivals[stream].slice(start, stop - start)
        answers += chain.run_batch(pack(Plan.alone(case.plan), stream, rows, 3), [False, False])
    changes = tables([*answers, *chain.complete()], "changes")
    assert sorted_rows(pa.concat_tables(changes)) == sorted_rows(case.run())
    assert {row["_op"] for table in changes for row in table.to_pylist()} == {1, -1}


def test_rows_that_groups_number_alike_are_told_apart_though_what_they_are_made_of_has_numbers_too():
    """The exchange below the second fragment brings `_id._row`, and each of its groups numbers rows under that name."""
    key = [0, 1, 2, 3, 4, 5, 0, 2, 4, 0, 1, 3, 2, 4, 0, 5, 2, 1, 0, 4, 3, 2, 0, 1]
    a = pa.table({"ts": range(len(key)), "k": key})
    case = Case(
        """
        WITH counts AS (SELECT k, COUNT(*) AS n FROM a [RANGE 100 us] GROUP BY k),
          same AS (SELECT DISTINCT L.k, L.n, L.k % 2 AS p FROM counts L JOIN counts R ON L.n = R.n)
        SELECT L.k, L.n, R.k AS rk, R.n AS rn FROM same L JOIN same R ON L.p = R.p
        """,
        {"a": sash.stream(a, time="ts", slack="0 us")},
    )
    plan, answers = Plan.alone(case.plan), []
    chain = Chain(plan, {}, 3)
    for start in range(0, len(key), 2):
        answers += chain.run_batch(pack(plan, "a", case.arrivals["a"].slice(start, 2), 3), [False] * 3)
    changes = tables([*answers, *chain.complete()], "changes")
    assert sorted_rows(pa.concat_tables(changes)) == sorted_rows(case.run())


def timed(rows: list[tuple[int, str, int]]) -> pa.Table:
    k, j, v = zip(*rows)
    return pa.table({"ts": range(len(rows)), "k": k, "j": j, "v": v})


def test_late_rows_of_several_readers_are_one_message():
    """Each message is written as one file, under the name of its group."""
    a = timed([(1, "x", number) for number in range(10)])
    case = Case(
        "SELECT A.v FROM a A, a B, a C WHERE A.k = B.k AND B.v = C.v WINDOW 5 us", {"a": sash.stream(a, "ts", "1 us")}
    )
    chain = Chain(Plan.alone(case.plan), {}, 3)
    chain.run_batch(pack(Plan.alone(case.plan), "a", a.slice(8), 3), [False, False])
    readers = [pack(Plan.alone(case.plan), "a", a.slice(start, 2), 3) for start in (0, 2)]
    late = tables(chain.run_batch([each for messages in readers for each in messages], [False, False]), "late")
    assert [sorted(table.column("v").to_pylist()) for table in late] == [[0, 1, 2, 3]]


class ListeningJoin(WindowJoin):
    """A join that takes down the frontiers it hears, by the names of its keys."""

    heard: ClassVar[set[tuple[str, tuple[int, ...]]]] = set()

    def hear(self, frontiers: Sequence[tuple[int, ...]]) -> None:
        self.heard.add((self.spec.keys[0][0], tuple(each for (each,) in frontiers)))


def test_groups_are_told_how_far_each_stream_has_come(monkeypatch):
    """Of a stream its own clock; of what comes from another fragment only the clock of all."""
    monkeypatch.setitem(operator_kinds.OPERATORS, WindowJoinSpec, ListeningJoin)
    frames = {name: sash.stream(timed([(1, "x", 1)] * 10), "ts", "0 us") for name in "abc"}
    text = "SELECT A.v FROM a A, b B, c C WHERE A.k = B.k AND B.j = C.j WINDOW 5 us"
    case = Case(text, frames)
    chain = Chain(Plan.alone(case.plan), {}, 3)
    for stream, last in (("a", 3), ("b", 9), ("c", 6)):
        monkeypatch.setattr(ListeningJoin, "heard", set())
        chain.run_batch(
            pack(Plan.alone(case.plan), stream, case.arrivals[stream].slice(0, last + 1), 3), [False, False]
        )
    assert ListeningJoin.heard == {("A.k", (3, 9)), ("B.j", (3, 6))}
