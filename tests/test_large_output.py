"""What a step puts out may be far more than memory holds: it comes in parts, and is the same as ever."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.embedded.running_job import RunningJob
from sash.operators import branch
from sash.operators.distinct import Distinct
from sash.operators.group_by import GroupBy
from sash.operators.limited_steps import _LimitedStep
from sash.operators.membership import Membership
from sash.operators.node import Node
from sash.operators.window_join import WindowJoin
from sash.store import sorted_runs
from sash.store.sorted_runs import LEAST_RUN_BYTES
from sash.testing import assert_changes
from support.profiles import everyday

MEMORY = 1 << 17
N_ROWS = 200


def rows_of(seed: int, us_of: Callable[[np.ndarray], np.ndarray]) -> pa.Table:
    rng, numbers = np.random.default_rng(seed), np.arange(N_ROWS)
    keys, values = rng.integers(0, 2, N_ROWS), rng.integers(0, 9, N_ROWS)
    return pa.table({"k": keys, "v": values, "s": pa.array([f"{n}" for n in numbers]), "ts": us_of(numbers)})


FRAMES = {
    "one instant": {name: rows_of(seed, np.zeros_like) for seed, name in enumerate("ab")},
    "some instants": {name: rows_of(seed, lambda numbers: numbers // 40) for seed, name in enumerate("ab")},
    "many instants": {name: rows_of(seed, lambda numbers: numbers) for seed, name in enumerate("ab")},
}
JOIN = "FROM a A, b B WHERE A.k = B.k"
TEXTS = {
    "pairs": f"SELECT A.s, B.s AS other, B.v {JOIN} WINDOW 1 SECOND",
    "residual": f"SELECT A.s, B.s AS other {JOIN} AND A.v < B.v WINDOW 1 SECOND",
    "groups": f"SELECT A.v, count(*) AS n {JOIN} GROUP BY A.v WINDOW 100 MICROSECONDS",
    "distinct": f"SELECT DISTINCT A.v, B.v AS w {JOIN} WINDOW 100 MICROSECONDS",
}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    yield
    sash.configure()


def streams(name: str) -> dict[str, Any]:
    return {stream: sash.stream(rows, time="ts") for stream, rows in FRAMES[name].items()}


@pytest.mark.slow
@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("text", TEXTS)
def test_the_answer_is_the_same_row_by_row(text: str, frames: str, tmp_path: Path) -> None:
    expected = sash.sql(TEXTS[text], **streams(frames))
    sash.configure(memory=MEMORY, spill=tmp_path)
    assert_changes(sash.sql(TEXTS[text], **streams(frames)), expected)
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("frames", FRAMES)
def test_queries_that_share_a_join_get_theirs(frames: str, tmp_path: Path) -> None:
    def run() -> dict[str, pa.Table]:
        session = sash.Session()
        for name, rows in FRAMES[frames].items():
            session.stream(name, rows, time="ts")
        for name, text in TEXTS.items():
            session.query(name, text)
        return session.run()

    expected = run()
    sash.configure(memory=MEMORY, spill=tmp_path)
    for name, changes in run().items():
        assert_changes(changes, expected[name])


@pytest.mark.slow
@pytest.mark.parametrize("frames", FRAMES)
def test_it_comes_in_parts(frames: str, tmp_path: Path) -> None:
    """Whoever takes changes as they come, as a script does, has a part of them at a time."""
    sash.configure(memory=MEMORY, spill=tmp_path)
    job: RunningJob = sash.query(TEXTS["pairs"], **streams(frames))._job
    sizes: list[int] = []
    for name, rows in FRAMES[frames].items():
        sizes += [changes.nbytes for _, changes in job.push(name, rows)]
    sizes += [changes.nbytes for _, changes in job.finish()]
    assert sum(sizes) > 4 * MEMORY
    assert max(sizes) <= LEAST_RUN_BYTES


WINDOW = "WINDOW 100 MICROSECONDS"
RANGE = "[RANGE 100 MICROSECONDS]"
ABOVE = {
    GroupBy: TEXTS["groups"],
    Distinct: f"SELECT DISTINCT A.s, B.s AS other {JOIN} {WINDOW}",
    Membership: f"SELECT A.v, B.s AS other {JOIN} {WINDOW}"
    f" INTERSECT ALL SELECT A.v, B.s AS other {JOIN} AND A.v < B.v {WINDOW}",
    WindowJoin: "SELECT D.s, D.other, C.v FROM"
    f" (SELECT DISTINCT A.s, B.s AS other {JOIN} {WINDOW}) D, a C {RANGE} WHERE D.s = C.s",
}
"""By what takes an instant in parts, a query in which it does."""


LITTLE, N_FEW = 1 << 16, 80


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "LEAST_RUN_BYTES", 1 << 14)


def some_of(frames: str) -> dict[str, Any]:
    return {name: sash.stream(rows.slice(0, N_FEW), time="ts") for name, rows in FRAMES[frames].items()}


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("operator", ABOVE)
def test_an_instant_is_taken_in_parts(operator: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs an instant has, those at hand are as many as memory has room for."""
    expected = sash.sql(ABOVE[operator], **some_of("one instant"))
    sizes = weigh(monkeypatch, operator)
    sash.configure(memory=LITTLE, spill=tmp_path)
    assert_changes(sash.sql(ABOVE[operator], **some_of("one instant")), expected)
    assert sum(sizes) > LITTLE
    assert max(sizes) <= LITTLE // 4


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("frames", everyday(["one instant"], ["one instant", "some instants"]))
@pytest.mark.parametrize(
    "text",
    [
        f"SELECT A.s, B.s AS t {JOIN} {WINDOW} EXCEPT SELECT A.s, B.s AS t {JOIN} AND A.v < B.v {WINDOW}",
        f"SELECT A.v, B.s AS t {JOIN} {WINDOW} UNION SELECT A.v, B.s AS t {JOIN} AND A.v < B.v {WINDOW}",
        f"SELECT A.s, B.s AS t, C.v FROM a A {RANGE} JOIN b B {RANGE} ON A.k = B.k"
        f" LEFT JOIN a C {RANGE} ON A.s = C.s AND C.v > 4",
        f"SELECT A.s, B.s AS t {JOIN} AND NOT EXISTS (SELECT 1 FROM a C {RANGE} WHERE C.v = B.v AND C.v > 6) {WINDOW}",
    ],
    ids=["except", "union", "outer join", "not exists"],
)
def test_nobody_above_a_join_has_more_at_hand_than_memory(
    text: str, frames: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, sizes = sash.sql(text, **some_of(frames)), weigh(monkeypatch, object)
    sash.configure(memory=LITTLE, spill=tmp_path)
    assert_changes(sash.sql(text, **some_of(frames)), expected)
    assert sum(sizes) > LITTLE
    assert max(sizes) <= LITTLE // 4


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_taps_of_a_shared_join_give_an_instant_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> dict[str, pa.Table]:
        session = sash.Session()
        for name, rows in FRAMES["one instant"].items():
            session.stream(name, rows.slice(0, N_FEW), time="ts")
        for name, text in {"groups": TEXTS["groups"], "distinct": ABOVE[Distinct]}.items():
            session.query(name, text)
        assert "once for 2 queries" in session.explain()
        return session.run()

    expected, sizes = run(), weigh(monkeypatch, object)
    sash.configure(memory=LITTLE, spill=tmp_path)
    for name, changes in run().items():
        assert_changes(changes, expected[name])
    assert sum(sizes) > LITTLE
    assert max(sizes) <= LITTLE // 4


def weigh(monkeypatch: pytest.MonkeyPatch, wanted: type) -> list[int]:
    """How large what operators of a kind are given at once is, and what they give."""
    sizes: list[int] = []
    process, take = _LimitedStep._process, _LimitedStep._take

    def see(step: _LimitedStep, node: Node, tables: Sequence[pa.Table]) -> None:
        if isinstance(step.tree.operator_of(node), wanted):
            sizes.append(sum(each.nbytes for each in tables))

    def process_weighed(step: _LimitedStep, node: Node, inputs: list[pa.Table], clock: int) -> Iterator[pa.Table]:
        see(step, node, inputs)
        for part in process(step, node, inputs, clock):
            see(step, node, [part])
            yield part

    def take_weighed(step: _LimitedStep, node: Node, *given: Any) -> None:
        see(step, node, given[1])
        take(step, node, *given)

    monkeypatch.setattr(_LimitedStep, "_process", process_weighed)
    monkeypatch.setattr(_LimitedStep, "_take", take_weighed)
    return sizes


def test_what_fits_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sash.configure(memory="64m", spill=tmp_path / "not there")
    sash.sql(TEXTS["pairs"], **streams("one instant"))
    assert not (tmp_path / "not there").exists()


def test_without_a_limit_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(branch, "SortedRuns")
    assert sash.sql(TEXTS["pairs"], **streams("one instant")).num_rows > N_ROWS**2 // 3
