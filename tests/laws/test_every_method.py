"""Law 6 over the whole matrix: how pairs are found, in how much memory, in blocks of how many rows, does not show.

method     tiered, hash in memory, whj, wnl, ewj, rpwj, ahewj
memory     one block, 64 KB, no limit          blocks of 1, 2 and 16 rows          1, 2 and 7 parts
rows       by `sash.sql`; in steps; with a restart after every step; with another method after every step; in a
           session, with a query that may share the join. In order of time or not, within the slack.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.cost import replan
from sash.cost.join_cost import AHEWJ, EWJ, RPWJ, WHJ, WNL
from sash.frames import Relation, Stream
from sash.operators.window_join import WindowJoin
from sash.oracle.snapshot_law import check_snapshot
from sash.papers.exact.exact_index import ExactJoinIndex
from sash.store import keys
from sash.testing import Case, assert_changes
from sash.testing.case import Step
from sash.testing.strategies import KEY_TYPES, TIME_TYPES, batch_cuts, delayed, schemas, streams
from support.join_settings import BLOCKS, BUDGETS, METHODS, ONE_BLOCK, PARTS, SOME, TIERED, JoinSetting, Restless
from support.profiles import volume
from support.shared_case import Add, SharedCase

N_CASES = volume(dev=3, ci=40, deep=2000)
MOST_ROWS = 120
_FAMILIES = ("number", "string", "number", "instant", "boolean")
_KEYS = ("{x}.k = {y}.k", "{x}.k = {y}.k AND {x}.j = {y}.j", "{x}.v = {y}.v", "{x}.v % 2 = {y}.v % 2")
_RESIDUALS = ("", "", " AND {x}.v < {y}.v", " AND ({x}.v IS NULL OR {y}.v > 1)")
_SELECTS = (
    "SELECT A.k, A.v, B.v AS w FROM {source}",
    "SELECT * FROM {source}",
    "SELECT A.v, count(*) AS n FROM {source} GROUP BY A.v",
    "SELECT DISTINCT A.k, B.j FROM {source}",
)
_LENGTHS = st.sampled_from((5, 1, 3, 20, 90, 1_000_000))
_SELDOM = st.sampled_from((False, False, False, True))


@dataclass(frozen=True)
class Run:
    """A query, how its pairs are found, and how its rows come."""

    case: Case
    setting: JoinSetting
    turns: list[JoinSetting]
    """The methods that take turns; none if the setting's stays."""
    way: str
    steps: list[Step]
    has_collisions: bool
    """Whether all keys that are hashed have one hash."""
    is_compared: bool
    """Whether DuckDB is asked as well."""

    @property
    def hinted(self) -> Case:
        return self.case if self.turns else hinted(self.case, self.setting)

    def changes(self) -> pa.Table:
        if self.way == "sql":
            return sash.sql(self.hinted.text, **self.case.frames)
        if self.way == "session":
            return self._in_session()
        restarts = range(len(self.steps)) if self.way == "restarts" else ()
        return self.hinted.replay(self.steps, restart_after=restarts)[0]

    def _in_session(self) -> pa.Table:
        """Together with another query that may share the join, if it is one without more above it."""
        texts = {"q": self.hinted.text}
        if self.case.text.startswith("SELECT A.k"):
            texts["other"] = self.case.text.replace("SELECT", "SELECT 1 AS one,", 1)
        session = SharedCase(texts, self.case.frames, [*map(Add, texts), *self.steps])
        (changes,) = (episode.changes for episode in session.play() if episode.name == "q")
        return changes


def hinted(case: Case, setting: JoinSetting) -> Case:
    return Case(case.text.replace("SELECT", f"SELECT /*+ {setting.hint} */", 1), case.frames)


JOIN_SETTINGS = st.builds(
    JoinSetting, st.sampled_from(METHODS), st.sampled_from(BUDGETS), st.sampled_from(BLOCKS), st.sampled_from(PARTS)
)


