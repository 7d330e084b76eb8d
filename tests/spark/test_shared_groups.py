"""Law 8 for what runs inside Spark's workers, without Spark: layers of groups, their state as entries of a store, and
sets of queries that change between batches.

As in Spark, a worker has one pipeline for all groups of a fragment. Before every batch a group goes on as it was left,
with whichever worker, or is built anew from its store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sash
from sash.frames import Stream, table_catalog
from sash.operators.operator_names import EntryName, TapName
from sash.operators.pipeline import Pipeline
from sash.operators.tapped_join import TappedJoin
from sash.operators.trunk import JOIN
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.join_sites import sites_of
from sash.plan.sharing.who_shares import decide_sharing
from sash.spark.exchange import OUTPUT, Message, Packer, message, to_all_groups
from sash.spark.group import Group
from sash.spark.packing import pack_frame
from sash.store.directory import Directory
from sash.store.vector import Arena, Memory
from sash.testing.case import Advance, Push
from support.profiles import law_of_groups
from support.shared_case import Add, Drop, Episode, Event, Pause, SharedCase
from support.shared_strategies import shared_cases
from support.small_arenas import SmallArenas

N_WORKERS = 2

Choose = Callable[[int], int]
"""Gives a number below another one: which of so many things happens."""


@dataclass
class Store:
    """What is kept of a group between batches."""

    head: bytes = b""
    entries: dict[str, bytes] = field(default_factory=dict)
    held: dict[str, Any] | None = None
    """As it was left in memory."""
    arena: Arena = field(default_factory=Memory)

    def save(self, group: Group) -> None:
        self.head, self.held = group.head(), group.export_live()
        puts, deletes = group.take_changes()
        self.entries.update(puts)
        for key in deletes:
            del self.entries[key]


class Run:
    """A share group that is fed with micro-batches as Spark would; it outlives its set of queries."""

    def __init__(
        self,
        n_fragments: int,
        n_groups: int,
        relations: Mapping[str, pa.Table],
        choose: Choose,
        small: SmallArenas | None = None,
    ):
        """`small` is where the groups are if they have hardly any memory."""
        self.n_fragments, self.n_groups = n_fragments, n_groups
        self._small = small
        self._relations = dict(relations)
        self._choose = choose
        self.stores = [[Store() for _ in range(n_groups)] for _ in range(n_fragments)]

    def change(self, plans: Mapping[str, QueryPlan]) -> None:
        """Goes on with other queries, with the next batch."""
        self.plan = Plan.sharing(dict(plans), self.n_fragments)
        assert len(self.plan.fragments) == self.n_fragments
        self._workers = [
            [self.plan.fragment_pipeline(number, self._relations) for _ in range(N_WORKERS)]
            for number in range(self.n_fragments)
        ]

    def push(self, stream: str, rows: pa.Table) -> list[Message]:
        pack = pack_frame(Packer(self.plan, stream, self.n_groups))
        packed = pack(iter(rows.select(self.plan.columns_read(stream)).to_batches()))
        return self.run_batch([Message(**row) for batch in packed for row in batch.to_pylist()])

    def complete(self, until_us: int | None = None, stream: str = "") -> list[Message]:
        said = message("complete", {"complete_us": until_us}, stream=stream)
        return self.run_batch(list(to_all_groups(said, self.plan, self.n_groups)))

    def run_batch(self, messages: list[Message]) -> list[Message]:
        """What leaves the last fragment."""
        clocks: set[int] = set()
        for number in range(self.n_fragments):
            answers = [each for each in messages if each.stage != number]
            for grp, store in enumerate(self.stores[number]):
                own = [each for each in messages if (each.stage, each.grp) == (number, grp)]
                if own:
                    group = self._load(number, grp, store)
                    answers += [each.packed() for each in group.step(own)]
                    store.save(group)
                    clocks.add(group.clock)
                    check_entries(group.pipeline, store)
            messages = answers
        assert {each.stage for each in messages} <= {OUTPUT}
        assert len(clocks) == 1, "groups that have not heard of the clock"
        return messages

    def unseen_us(self, name: str) -> dict[int, int]:
        """By slot of a query, up to which time it has not seen rows."""
        pipeline = self.plan.fragment_pipeline(0, self._relations)
        group = Group(self.plan, pipeline, 0, 0, self.n_groups)
        group.restore(self.stores[0][0].head, self.stores[0][0].entries)
        join = dict(pipeline.operators())[JOIN]
        assert isinstance(join, TappedJoin)
        numbers = {tap.name: number for number, tap in enumerate(join.taps)}
        return {
            slot.number: int(join.since_us[numbers[TapName(name, number)], side])
            for number, site in enumerate(sites_of(self.plan.queries[name]))
            for side, slot in enumerate(site.slots)
        }

    def _load(self, number: int, grp: int, store: Store) -> Group:
        pipeline = self._workers[number][self._choose(N_WORKERS)]
        group = Group(self.plan, pipeline, number, grp, self.n_groups)
        if store.head and group.goes_on(store.head) and self._choose(2):
            assert store.held is not None
            if self._small and isinstance(store.arena, Directory):
                store.held, store.arena = self._small.hand_over(store.held, store.arena)
            assert store.held is not None
            group.import_live(store.held)
            return group
        store.arena = self._small.create() if self._small else Memory()
        group.reset(store.arena)
        if store.head:
            group.restore(store.head, store.entries)
        return group


def check_entries(pipeline: Any, store: Store) -> None:
    """Nothing is kept in the store that no operator knows of, and nothing is missing there."""
    assert isinstance(pipeline, Pipeline)
    assert store.entries.keys() == pipeline.entries().keys()


@pytest.mark.slow
@law_of_groups()
@given(st.data())
def test_each_query_gets_from_groups_what_it_would_get_alone(data: st.DataObject) -> None:
    case = data.draw(shared_cases(is_late=False))
    case, names = sharing(replace(case, frames=with_slack(case.frames)))
    for episode in play(case, names, data.draw(st.sampled_from([3, 1, 2])), chooser(data)):
        check_episode(case, episode)


@pytest.mark.slow
@law_of_groups()
@given(st.data())
def test_each_query_gets_it_from_groups_with_hardly_any_memory_as_well(data: st.DataObject) -> None:
    case = data.draw(shared_cases(is_late=False))
    case, names = sharing(replace(case, frames=with_slack(case.frames)))
    with TemporaryDirectory() as directory:
        for episode in play(case, names, data.draw(st.sampled_from([2, 1])), chooser(data), Path(directory)):
            check_episode(case, episode)


def check_episode(case: SharedCase, episode: Episode) -> None:
    """Groups do not wait for the clock with pairs, so a query that ends early may have got some not yet due."""
    seen, due = rows_of(episode.changes), rows_of(case.alone(episode))
    if episode.is_finished:
        assert seen == due, episode.name
    else:
        assert due <= seen <= rows_of(case.alone(replace(episode, is_finished=True))), episode.name


def rows_of(changes: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in changes.to_pylist())


def chooser(data: st.DataObject) -> Choose:
    return lambda n: data.draw(st.integers(0, n - 1))


def with_slack(frames: Mapping[str, Any]) -> dict[str, Any]:
    """A recording is put in order of time on its way in; here its rows come in that order to begin with."""
    arrivals = table_catalog(frames)[1]
    return {
        name: Stream(arrivals[name], frame.time, frame.slack_us or 0, frame.tie) if isinstance(frame, Stream) else frame
        for name, frame in frames.items()
    }


def sharing(case: SharedCase) -> tuple[SharedCase, list[str]]:
    """The case with the first of its largest share group there all the time, and the names of the group."""
    plans = decide_sharing({name: each.plan for name, each in case.cases.items()}).plans
    groups = [[*plan.queries] for plan in plans if plan.trunk is not None]
    assume(groups)
    names = max(groups, key=len)
    events: list[Event] = [Add(names[0])]
    for event in case.events:
        if isinstance(event, Push | Advance) or (event.name in names and event.name != names[0]):
            events.append(event)
    return SharedCase(case.texts, case.frames, events), names


@dataclass
class Play:
    """What the queries of a run have got so far."""

    case: SharedCase
    run: Run
    wanted: set[str] = field(default_factory=set)
    running: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)
    given: dict[str, list[pa.Table]] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    has_begun: bool = False

    def take(self, number: int, event: Event) -> None:
        if isinstance(event, Push | Advance):
            if not isinstance(event, Push) or event.start < event.stop:
                self._take_step(number, event)
        elif isinstance(event, Drop | Pause):
            self.wanted.discard(event.name)
        else:
            self.wanted.add(event.name)

    def end(self) -> list[Episode]:
        number = len(self.case.events)
        self._change(number)
        self._give(self.run.complete())
        for name in list(self.running):
            self._close(number, name, is_finished=True)
        return self.episodes

    def _take_step(self, number: int, event: Push | Advance) -> None:
        streams = next(iter(self.case.cases[name] for name in self.wanted)).plan.streams
        if event.stream is not None and event.stream not in streams:
            return
        self._change(number)
        if isinstance(event, Push):
            self._give(self.run.push(event.stream, self.case.rows(event)))
        else:
            self._give(self.run.complete(event.time_us, event.stream or ""))
        self.has_begun = True

    def _change(self, number: int) -> None:
        """A set that changes twice between two batches has changed once."""
        if self.wanted == self.running.keys():
            return
        for name in self.running.keys() - self.wanted:
            self._close(number, name)
        self.run.change({name: self.case.cases[name].plan for name in self.wanted})
        for name in self.wanted - self.running.keys():
            self.running[name] = number, self.run.unseen_us(name) if self.has_begun else {}
            self.given[name] = [self.case.cases[name].plan.schema.empty_table()]

    def _give(self, answers: Sequence[Message]) -> None:
        for each in answers:
            if each.kind == "changes":
                self.given[each.query].append(each.table)

    def _close(self, number: int, name: str, is_finished: bool = False) -> None:
        begin, unseen_us = self.running.pop(name)
        changes = pa.concat_tables(self.given.pop(name))
        self.episodes.append(Episode(name, begin, number, is_finished, unseen_us, False, changes))


def play(
    case: SharedCase, names: Sequence[str], n_groups: int, choose: Choose, directory: Path | None = None
) -> list[Episode]:
    """What each query gets. If there is a directory, groups have hardly any memory, and the rest of them is there."""
    plans = {name: case.cases[name].plan for name in names}
    n_fragments = max(2, len(Plan.sharing(plans).fragments))
    if not any(fragment.is_partitioned for fragment in Plan.sharing(plans).fragments):
        n_groups = 1
    _, _, relations = table_catalog(case.frames)
    small = SmallArenas(directory) if directory else None
    playing = Play(case, Run(n_fragments, n_groups, relations, choose, small))
    for number, event in enumerate(case.events):
        playing.take(number, event)
    return playing.end()


def keyed(rows: list[tuple[int, int, int]]) -> pa.Table:
    """Rows of time, key and value."""
    ts, k, v = zip(*rows)
    return pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": k, "v": v})


JOINED = "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 5 us"
COUNTED = "SELECT A.v, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.v WINDOW 5 us"
COUNTED_ALL = "SELECT count(*) AS n FROM a A, b B WHERE A.k = B.k WINDOW 5 us"
COUNTED_TWICE = (
    "SELECT s.n, count(*) AS m FROM (SELECT A.v, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.v WINDOW 5 us) "
    "s GROUP BY s.n"
)
TEXTS = {"joined": JOINED, "counted": COUNTED, "all": COUNTED_ALL, "twice": COUNTED_TWICE}


def scripted(sets: Sequence[str]) -> SharedCase:
    """One row of each stream after another, with other queries before each pair."""
    rows = [(number, number % 2, number % 3) for number in range(2 * len(sets))]
    frames = {name: sash.stream(keyed(rows), time="ts", slack="0 us") for name in "ab"}
    events: list[Event] = []
    for number, wanted in enumerate(sets):
        before = set(sets[number - 1].split()) if number else set()
        events += [Drop(name) for name in sorted(before - set(wanted.split()))]
        events += [Add(name) for name in wanted.split() if name not in before]
        events += [Push(stream, 2 * number, 2 * number + 2) for stream in "ab"]
    return SharedCase(TEXTS, frames, events)


SETS = {
    "a fragment is empty at first and is used later": ["joined", "joined counted", "joined counted", "joined"],
    "a fragment is empty for a while": ["joined counted", "joined", "joined", "joined counted", "joined counted"],
    "some groups of a fragment are idle for a while": ["all counted", "all", "all", "all counted", "all counted"],
    "three fragments are filled from below": ["joined", "joined counted", "joined counted twice", "joined twice"],
    "three fragments are filled at once": ["joined", "joined", "joined twice", "joined", "joined", "twice joined"],
    "a query takes the place of another": ["counted", "all", "joined", "all", "counted"],
}


@pytest.mark.slow
@pytest.mark.parametrize("is_small", [False, True])
@pytest.mark.parametrize("is_handed", [False, True])
@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
def test_fragments_that_come_into_use_and_out_of_it(
    sets: list[str], is_handed: bool, is_small: bool, tmp_path: Path
) -> None:
    case = scripted(sets)
    episodes = play(case, list(TEXTS), 3, lambda n: int(is_handed), tmp_path if is_small else None)
    assert len(episodes) > len(set(" ".join(sets).split())) - 1
    for episode in episodes:
        check_episode(case, episode)
    assert any(episode.changes.num_rows for episode in episodes if episode.begin > 1)


def test_what_was_kept_for_a_query_alone_is_freed_when_it_is_dropped() -> None:
    """Also in groups of a fragment that no other query uses."""
    case = scripted(["joined counted", "joined", "joined"])
    run = Run(2, 3, {}, lambda n: 0)
    run.change({name: case.cases[name].plan for name in ("joined", "counted")})
    for stream in "ab":
        run.push(stream, case.arrivals[stream].slice(0, 2))
    assert any(store.entries for store in run.stores[1])
    run.change({"joined": case.cases["joined"].plan})
    run.push("a", case.arrivals["a"].slice(2, 2))
    assert not any(store.entries for store in run.stores[1])
    assert {EntryName.decode(key).operator for store in run.stores[0] for key in store.entries} == {JOIN}


def test_a_query_whose_window_is_larger_than_any_before_is_partial_with_whichever_worker() -> None:
    """What it has not seen is known to whoever goes on with the group."""
    case = scripted(["joined"] * 4)
    large = replace(case, texts=TEXTS | {"large": JOINED.replace("5 us", "50 us")})
    before = [event for event in case.events if isinstance(event, Push) and event.stop <= 6]
    after = [event for event in case.events if isinstance(event, Push) and event.stop > 6]
    played = SharedCase(large.texts, large.frames, [Add("joined"), *before, Add("large"), *after])
    for choose in (lambda n: 0, lambda n: 1):
        episodes = {each.name: each for each in play(played, ["joined", "large"], 2, choose)}
        assert set(episodes["large"].unseen_us.values()) == {-1}
        for episode in episodes.values():
            check_episode(played, episode)


def test_an_attempt_that_fails_after_a_change_leaves_nothing_behind() -> None:
    """Its worker serves another group next, or the same one as another worker has left it."""
    case = scripted(["joined", "joined counted", "joined counted"])
    plans = {name: case.cases[name].plan for name in ("joined", "counted")}
    run = Run(2, 1, {}, lambda n: 0)
    run.change({"joined": plans["joined"]})
    for stream in "ab":
        run.push(stream, case.arrivals[stream].slice(0, 2))
    run.change(plans)
    run._load(0, 0, run.stores[0][0])  # and nothing more
    failed = run._workers[0]
    run._workers[0] = [run.plan.fragment_pipeline(0, {})] * N_WORKERS
    first = run.push("a", case.arrivals["a"].slice(2, 2))
    run._workers[0], run._choose = [failed[0]] * N_WORKERS, lambda n: 1
    answers = [*first, *run.push("b", case.arrivals["b"].slice(2, 2)), *run.complete()]
    counted = pa.concat_tables(each.table for each in answers if (each.kind, each.query) == ("changes", "counted"))
    check_episode(SharedCase(TEXTS, case.frames, case.events[:6]), Episode("counted", 3, 6, True, {}, False, counted))
