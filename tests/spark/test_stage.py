"""Laws 2, 4 and 5 for the stateful stage, without Spark: attempts fail, hang, come back late, and are tried again.

Around the stage stands what Spark would give it: a state store that keeps what a committed attempt has written and
nothing else, and a cache that keeps whatever any attempt has left there. Whatever happens to the attempts, what the
committed ones have answered is what embedded gives.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sash
from sash.frames import Stream, table_catalog
from sash.operators.lookup_join import LookupJoin
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.spark import stage as sash_stage
from sash.spark.exchange import OUTPUT, Message, Packer, message, to_all_groups
from sash.spark.group_cache import GroupCache
from sash.spark.machine_budget import MachineBudget
from sash.spark.packing import pack_frame
from sash.spark.stage import GroupStage
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.store.directory import remove
from sash.testing.case import Case, Push
from sash.testing.strategies import batch_cuts, cases
from support.profiles import everyday

MUCH, LITTLE, NOTHING = MachineBudget(1 << 30, 1), MachineBudget(1 << 12, 1), MachineBudget(0, 1)

COMMITS, FAILS, FAILS_AT_END, HANGS = "commits", "fails", "fails when all is saved", "hangs"


@dataclass(frozen=True)
class Fate:
    """What becomes of an attempt, and what happens on the machine before it."""

    end: str = COMMITS
    n_answers: int = 0
    """How many the attempt gives before it fails or hangs."""
    is_elsewhere: bool = False
    """Another worker runs it, which has never seen this query."""
    is_evicted: bool = False
    """All that rests in the cache is lost."""
    is_haunted: bool = False
    """Attempts that have hung so far come to their end."""

    @property
    def has_effect(self) -> bool:
        """Whether the attempt takes the group from the cache, now or late, and is not committed."""
        return self.end in (FAILS_AT_END, HANGS) or (self.end == FAILS and self.n_answers > 0)


FATES = st.builds(
    Fate,
    st.sampled_from([COMMITS, COMMITS, COMMITS, FAILS, FAILS_AT_END, HANGS]),
    st.integers(0, 3),
    st.sampled_from([False, False, True]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, False, True]),
)


class Entries:
    """The map state as one attempt sees it: what was committed, and what it has itself written since."""

    def __init__(self, committed: dict[str, bytes]):
        self.values = dict(committed)

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        return (self.values[key[0]],) if key[0] in self.values else None

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self.values[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:
        del self.values[key[0]]

    def keys(self) -> Iterator[tuple[str]]:
        return iter([(key,) for key in self.values])


class Handle:
    def __init__(self, entries: Entries):
        self._entries = entries

    def getMapState(self, *_: Any) -> Entries:
        return self._entries


@dataclass
class Machine:
    """Runs the stages of a plan, batch by batch, and lets the attempts at each group come to their fates."""

    plan: Plan
    relations: dict[str, pa.Table]
    n_groups: int
    directory: Path
    budget: MachineBudget = MUCH
    n_hits: int = 0
    n_rebuilds: int = 0
    n_evictions: int = 0
    n_bytes_written: int = 0
    """Of segments."""
    n_bytes_read: int = 0
    committed: dict[tuple[int, int], dict[str, bytes]] = field(default_factory=dict)
    _hanging: list[Generator[pd.DataFrame]] = field(default_factory=list)

    def run_batch(self, messages: list[Message], fates: Iterator[Fate]) -> list[Message]:
        """The answers of the attempts that were committed."""
        for fragment in range(len(self.plan.fragments)):
            answers: list[Message] = []
            for group in sorted({each.grp for each in messages}):
                own = [each for each in messages if each.grp == group]
                answers += self._run_group(fragment, group, own, fates)
            messages = answers
        assert {each.stage for each in messages} <= {OUTPUT}
        for each in messages:
            if each.kind == "state":
                self.n_hits += each.facts["hits"]
                self.n_rebuilds += each.facts["rebuilds"]
                self.n_evictions += each.facts["evictions"]
                self.n_bytes_written += each.facts["disk_written_bytes"]
                self.n_bytes_read += each.facts["disk_read_bytes"]
        return [each for each in messages if each.kind != "state"]

    def end(self) -> None:
        for frames in self._hanging:
            frames.close()
        sash_stage._pipelines.clear()

    def _run_group(self, fragment: int, group: int, messages: list[Message], fates: Iterator[Fate]) -> list[Message]:
        while True:
            fate, entries = next(fates), Entries(self.committed.get((fragment, group), {}))
            self._prepare(fate)
            frames = self._attempt(fragment, group, messages, entries)
            if fate.end in (COMMITS, FAILS_AT_END):
                answers = [Message(*row) for frame in frames for row in frame.itertuples(index=False)]
                if fate.end == COMMITS:
                    self.committed[fragment, group] = entries.values
                    return answers
            else:
                list(islice(frames, fate.n_answers))
                self._give_up(frames, fate.end == HANGS)

    def _prepare(self, fate: Fate) -> None:
        if fate.is_elsewhere:
            sash_stage._pipelines.clear()
        if fate.is_evicted:
            for place in ("memory", "disk"):
                for path in (self.directory / place).glob("*.*"):
                    remove(path)
        if fate.is_haunted:
            for frames in self._hanging:
                list(frames)
            self._hanging = []

    def _give_up(self, frames: Generator[pd.DataFrame], is_hanging: bool) -> None:
        """An attempt that hangs keeps its worker; one that fails ends it."""
        sash_stage._pipelines.clear()
        if is_hanging:
            self._hanging.append(frames)
        else:
            frames.close()

    def _attempt(self, fragment: int, group: int, messages: list[Message], entries: Entries) -> Generator[pd.DataFrame]:
        stage = GroupStage(self.plan, self.relations, fragment, self.n_groups, self.budget)
        stage.init(Handle(entries))
        stage._open_cache = self._open_cache
        rows = pd.DataFrame(messages, columns=list(Message._fields))
        frames = stage.handleInputRows((f"label {group}",), iter([rows]), None)
        assert isinstance(frames, Generator)
        return frames

    def _open_cache(self) -> GroupCache:
        (self.directory / "memory").mkdir(exist_ok=True)
        return GroupCache(self.directory / "memory", [self.directory / "disk"], self.budget)


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    """Every message is a frame of its own, so that an attempt can fail between any two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sash_stage, "_query_id", lambda: "query")
        patch.setattr(sash_stage, "_batch_id", lambda: 0)
        patch.setattr(sash_stage, "SMALL_BYTES", -1)
        yield


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


