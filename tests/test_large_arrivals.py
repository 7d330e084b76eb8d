"""A table as of arrival that is 20 times as large as memory: every row meets the version of its batch, as DuckDB joins
them, by every method, however versions follow each other and rows are cut into batches, and after a restart anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sash.embedded.running_job import RunningJob
from sash.embedded.snapshot import seal, unseal
from sash.io.table_version import Gather, KnownVersion, TableVersion, gather_in_memory
from sash.operators.changing_relation import ChangingRelation
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.runtime.arrival_tables import ArrivalSource, ArrivalTables
from sash.sql.bind import bind
from sash.sql.catalog import RelationInfo, StreamInfo
from sash.sql.parse import parse_query
from sash.store.mapped_table import MappedGather
from sash.store.memory_budget import MemoryBudget
from support.large_relations import cut, joined, large_relation, stream_into
from support.profiles import SEED, everyday, volume

MEMORY = 1 << 15
N_ROWS = 400
WINDOW = 60
METHODS = ["", "/*+ partitioned_hash */", "/*+ partitioned_range */", "/*+ mesh */", "/*+ inl */"]
KINDS = {
    "time": "SELECT {} S.n, R.v, R.t FROM s S [RANGE 1 SECOND] JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R ON S.k = R.k",
    "rows": "SELECT {} S.n, R.v, R.t FROM s S [ROWS 60] JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R ON S.k = R.k",
    "outer": "SELECT {} S.n, R.v FROM s S [ROWS 60] LEFT JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R "
    "ON S.k = R.k AND R.v % 3 = 0",
    "groups": "SELECT {} R.t, COUNT(*) AS n, SUM(R.v) AS v FROM s S [ROWS 60] "
    "JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R ON S.k = R.k GROUP BY R.t",
    "pairs": "SELECT {} S.n, R.v, B.n AS m FROM s S [ROWS 60] JOIN r FOR SYSTEM_TIME AS OF ARRIVAL OF S R "
    "ON S.k = R.k JOIN s B [ROWS 40] ON B.k = S.k",
}


@dataclass(frozen=True)
class Case:
    batches: list[pa.Table]
    versions: list[pa.Table]
    """Of each batch."""


def next_version(rows: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Some rows go, some change, some come: anywhere, in one place, or very many of one key."""
    kind = rng.integers(0, 5)
    if kind == 0:
        return rows
    near = rng.integers(0, rows.num_rows)
    keys = rows["k"].fill_null(-1).to_numpy()
    chosen = rng.random(rows.num_rows) < 0.01 if kind == 1 else (keys >= near) & (keys < near + 60)
    kept, gone = rows.filter(pa.array(~chosen)), rows.filter(pa.array(chosen))
    again = gone.set_column(1, "v", pa.array(rng.integers(0, 10**9, gone.num_rows)))
    more = rows.take(pa.array(rng.integers(0, rows.num_rows, 3 if kind < 4 else 300)))
    if kind == 4:
        more = more.set_column(0, "k", pa.array(np.full(300, near)))
    changed = pa.concat_tables([kept, again.slice(gone.num_rows // 3), more])
    return changed.take(pa.array(rng.permutation(changed.num_rows)))


@cache
def case(number: int) -> Case:
    rng = np.random.default_rng([SEED, number])
    first = large_relation(20 * MEMORY, rng)
    assert first.nbytes >= 20 * MEMORY
    stream = stream_into(first, N_ROWS, number % 2 == 0, rng)
    batches = [*cut(stream.slice(0, N_ROWS // 2), rng), *cut(stream.slice(N_ROWS // 2), rng)]
    versions = [first]
    while len(versions) < len(batches):
        versions.append(next_version(versions[-1], rng))
    return Case(batches, versions)


def surplus(rows: pa.Table, others: pa.Table) -> pa.Table:
    left = Counter(zip(*(column.to_pylist() for column in others.columns)))
    kept = []
    for row in zip(*(column.to_pylist() for column in rows.columns)):
        kept.append(not left[row])
        left[row] -= not kept[-1]
    return rows.filter(pa.array(kept, pa.bool_()))


class Table:
    """It has the version of each batch; it is told whole, or as a difference."""

    path = None
    no_versions = None

    def __init__(self, versions: list[pa.Table], tells_differences: bool, batch: int = 0):
        self._versions, self._tells, self._batch = versions, tells_differences, batch

    def read(self, name: str) -> pa.Table:
        return self._versions[-1]

    def poll(self, name: str, known: KnownVersion | None, gather: Gather = gather_in_memory) -> TableVersion:
        at, self._batch = self._batch, self._batch + 1
        version, now = f"version {at}", self._versions[at]
        if known is None or not self._tells:
            return TableVersion(version, gather(now.schema, [now.slice(0, 500), now.slice(500)]))
        before = self._versions[at - 1]
        if now is before:
            return TableVersion(version, None)
        return TableVersion(version, *difference(now, before))


_differences: dict[tuple[int, int], tuple[pa.Table, ...]] = {}


def difference(now: pa.Table, before: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What came, and what went; each is found out once."""
    place = id(now), id(before)
    if place not in _differences:
        _differences[place] = surplus(now, before), surplus(before, now), now, before
    return _differences[place][0], _differences[place][1]


@dataclass
class Run:
    """A query beside a table that changes, and what has come of it."""

    text: str
    case: Case
    directory: Path
    is_limited: bool = True
    tells_differences: bool = True
    n_written: int = 0
    n_segments: int = 0

    def __post_init__(self) -> None:
        rows = self.case.versions[0].schema
        stream = StreamInfo(self.case.batches[0].schema, "ts")
        catalog = {"s": stream, "r": RelationInfo(rows, no_versions=None)}
        self.plan = plan_query(bind(parse_query(self.text), catalog))
        self.schema = rows
        self.start(0)

    def start(self, batch: int) -> None:
        """From what there is at the beginning of a batch."""
        state = None if batch == 0 else unseal("job", seal("job", self.job.export_state()))
        plan, budget = Plan.alone(self.plan), MemoryBudget.of(MEMORY, self.directory) if self.is_limited else None
        self.job = RunningJob(plan, {}, budget=budget)
        if state is not None:
            self.job.import_state(state)
        source = ArrivalSource("r", Table(self.case.versions, self.tells_differences, batch), self.schema, None)
        gather = MappedGather(self.directory, 1000)
        self.tables = ArrivalTables({"r": source}, plan, is_in_order=True, holder=self.job.arrived, gather=gather)

    def answer(self, restarts: tuple[int, ...] = ()) -> list[tuple]:
        """All changes, in order."""
        found = []
        for batch, rows in enumerate(self.case.batches):
            if batch in restarts:
                self.start(batch)
            self._meet(batch)
            found += [changes for _, changes in self.job.push("s", rows)]
            self.tables.leave(batch, self.job.intake.clock, self.job.intake.newest_us)
        found += [changes for _, changes in self.job.finish()]
        changes = pa.concat_tables(found).drop_columns(["_ts", "_expires"])
        return sorted(zip(*(column.to_pylist() for column in changes.columns)), key=repr)

    def _meet(self, batch: int) -> None:
        before = [self._writes(each) for each in self.files]
        self.tables.enter(batch)
        if before:
            self.n_written += sum(self._writes(each) for each in self.files) - sum(before)
            self.n_segments += sum(len(each.open().file) for each in self.files)
        self.job.meet(batch)

    @property
    def files(self) -> list[ChangingRelation]:
        held = [each.held for each in self.job.arrived._relations.values()]
        return [each for each in held if isinstance(each, ChangingRelation)]

    def _writes(self, relation: ChangingRelation) -> int:
        return int(relation.open().file.n_writes.sum())


def by_duckdb(case: Case, kind: str) -> list[tuple]:
    """What rows are given, batch by batch, and taken back when they leave a window of rows."""
    given = [pair for rows, version in zip(case.batches, case.versions, strict=True) for pair in joined(rows, version)]
    taken = [(*row, -1) for row in given if row[0] < N_ROWS - WINDOW] if kind == "rows" else []
    return sorted([*((*row, 1) for row in given), *taken], key=repr)


RUNS = [(method, kind) for kind in KINDS for method in METHODS]
USUAL = {(method, kind) for method, kind in RUNS if kind == "time" or method == METHODS[1]} | {
    (METHODS[0], "pairs"),
    (METHODS[2], "rows"),
}


@pytest.mark.slow
@pytest.mark.parametrize("method_and_kind", everyday(USUAL, RUNS), ids=str)
def test_every_row_meets_the_version_of_its_batch(method_and_kind: tuple[str, str], tmp_path: Path) -> None:
    method, kind = method_and_kind
    for number in range(volume(dev=1, ci=1, deep=30)):
        rng, drawn = np.random.default_rng([SEED, number, 1]), case(number)
        expected = Run(KINDS[kind].format(""), drawn, tmp_path, is_limited=False).answer()
        if kind in ("time", "rows"):
            assert expected == by_duckdb(drawn, kind)
        restarts = tuple(np.flatnonzero(rng.random(len(drawn.batches)) < 0.3).tolist())
        for asked in ((), restarts) if kind in ("time", "rows") else (restarts,):
            run = Run(KINDS[kind].format(method), drawn, tmp_path, tells_differences=bool(rng.integers(0, 4)))
            assert run.answer(asked) == expected
            (relation,) = run.files
            _check_cache(relation)
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith("sash-spill")]


def _check_cache(relation: ChangingRelation) -> None:
    """What is in memory is within its share, and is what is in the file."""
    lookup = relation.open()
    assert lookup._cache.n_bytes <= MEMORY // 8
    assert lookup._cache.n_bytes == sum(int(lookup.sizes[number]) for number in lookup.cached)
    for number in lookup.cached:
        kept = lookup.find_kept(number)
        assert kept is not None
        assert kept.equals(lookup.file.read(number))


@pytest.mark.parametrize("is_told", [True, False])
def test_a_version_writes_few_segments(is_told: bool, tmp_path: Path) -> None:
    """Whether its difference is told or found out: a few rows are in a few segments."""
    first = large_relation(20 * MEMORY, np.random.default_rng(SEED))
    rows = stream_into(first, 50, False, np.random.default_rng(SEED))
    keys = first["k"].fill_null(-1).to_numpy()
    versions = [first]
    for batch in range(1, 10):
        chosen = (keys >= 40 * batch) & (keys < 40 * batch + 20)
        values = np.where(chosen, -batch, versions[-1]["v"].to_numpy())
        versions.append(versions[-1].set_column(1, "v", pa.array(values)))
    drawn = Case([rows.slice(5 * batch, 5) for batch in range(10)], versions)
    text = KINDS["time"].format("/*+ partitioned_range */")
    run = Run(text, drawn, tmp_path, tells_differences=is_told)
    assert run.answer() == by_duckdb(drawn, "time")
    assert run.n_segments > 1000
    assert run.n_written < 0.05 * run.n_segments


def test_a_table_that_outgrows_memory_while_it_is_read(tmp_path: Path) -> None:
    """In memory first, charged to the budget; in a file from the version on that does not fit."""
    rng = np.random.default_rng(SEED)
    large = large_relation(2 * MEMORY, rng)
    versions = [large.slice(0, 20), large.slice(0, 30), large, large.slice(10)]
    drawn = Case([stream_into(large, 40, False, rng)] * 4, versions)
    rows = [batch.set_column(2, "ts", pa.array(np.arange(40) + 40 * at, pa.timestamp("us"))) for at, batch in
            enumerate(drawn.batches)]  # fmt: skip
    run = Run(KINDS["time"].format(""), Case(rows, versions), tmp_path)
    found = []
    for batch in range(4):
        run._meet(batch)
        assert len(run.files) == (batch >= 2)
        assert (run.job.arrived.n_bytes > 0) == (batch < 2)
        found += [changes for _, changes in run.job.push("s", rows[batch])]
        run.tables.leave(batch, run.job.intake.clock, run.job.intake.newest_us)
    found += [changes for _, changes in run.job.finish()]
    assert sum(len(each) for each in found) == len(by_duckdb(run.case, "time"))


def test_without_a_limit_a_hint_is_obeyed(tmp_path: Path) -> None:
    """And without a hint, or by one, everything is in memory."""
    rng = np.random.default_rng(SEED)
    first = large_relation(4000, rng)
    drawn = Case([stream_into(first, 50, False, rng)], [first])
    for method in [*METHODS, "/*+ replicated */"]:
        run = Run(KINDS["time"].format(method), drawn, tmp_path, is_limited=False)
        assert run.answer() == by_duckdb(drawn, "time")
        assert [each.open().layout.method for each in run.files] == [
            each for each in [method.strip("/*+ ")] if each not in ("", "replicated")
        ]
