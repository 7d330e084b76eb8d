"""EXPLAIN under a limit on memory: what goes to disk, how much, and what that costs; and what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.plan.explain.describe_memory import SpillMeasure, measured_line

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us"))])
FIXTURES = sorted((Path(__file__).parent / "memory").glob("*.explain"))
JOIN = "SELECT A.v, B.s FROM a A, b B WHERE A.k = B.k WINDOW 10 MINUTES"


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("SASH_COSTS", str(tmp_path / "none"))
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    yield
    sash.configure()


def stream_with(rate: float | None) -> Any:
    return sash.stream(SCHEMA.empty_table(), rate=rate, distinct={"k": 100_000})


def memory_lines(text: str) -> list[str]:
    """The limit, and of each operator what goes to disk, without the branches of the tree."""
    lines = [line.strip(" │├└─") for line in text.splitlines()]
    return [line for line in lines if line.startswith(("memory ", "disk ", "Memory: "))]


def explain(text: str, memory: str, rate: float | None, verbose: bool = True) -> list[str]:
    sash.configure(memory=memory, spill="spill")
    names = [name for name in "abc" if f"{name} {name.upper()}" in text]
    return memory_lines(sash.explain(text, verbose=verbose, **{name: stream_with(rate) for name in names}))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_what_goes_to_disk(path: Path, request: pytest.FixtureRequest) -> None:
    """A fixture is a limit and a rate, a query, and what a verbose EXPLAIN says of memory."""
    limit, sql, _ = path.read_text(encoding="utf-8").split("\n\n")
    memory, rate = limit.split(", ")
    told = explain(sql, memory, None if rate == "unknown" else float(rate))
    seen = "\n\n".join([limit, sql, "\n".join(told) + "\n"])
    if request.config.getoption("--rewrite-goldens", default=False):
        path.write_text(seen, encoding="utf-8")
    assert seen == path.read_text(encoding="utf-8")


def test_the_short_one_has_the_last_line() -> None:
    (line,) = explain(JOIN, "256 MiB", 20_000, verbose=False)
    assert line == explain(JOIN, "256 MiB", 20_000)[-1]


def test_without_a_limit_nothing_is_said() -> None:
    sash.configure()
    assert memory_lines(sash.explain(JOIN, verbose=True, a=stream_with(1e6), b=stream_with(1e6))) == []


def test_rates_that_are_observed_count() -> None:
    times = pa.array(range(0, 100_000_000, 1000), pa.timestamp("us"))
    rows = pa.table({"k": pa.array(range(100_000)), "v": pa.array(range(100_000)), "ts": times})
    sash.configure(memory="1 MiB", spill="spill")
    (line,) = memory_lines(sash.explain("SELECT DISTINCT k FROM a A [RANGE 1 MINUTE]", a=rows))
    assert line.startswith("Memory: 1 MiB; about 2 MiB on disk")


def test_of_queries_that_share_a_join_it_counts_once() -> None:
    session = sash.Session(memory="64 MiB")
    for name in "ab":
        session.stream(name, SCHEMA.empty_table(), rate=20_000, distinct={"k": 100_000})
    session.query("one", JOIN)
    (alone,) = memory_lines(session.explain())
    session.query("other", JOIN.replace("10", "5"))
    (shared,) = memory_lines(session.explain())
    assert shared.split("; ")[1] == alone.split("; ")[1]
    told = memory_lines(session.explain(verbose=True))
    assert len(told) == 2
    assert told[0].startswith("memory     about")


def test_what_a_run_has_written() -> None:
    nothing = SpillMeasure(1 << 20, bytes_written=0, n_files=0, bytes_read=0, most_mapped_bytes=0)
    assert measured_line(nothing) == "Memory: 1 MiB; all has fitted: nothing was written\n"
    some = SpillMeasure(1 << 20, bytes_written=3 << 20, n_files=7, bytes_read=9 << 20, most_mapped_bytes=1 << 16)
    assert measured_line(some) == (
        "Memory: 1 MiB; 3 MiB written to 7 segments, 9 MiB read of them; at most 64 KiB in mapped files\n"
    )


@pytest.mark.slow
def test_analyze_says_what_was_written(tmp_path: Path) -> None:
    times = pa.array(range(0, 3_000_000, 1000), pa.timestamp("us"))
    rows = pa.table({"k": pa.array(range(3000)), "v": pa.array(range(3000)), "ts": times})

    def told() -> str:
        text = "SELECT A.v FROM a A, b B WHERE A.k = B.k WINDOW 2 SECONDS"
        return sash.explain(text, analyze=True, a=rows, b=rows)

    sash.configure(memory="100k", spill=tmp_path)
    assert " segments, " in memory_lines(told())[0]
    sash.configure(memory="64m", spill=tmp_path)
    assert memory_lines(told()) == ["Memory: 64 MiB; all has fitted: nothing was written"]