def run(machine: Machine, streams: dict[str, pa.Table], steps: list[Push], fates: Iterator[Fate]) -> list[str]:
    """The changes of committed attempts over all rows and a completion, sorted."""
    plan, answers = machine.plan, []
    for step in steps:
        if step.stream in plan.streams and step.start < step.stop:
            rows = streams[step.stream].slice(step.start, step.stop - step.start)
            answers += machine.run_batch(pack(plan, step.stream, rows, machine.n_groups), fates)
    end = to_all_groups(message("complete", {"complete_us": None}), plan, machine.n_groups)
    answers += machine.run_batch(list(end), fates)
    machine.end()
    changes = [each.table for each in answers if each.kind == "changes"]
    (query,) = plan.queries.values()
    return sorted_rows(pa.concat_tables([query.schema.empty_table(), *changes]))


def sorted_rows(changes: pa.Table) -> list[str]:
    return sorted(repr(row) for row in changes.to_pylist())


@settings(suppress_health_check=[HealthCheck.large_base_example, HealthCheck.data_too_large, HealthCheck.too_slow])
@given(st.data())
def test_whatever_happens_to_attempts_the_changes_are_those_of_embedded(data):
    case = data.draw(cases())
    catalog, streams, relations = table_catalog(with_slack(case))
    plan = Plan.alone(plan_query(bind(parse_query(case.text), catalog)))
    n_groups, budget = data.draw(st.sampled_from([2, 1])), data.draw(st.sampled_from([MUCH, LITTLE, NOTHING]))
    steps = [step for step in data.draw(batch_cuts(case, with_advances=False)) if isinstance(step, Push)]
    drawn = data.draw(st.lists(FATES, max_size=20))
    with TemporaryDirectory() as directory:
        machine = Machine(plan, relations, n_groups, Path(directory), budget)
        assert run(machine, streams, steps, chain(drawn, repeat(Fate()))) == sorted_rows(case.run())


