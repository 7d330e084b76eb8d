"""The stateful stage: a fragment's partition groups inside Spark's `transformWithState`.

Spark's state store keeps the group's blocks; its rows and indexes rest in the cache between batches. A random token
tells whether the group in the cache is the one whose state was committed: every attempt writes a fresh one, so what a
failed or rolled-back attempt left behind never matches, and the group is rebuilt from the blocks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql.streaming import StatefulProcessor

from sash.operators.pipeline import Pipeline
from sash.plan.arrival import load_arrived
from sash.plan.physical import Plan
from sash.runtime.table_versions import versions_of
from sash.spark.arrival_log import read_record, read_rows
from sash.spark.exchange import DRIVER, OUTPUT, Message, message
from sash.spark.group import Group
from sash.spark.group_cache import GroupCache, open_group_cache
from sash.spark.machine_budget import MachineBudget
from sash.spark.mapped_object import MappedObject
from sash.spark.metrics import Stopwatch, state_facts
from sash.spark.place_tables import PlacedTables
from sash.store.directory import Directory

PIPELINES_IN_MEMORY = 8
SMALL_BYTES = 1 << 16
HEAD = "head"
"""The entry that changes with every batch: the token, and the head of the group."""
TOKEN_BYTES = 16

Answer: TypeAlias = Callable[[Message], Iterable[Message]]
"""What becomes of a message that is meant for the output."""

_pipelines: OrderedDict[tuple[str, int], Pipeline] = OrderedDict()
"""This worker's pipelines by plan with its relations, and fragment, between groups; the one used last comes last."""
_met: dict[tuple[str, int], dict[str, tuple[str, str, str]]] = {}
"""Of these, by table that is read as of arrival, in which file they look up."""


def _random_token() -> bytes:
    return os.urandom(TOKEN_BYTES)


