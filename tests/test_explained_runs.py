"""`sash explain` tells what `sash run` runs: who shares is one decision, also where joins go on from checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.cli.script_outputs import shared_checkpoints
from sash.errors import PlanError
from sash.io.removal import CHECKPOINT_MARK
from sash.plan.least_memory import least_memory
from sash.plan.physical import Plan
from sash.plan.sharing.join_sites import signature_of
from sash.runtime.checkpoint_mark import FORMAT, write_mark
from sash.runtime.jobs import Jobs
from sash.runtime.script import read_script
from support.commands import run_command

STREAMS = """CREATE STREAM a (id INT, k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'a' FORMAT csv;
CREATE STREAM b (id INT, k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'b' FORMAT csv;
"""
PAIRS = "CREATE QUERY pairs AS SELECT A.id, B.id AS other FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS;\n"
LARGE = PAIRS.replace("pairs", "large").replace("5 SECONDS", "1 MINUTE")
COUNTS = """CREATE QUERY counts AS SELECT A.id % 2 AS m, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.id % 2
  WINDOW 9 SECONDS;
"""
MANY = """CREATE QUERY many AS SELECT A.id FROM a A [RANGE 5 SECONDS], b B [RANGE 5 SECONDS], a C [RANGE 5 SECONDS]
  WHERE A.k = B.k AND B.k = C.k;
"""
NEEDS_TWO = "counts runs alone: it needs 2 stages, and its join was started with 1"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs `sash` in a directory of its own, which must succeed; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    def run(*arguments: str) -> str:
        code, (out, err) = run_command(monkeypatch, *arguments), capsys.readouterr()
        assert code == 0, err
        return out

    return run


@pytest.fixture
def shared_by_runs(command: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Who shares a join if `sash run` is called, which here runs nothing."""
    found: list[Jobs] = []
    monkeypatch.setattr("sash.cli.run.check_outputs", lambda jobs, may_resume: None)
    monkeypatch.setattr("sash.cli.run.remove_outputs", lambda runs, shared: remove_checkpoints())
    monkeypatch.setattr("sash.cli.run._run_engine", lambda jobs, *others: found.append(jobs))
    monkeypatch.setattr("sash.cli.run.show_changes", lambda run, rows: None)
    monkeypatch.setattr("sash.cli.run.show_summary", lambda *facts: None)

    def run(*options: str) -> list[list[str]]:
        command("run", "script.sql", *options)
        return [[*job.plan.queries] for job in found.pop().all if job.plan.trunk is not None]

    return run


def write(text: str, n_fragments: int | None) -> None:
    """A script over both streams, and the mark of a checkpoint of the join, started with so many stages."""
    Path("script.sql").write_text(STREAMS + text)
    if n_fragments is not None:
        signature = signature_of(next(iter(read_script("script.sql").plans.values())))
        place = Path(shared_checkpoints(Path("script.sql"))) / signature.fingerprint[:16]
        place.mkdir(parents=True)
        write_mark(place, {"format": FORMAT, "fragments": n_fragments})


def remove_checkpoints() -> None:
    for path in marks():
        path.unlink()


def marks() -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path.cwd().rglob(CHECKPOINT_MARK)}


@pytest.mark.parametrize(
    ("script", "n_fragments", "options", "shared", "told"),
    [
        (PAIRS, None, (), [], "Query pairs\n"),
        (PAIRS, 1, (), [["pairs"]], "  goes on from its checkpoint, with 1 stage\n"),
        (PAIRS, 1, ("--fresh",), [], "Query pairs\n"),
        (PAIRS, 1, ("--engine", "embedded"), [], "Query pairs\n"),
        (PAIRS + COUNTS, None, (), [["pairs", "counts"]], "once for 2 queries: pairs and counts\n"),
        (PAIRS + COUNTS, 1, (), [["pairs"]], NEEDS_TWO),
        (PAIRS + COUNTS, 2, (), [["pairs", "counts"]], "  goes on from its checkpoint, with 2 stages\n"),
        (PAIRS + LARGE + COUNTS, 1, (), [["pairs", "large"]], NEEDS_TWO),
        (PAIRS + LARGE + COUNTS, 1, ("--fresh",), [["pairs", "large", "counts"]], "once for 3 queries"),
    ],
)
def test_who_shares_is_told_as_it_runs(
    script: str,
    n_fragments: int | None,
    options: tuple[str, ...],
    shared: list[list[str]],
    told: str,
    command: Callable[..., str],
    shared_by_runs: Callable[..., list[list[str]]],
) -> None:
    write(script, n_fragments)
    before = marks()
    text = command("explain", "script.sql", *options)
    assert told in text
    assert ("checkpoint" in text) == (n_fragments is not None and not options)
    assert ("Shared join" in text) == bool(shared)
    assert marks() == before
    assert shared_by_runs(*options) == shared


@pytest.mark.parametrize(
    ("noted", "what"),
    [
        (
            {"format": FORMAT - 1},
            f"was written by another version of Sash: its format is {FORMAT - 1}, this version",
        ),
        ({}, "is damaged: it is not what was written"),
    ],
)
@pytest.mark.parametrize("way_in", ["explain", "run"])
def test_a_checkpoint_that_the_run_refuses_is_refused(
    noted: dict[str, int],
    what: str,
    way_in: str,
    command: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(PAIRS, 1)
    (mark,) = marks()
    mark.write_text(json.dumps(json.loads(mark.read_bytes()) | {"fragments": 2} | noted))
    assert run_command(monkeypatch, way_in, "script.sql") == 1
    assert f"{mark} {what}" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.usefixtures("without_limit")
def test_the_engine_says_in_which_order_queries_are_served(command: Callable[..., str]) -> None:
    write(PAIRS + LARGE, None)
    assert "(LWO): on Spark all answers leave with their batch" in command("explain", "script.sql", "--verbose")
    here = command("explain", "script.sql", "--verbose", "--engine", "embedded")
    assert "in this process by how many tuples come at once" in here


def test_each_plan_of_a_script_has_the_whole_limit_in_this_process(
    command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PAIRS.replace("pairs", "others").replace("A.k = B.k", "A.id = B.id")
    write(PAIRS + other, None)
    least = [least_memory([Plan.alone(each)]) for each in read_script("script.sql").plans.values()]
    monkeypatch.setenv("SASH_MEMORY", str(max(least)))
    told = command("explain", "script.sql", "--engine", "embedded").split("\n\n")
    assert [each.split(" ")[0] for each in told] == ["Query", "Memory:", "Query", "Memory:"]
    command("run", "script.sql", "--engine", "embedded")


def test_on_spark_memory_alone_is_a_limit(command: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    write(PAIRS, None)
    monkeypatch.setenv("SASH_MEMORY", "16k")
    assert "Memory" not in command("explain", "script.sql")
    assert command("explain", "script.sql", "--memory", "1m").count("Memory: 1 MiB of each machine") == 1


@pytest.mark.usefixtures("without_limit")
def test_where_memory_is_limited_joins_of_many_probe(
    command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(MANY, None)
    limited = "as memory is limited: no other algorithm finds tuples on disk"
    assert limited in command("explain", "script.sql", "--verbose")
    here = ("explain", "script.sql", "--verbose", "--engine", "embedded")
    assert limited not in command(*here)
    assert limited in command(*here, "--memory", "1m")
    write(MANY.replace("SELECT", "SELECT /*+ hw */"), None)
    assert limited not in command(*here, "--memory", "1m")


def test_why_queries_run_alone_is_told_though_nobody_shares(command: Callable[..., str]) -> None:
    alone = "CREATE QUERY {} AS SELECT A.id FROM a A WINDOW 5 SECONDS;\n"
    write(alone.format("one") + alone.format("other"), None)
    text = command("explain", "script.sql")
    assert "Query one runs alone: it joins no two streams\n" in text
    assert "Query other runs alone: it joins no two streams\n" in text


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (("--engine", "spark"), "--analyze runs the queries in this process; leave --engine spark out, or --analyze"),
        (("--fresh",), "--analyze goes on from nothing and leaves nothing behind; leave --fresh out, or --analyze"),
    ],
)
def test_what_does_not_go_with_analyze_is_refused(
    option: tuple[str, ...],
    why: str,
    command: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(PAIRS, None)
    assert run_command(monkeypatch, "explain", "script.sql", "--analyze", *option) == 1
    assert why in capsys.readouterr().err
    command("explain", "script.sql", "--analyze", "--engine", "embedded")


def test_a_session_in_this_process_goes_on_from_no_checkpoint() -> None:
    session = sash.Session()
    session.stream("a", pa.schema({"ts": pa.timestamp("us"), "k": pa.int64()}), time="ts")
    session.query("all", "SELECT k FROM a WINDOW 5 SECONDS")
    for explain in (lambda: session.explain(checkpoint="there"), lambda: session.explain(stages=2)):
        with pytest.raises(PlanError, match="leave `checkpoint` and `stages` out: they are for Spark streams"):
            explain()