TWO_FRAGMENTS = (
    "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B [PARTITION BY k ROWS 3], a C "
    "WHERE A.k = B.k AND B.j = C.j WINDOW 90 us"
)


def readings(seed: int, n_rows: int = 120) -> pa.Table:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 400, n_rows))
    return pa.table({"ts": ts, "k": rng.integers(0, 5, n_rows), "j": rng.integers(0, 4, n_rows), "v": range(n_rows)})


UNHAPPY: dict[str, tuple[MachineBudget, list[Fate]]] = {
    "nothing happens": (MUCH, [Fate()]),
    "another worker each time": (MUCH, [Fate(is_elsewhere=True)]),
    "evicted to disk each time": (LITTLE, [Fate()]),
    "evicted to disk, another worker each time": (LITTLE, [Fate(is_elsewhere=True)]),
    "nothing is kept": (NOTHING, [Fate()]),
    "lost each time": (MUCH, [Fate(is_evicted=True)]),
    "each fails at once": (MUCH, [Fate(FAILS), Fate()]),
    "each fails after the first answer": (MUCH, [Fate(FAILS, 1), Fate()]),
    "each fails when all is saved": (MUCH, [Fate(FAILS_AT_END), Fate()]),
    "each fails twice": (LITTLE, [Fate(FAILS_AT_END), Fate(FAILS, 1), Fate()]),
    "each third fails": (MUCH, [Fate(), Fate(FAILS, 1), Fate(), Fate()]),
    "each hangs until the next": (MUCH, [Fate(HANGS, 1), Fate(), Fate(is_haunted=True)]),
    "each hangs before it answers": (LITTLE, [Fate(HANGS, 0), Fate(), Fate(), Fate(is_haunted=True)]),
}


LONG = {"each fails twice", "each fails at once", "each hangs before it answers", "each third fails"}
"""What others show as well, in less time."""


@pytest.mark.slow
@pytest.mark.parametrize("name", everyday(set(UNHAPPY) - LONG, UNHAPPY))
def test_two_fragments_over_many_batches(tmp_path, name):
    """Long enough for blocks to expire, for windows to be compacted, and for groups to come and go many times."""
    budget, fates = UNHAPPY[name]
    case = Case(TWO_FRAGMENTS, {each: sash.stream(readings(seed), "ts", "0 us") for seed, each in enumerate("ab")})
    assert [fragment.is_partitioned for fragment in Plan.alone(case.plan).fragments] == [True, True]
    machine = Machine(Plan.alone(case.plan), {}, 3, tmp_path, budget)
    steps = [Push(stream, start, start + 15) for start in range(0, 120, 15) for stream in "ab"]
    assert run(machine, case.arrivals, steps, cycle(fates)) == (expected := sorted_rows(case.run()))
    assert len(expected) > 100
    n_runs = (2 * 8 + 1) * 2 * 3
    n_first = 2 * 3
    is_rebuilt = budget is NOTHING or any(fate.is_evicted or fate.has_effect for fate in fates)
    assert machine.n_hits + machine.n_rebuilds == n_runs - n_first
    assert bool(machine.n_rebuilds) == is_rebuilt
    assert bool(machine.n_evictions) == (budget is LITTLE)


SHORT = MachineBudget(1 << 15, 1)
"""Not enough for the windows of a group of `LONG_JOIN`."""
LONG_JOIN = "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 200 us"