class GroupStage(StatefulProcessor):
    """Runs the groups of one fragment, of which a partitioned one has `n_groups`.

    `make_answer` is called in the worker, once per task; without it messages for the output pass through. `new_token`
    must never give the same token twice; a token has `TOKEN_BYTES` bytes.
    """

    def __init__(
        self,
        plan: Plan,
        relations: Mapping[str, pa.Table] | MappedObject,
        fragment: int,
        n_groups: int,
        budget: MachineBudget,
        make_answer: Callable[[], Answer] | None = None,
        new_token: Callable[[], bytes] = _random_token,
        placed: PlacedTables | None = None,
        arrivals: str | None = None,
    ):
        """`relations` are whole; those of `placed` are cut into segments, and what is said there of all of them counts.
        `arrivals` is where the records are of tables that are read as of arrival, if there are any.
        """
        self._plan = plan
        self._relations = relations
        self._prepared = dict(placed.prepared) if placed else {}
        self._tables = dict(placed.versions) if placed else versions_of(plan, _rows_of(relations))
        self._pipeline_key = _fingerprint(plan, self._tables, [each.path for each in self._prepared.values()]), fragment
        self._fragment = fragment
        self._n_groups = n_groups
        self._budget = budget
        self._make_answer = make_answer
        self._new_token = new_token
        self._arrivals = arrivals

    def init(self, handle: Any) -> None:
        # One state variable: each one costs every task some milliseconds.
        self._entries = handle.getMapState("entries", "key string", "value binary")
        self._answer: Answer | None = None

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """What is meant for others passes through; where nothing else comes, there is no group."""
        messages = [Message(*row) for frame in rows for row in frame[list(Message._fields)].itertuples(index=False)]
        own = [each for each in messages if each.stage == self._fragment]
        others = (each for each in messages if each.stage != self._fragment)
        yield from _to_frames(self._answered(chain(others, self._run_group(own) if own else ())))

    def close(self) -> None:
        """A worker may keep the stage for the next task."""
        self._entries: Any = None
        self._answer = None

    def _answered(self, messages: Iterable[Message]) -> Iterator[Message]:
        for each in messages:
            if each.stage == OUTPUT and self._make_answer is not None:
                self._answer = answer = self._answer or self._make_answer()
                yield from (told._replace(stage=DRIVER) for told in answer(each))
            else:
                yield each

    def _run_group(self, messages: list[Message]) -> Iterator[Message]:
        watch, number = Stopwatch(), int(messages[0].grp)
        batch = _batch_id()
        pipeline = self._pipeline(batch)
        group = Group(self._plan, pipeline, self._fragment, number, self._n_groups, self._tables, batch)
        cache = self._open_cache()
        name = f"{_query_id()}-{self._plan.fingerprint[:16]}-{self._fragment}-{number}"
        with watch.state:
            arena = self._load(group, cache, name)
        answers = group.step(messages)
        while True:
            with watch.step:
                answer = next(answers, None)
            if answer is None:
                break
            yield answer
        with watch.state:
            self._save(group, cache, name, arena, batch)
        yield message("state", state_facts(group, cache.moves, watch, arena.spill_counts), number)

    def _load(self, group: Group, cache: GroupCache, name: str) -> Directory:
        """Lets the group go on as committed: from the cache if it has that, else from its blocks."""
        saved = self._entries.getValue((HEAD,))
        token, head = (saved[0][:TOKEN_BYTES].hex(), saved[0][TOKEN_BYTES:]) if saved else (None, b"")
        found = cache.check_out(name, token) if token and group.goes_on(head) else None
        if found:
            state, arena = found
            group.import_live(state)
            return arena
        arena = cache.create(name)
        group.reset(arena)
        if token:
            cache.moves.n_rebuilds += 1
            group.restore(head, _Entries(self._entries))
        return arena

    def _save(self, group: Group, cache: GroupCache, name: str, arena: Directory, batch: int) -> None:
        puts, deletes = group.take_changes()
        for entry, value in puts.items():
            self._entries.updateValue((entry,), (value,))
        for entry in deletes:
            self._entries.removeKey((entry,))
        token = self._new_token()
        self._entries.updateValue((HEAD,), (token + group.head(),))
        cache.check_in(name, token.hex(), group.export_live(), arena, batch)

    def _pipeline(self, batch: int = 0) -> Pipeline:
        """The pipeline of this fragment, as the last group has left it, with the tables that the batch has met."""
        key = self._pipeline_key
        if key not in _pipelines:
            relations = _rows_of(self._relations)
            _pipelines[key] = self._plan.fragment_pipeline(self._fragment, relations, self._prepared)
            _met.pop(key, None)
        _pipelines.move_to_end(key)
        while len(_pipelines) > PIPELINES_IN_MEMORY:
            _pipelines.popitem(last=False)
        if self._arrivals:
            self._meet(Path(self._arrivals), _pipelines[key], batch)
        return _pipelines[key]

    def _meet(self, directory: Path, pipeline: Pipeline, batch: int) -> None:
        record = read_record(directory, batch)
        files = {name: (str(directory), met.file, met.sha256) for name, met in record.items()}
        if _met.get(self._pipeline_key) != files:
            rows = {name: read_rows(directory, met) for name, met in record.items()}
            pipeline.replace_relations(load_arrived(self._plan, rows))
            _met[self._pipeline_key] = files

    def _open_cache(self) -> GroupCache:
        return open_group_cache(_local_directories(), os.getppid(), self._budget)


def _local_directories() -> list[Path]:
    """Those of this executor: Spark tells its workers, on every disk that it may use."""
    told = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each]
    return [Path(each) for each in told] or [Path(SparkFiles.getRootDirectory())]


def _rows_of(relations: Mapping[str, pa.Table] | MappedObject) -> Mapping[str, pa.Table]:
    return relations.load() if isinstance(relations, MappedObject) else relations


class _Entries(Mapping[str, bytes]):
    """A group's entries in the state store, each read when it is asked for: together they may exceed the memory."""

    def __init__(self, state: Any):
        self._state = state
        self._keys = [key[0] for key in state.keys() if key[0] != HEAD]  # noqa: SIM118

    def __getitem__(self, key: str) -> bytes:
        return self._state.getValue((key,))[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _to_frames(messages: Iterable[Message]) -> Iterator[pd.DataFrame]:
    """Messages as Spark wants them: small ones together, large ones one by one."""
    held: list[Message] = []
    for each in messages:
        each = each.packed()
        held.append(each)
        if len(each.payload) > SMALL_BYTES:
            yield pd.DataFrame(held, columns=list(Message._fields))
            held = []
    if held:
        yield pd.DataFrame(held, columns=list(Message._fields))


def _fingerprint(plan: Plan, tables: Mapping[str, str], paths: list[str]) -> str:
    """Tells apart plans whose pipelines differ: in their operators, in what is in their relations, or where it is."""
    return hashlib.sha256(json.dumps([plan.edition, tables, paths]).encode()).hexdigest()


def _batch_id() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or 0)


def _query_id() -> str:
    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty("sql.streaming.queryId") or ""