@st.composite
def join_cases(draw: st.DrawFn) -> Case:
    """Two streams, or one with itself, joined on keys with NULLs and ties in time, each with a window of its own."""
    families = draw(st.tuples(*[st.sampled_from(_FAMILIES)] * 2))
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    names = draw(st.sampled_from((("a", "b"), ("a", "b"), ("a", "b"), ("a", "a"))))
    frames: dict[str, Stream | Relation] = {
        name: draw(schemas(families, time).flatmap(_long_streams if draw(st.booleans()) else _short_streams))
        for name in sorted(set(names))
    }
    if draw(st.booleans()):
        window, windows = f" WINDOW {draw(_LENGTHS)} us", ["", ""]
    else:
        window, windows = "", [" [NOW]" if draw(_SELDOM) else f" [RANGE {draw(_LENGTHS)} us]" for _ in names]
    condition = (draw(st.sampled_from(_KEYS)) + draw(st.sampled_from(_RESIDUALS))).format(x="A", y="B")
    source = f"{names[0]} A{windows[0]}, {names[1]} B{windows[1]} WHERE {condition}"
    return Case(draw(st.sampled_from(_SELECTS)).format(source=source) + window, frames)


def _short_streams(schema: pa.Schema) -> st.SearchStrategy[Stream]:
    return streams(schema, max_rows=12, least=(2, 6, 11, 0))


@st.composite
def _long_streams(draw: st.DrawFn, schema: pa.Schema) -> Stream:
    """So many rows that 64 KB are too few; they come in order of time, or within the slack."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, slack_us = draw(st.integers(0, MOST_ROWS)), draw(st.sampled_from((0, 3, 10)))
    times = pa.array(np.cumsum(rng.choice([0, 0, 1, 1, 2, 9], n_rows)), pa.int64())
    columns = [
        times.cast(field.type) if field.name == "ts" else pa.array(_cells(field, rng, n_rows), field.type)
        for field in schema
    ]
    rows = delayed(pa.table(columns, schema=schema), rng.integers(0, slack_us + 1, n_rows).tolist())
    return sash.stream(rows, time="ts", slack=f"{slack_us} us")


def _cells(field: pa.Field, rng: np.random.Generator, n_rows: int) -> list:
    values: Mapping[pa.DataType, tuple] = {type: each for family in KEY_TYPES.values() for type, each in family.items()}
    pool = [0, 1, 2, 3, None] if field.name == "v" else [*values[field.type], None]
    return [pool[place] for place in rng.integers(0, len(pool), n_rows)]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    case, setting = draw(join_cases()), draw(JOIN_SETTINGS)
    way = draw(st.sampled_from(("steps", "restarts", "turns", "sql", "session")))
    turns = draw(st.lists(JOIN_SETTINGS, min_size=2, max_size=4)) if way == "turns" else []
    return Run(case, setting, turns, way, draw(batch_cuts(case)), draw(_SELDOM), draw(_SELDOM))


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("spill")
    yield directory
    gc.collect()
    assert list(directory.iterdir()) == [], "files that nobody needs any more"


@settings(max_examples=N_CASES)
@given(run=runs())
def test_every_method_gives_the_same_changes(spill: Path, run: Run) -> None:
    expected = run.case.run("hash")
    with pytest.MonkeyPatch.context() as patch, run.setting.in_force(spill):
        if run.has_collisions:
            patch.setattr(keys, "hash_rows", lambda arrays: np.zeros(len(arrays[0]), np.uint64))
        if run.turns:
            patch.setattr(replan, "POLICY", Restless(methods=cycle(each.join_method for each in run.turns)))
        changes = run.changes()
    assert_changes(changes, expected)
    if run.is_compared:
        check_snapshot(run.case.bound, run.case.tables, expected)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [ONE_BLOCK, SOME])
@pytest.mark.parametrize("method", [TIERED, WHJ, WNL, EWJ, RPWJ, AHEWJ])
def test_rows_are_on_disk_then(spill: Path, method: str, budget: str) -> None:
    """That the cases above are about what they say."""
    rows = pa.table({"k": np.arange(200) % 7, "ts": np.arange(200)})
    frames: dict[str, Stream | Relation] = {name: sash.stream(rows, time="ts") for name in "ab"}
    setting = JoinSetting(method, budget, block_rows=1, n_part=2)
    case = hinted(Case("SELECT A.k FROM a A, b B WHERE A.k = B.k WINDOW 150 us", frames), setting)
    n_written = []
    with setting.in_force(spill):
        running = case.start()
        for first in range(0, 200, 50):
            for name in "ab":
                running.push(name, rows.slice(first, 50))
            n_written.append(_n_bytes_on_disk(running))
    assert max(n_written) > 0


def _n_bytes_on_disk(running: sash.Query) -> int:
    (join,) = (operator for _, operator in running.operators() if isinstance(operator, WindowJoin))
    index = join._finder.index
    if isinstance(index, ExactJoinIndex):
        return index.disk_counts.bytes_written
    return sum(log.n_disk_bytes for log in join.logs().values())
