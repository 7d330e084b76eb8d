"""Laws 2 to 5 for what runs inside Spark's workers, without Spark: packing, groups, their state as entries of a store.

Many small cases, each with random micro-batches, partitions and restarts; a sample of the same cases runs on Spark
itself in `test_engines.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sash.frames import Stream, table_catalog
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.spark.exchange import Message, Packer, message
from sash.spark.group import Group
from sash.spark.packing import pack_frame
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.testing.case import Case, Push
from sash.testing.strategies import batch_cuts, cases


class Store:
    """What a state store keeps of a group: entries that are put and deleted."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def save(self, group: Group) -> None:
        puts, deletes = group.take_changes()
        self.entries.update(puts)
        for key in deletes:
            del self.entries[key]


class Stage:
    """The groups of a plan, fed with micro-batches as Spark would."""

    def __init__(self, plan: Plan, relations: dict[str, pa.Table], n_groups: int):
        self._make = lambda number: Group(plan, relations, number, n_groups)
        self._groups = [self._make(number) for number in range(n_groups)]
        self._stores = [Store() for _ in range(n_groups)]

    def run_batch(self, messages: list[Message], is_restarted: bool) -> Iterator[Message]:
        for number, store in enumerate(self._stores):
            if is_restarted and store.entries:
                self._groups[number] = self._make(number)
                self._groups[number].restore(store.entries)
            yield from self._groups[number].step([each for each in messages if each.grp == number])
            store.save(self._groups[number])


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


@settings(suppress_health_check=[HealthCheck.large_base_example, HealthCheck.data_too_large])
@given(st.data())
def test_groups_give_what_embedded_gives(data):
    case = data.draw(cases())
    frames = with_slack(case)
    catalog, streams, relations = table_catalog(frames)
    plan = plan_query(bind(parse_query(case.text), catalog))
    n_groups = data.draw(st.sampled_from([1, 3])) if all(slot.partition for slot in plan.slots) else 1
    stage, changes = Stage(plan, relations, n_groups), [plan.schema.empty_table()]
    for step in data.draw(batch_cuts(case, with_advances=False)):
        assert isinstance(step, Push)
        if step.stream in plan.streams:
            rows = streams[step.stream].slice(step.start, step.stop - step.start)
            messages = pack(plan, step.stream, rows, n_groups)
            changes += tables(stage.run_batch(messages, data.draw(st.booleans())), "changes")
    end = [message("complete", {"complete_us": None}, group) for group in range(n_groups)]
    changes += tables(stage.run_batch(end, True), "changes")
    assert sorted_rows(pa.concat_tables(changes)) == sorted_rows(case.run())


def tables(answers: Iterator[Message], kind: str) -> list[pa.Table]:
    return [each.table for each in answers if each.kind == kind]


def sorted_rows(changes: pa.Table) -> list[str]:
    return sorted(repr(row) for row in changes.to_pylist())
