"""What a step puts out may be far more than memory holds: it comes in parts, and is the same as ever."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.embedded.running_job import RunningJob
from sash.operators import pipeline as pipelines
from sash.operators.group_by import GroupBy
from sash.store.sorted_runs import LEAST_RUN_BYTES
from sash.testing import assert_changes

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


def test_groups_take_an_instant_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs an instant has, those at hand are as many as memory has room for."""
    expected = sash.sql(TEXTS["groups"], **streams("one instant"))
    sizes: list[int] = []
    monkeypatch.setattr(GroupBy, "process", weighed(GroupBy.process, sizes))
    monkeypatch.setattr(GroupBy, "take", weighed(GroupBy.take, sizes))
    sash.configure(memory=MEMORY, spill=tmp_path)
    assert_changes(sash.sql(TEXTS["groups"], **streams("one instant")), expected)
    assert sum(sizes) > 3 * MEMORY
    assert max(sizes) <= 2 * LEAST_RUN_BYTES


def weighed(method: Callable[..., Any], sizes: list[int]) -> Callable[..., Any]:
    """Notes how large what it is given is."""

    def call(operator: Any, given: Any, clock: int) -> Any:
        sizes.append(given.nbytes if isinstance(given, pa.Table) else sum(each.nbytes for each in given))
        return method(operator, given, clock)

    return call


def test_what_fits_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sash.configure(memory="64m", spill=tmp_path / "not there")
    sash.sql(TEXTS["pairs"], **streams("one instant"))
    assert not (tmp_path / "not there").exists()


def test_without_a_limit_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pipelines, "SortedRuns")
    assert sash.sql(TEXTS["pairs"], **streams("one instant")).num_rows > N_ROWS**2 // 3