SEALING: dict[str, tuple[MachineBudget, list[Fate]]] = {
    "nothing happens": (SHORT, [Fate()]),
    "evicted to disk, another worker each time": (LITTLE, [Fate(is_elsewhere=True)]),
    "lost each time": (SHORT, [Fate(is_evicted=True)]),
    "each fails after the first answer": (SHORT, [Fate(FAILS, 1), Fate()]),
    "each fails when all is saved": (SHORT, [Fate(FAILS_AT_END), Fate()]),
    "each third hangs until the next": (SHORT, [Fate(), Fate(HANGS, 1), Fate(is_haunted=True)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEALING)
def test_windows_that_are_larger_than_a_share(tmp_path, name):
    """What is sealed is found by whoever goes on, and what a failed attempt has sealed by nobody."""
    budget, fates = SEALING[name]
    frames = {each: sash.stream(readings(seed, 600), "ts", "0 us") for seed, each in enumerate("ab")}
    case = Case(LONG_JOIN, frames)
    machine = Machine(Plan.alone(case.plan), {}, 2, tmp_path, budget)
    steps = [Push(stream, start, start + 120) for start in range(0, 600, 120) for stream in "ab"]
    assert run(machine, case.arrivals, steps, cycle(fates)) == (expected := sorted_rows(case.run()))
    assert len(expected) > 10_000
    assert machine.n_bytes_written > 0
    assert machine.n_bytes_read > 0
    for place in (tmp_path / "memory", tmp_path / "disk"):
        for path in place.glob("*-*"):
            remove(path)
    assert not list((tmp_path / "disk").iterdir())


def test_what_a_failed_attempt_has_left_is_never_taken(tmp_path):
    """It saved the group, and even put it into the cache: but the token of the committed state is another one."""
    case = Case("SELECT A.v FROM a A [ROWS 2]", {"a": sash.stream(readings(0), "ts", "0 us")})
    machine = Machine(Plan.alone(case.plan), {}, 1, tmp_path)
    steps = [Push("a", start, start + 40) for start in range(0, 120, 40)]
    fates = chain([Fate(), Fate(FAILS_AT_END), Fate(FAILS_AT_END), Fate()], repeat(Fate()))
    assert run(machine, case.arrivals, steps, fates) == sorted_rows(case.run())
    assert (machine.n_hits, machine.n_rebuilds) == (2, 1)
    (left,) = (tmp_path / "memory").glob("*.*")
    assert left.name.endswith(machine.committed[0, 0][sash_stage.HEAD][: sash_stage.TOKEN_BYTES].hex())


def test_a_late_attempt_does_not_take_the_place_of_the_committed_one(tmp_path):
    case = Case("SELECT A.v FROM a A [ROWS 2]", {"a": sash.stream(readings(0), "ts", "0 us")})
    machine = Machine(Plan.alone(case.plan), {}, 1, tmp_path)
    steps = [Push("a", start, start + 40) for start in range(0, 120, 40)]
    fates = chain([Fate(), Fate(HANGS, 1), Fate(), Fate(is_haunted=True)], repeat(Fate()))
    assert run(machine, case.arrivals, steps, fates) == sorted_rows(case.run())
    assert (machine.n_hits, machine.n_rebuilds) == (2, 1)
    assert len(list((tmp_path / "memory").glob("*.*"))) == 2


def test_a_worker_does_not_take_one_relation_for_another() -> None:
    """The same query may run again in the same worker, after its table has changed."""
    text = "SELECT a.v, r.name FROM a, r WHERE a.k = r.k WINDOW 5 us"
    stream = sash.stream(pa.table({"ts": [0], "k": [1], "v": [1]}), time="ts")
    names = []
    for name in ("old", "new"):
        catalog, _, relations = table_catalog({"a": stream, "r": pa.table({"k": [1], "name": [name]})})
        stage = GroupStage(Plan.alone(plan_query(bind(parse_query(text), catalog))), relations, 0, 1, MUCH)
        (branch,) = stage._pipeline()._branches.values()
        (lookup,) = (each for each in branch.tree._operators.values() if isinstance(each, LookupJoin))
        assert lookup._relation is not None
        names += lookup._relation.take(np.zeros(1, np.int64))["r.name"].to_pylist()
    assert names == ["old", "new"]
